"""An endpoint that speaks the OpenAI chat protocol: the texts of the pairs asked about are sent to it."""

import asyncio
import hashlib
import json
import os
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
)

from noisyir.auditing.asking.address import address_of
from noisyir.auditing.asking.answer import Verdict
from noisyir.auditing.asking.budget import Budget, BudgetLedger
from noisyir.auditing.asking.conversation import Conversation, Endpoint, RetryPolicy
from noisyir.auditing.asking.judges import Answer, JudgeAnswers, JudgeUsage, MachineJudge, Question, QuestionQueue
from noisyir.errors import MissingPackageError, StoreError

KEPT = "judge-answers.jsonl"
_WORDS: dict[str, Answer] = {
    "right": Answer("clean", 0.0),
    "wrong": Answer("wrong", 1.0),
    "unsure": Answer("unclear", 0.5),
}
_FRAME = 200  # tokens, at most, that an endpoint puts around the messages
_BYTES_OF_A_TOKEN = 4.0
_EXPECTED_ANSWER = 60.0  # tokens


class KeptAnswer(BaseModel):
    """A verdict under the digest of what was asked of whom; prompt: the digest of the prompt's file."""

    model_config = ConfigDict(frozen=True)

    key: str
    judge: str
    prompt: str
    verdict: Verdict
    at: str


class KeptAnswers:
    """The file, read for the keys that are wanted and open for more.

    Each answer is one line, written by one call, so that one whose writer was killed lacks its end: such a half line is
    passed over, and so is one that cannot be read.  StoreError where the file cannot be read or written.
    """

    def __init__(self, path: Path, wanted: Set[str]) -> None:
        self.path = path
        self.found: dict[str, KeptAnswer] = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            whole = self._read(wanted)
            if not whole:  # else the next answer would go on with the half line
                os.write(self._file, b"\n")
        except OSError as error:
            raise StoreError(f"cannot keep a judge's answers in {path}: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        os.close(self._file)

    def add(self, answer: KeptAnswer) -> None:
        """Keep an answer.  StoreError where the disk does not take it whole."""
        self.found[answer.key] = answer
        line = json.dumps(answer.model_dump(), ensure_ascii=True).encode() + b"\n"
        try:
            written = os.write(self._file, line)
        except OSError as error:
            raise StoreError(f"cannot keep a judge's answers in {self.path}: {error}") from error
        if written < len(line):
            raise StoreError(f"cannot keep a judge's answers in {self.path}: the disk is full")

    def _read(self, wanted: Set[str]) -> bool:
        """Find the wanted answers, the last of each; whether the file ends with a whole line."""
        line = b"\n"
        with self.path.open("rb") as lines:
            for line in lines:
                answer = _kept_answer(line)
                if answer is not None and answer.key in wanted:
                    self.found[answer.key] = answer
        return line.endswith(b"\n")


class Chat(MachineJudge):
    """A language model behind an address, asked about one pair at a time."""

    kind: Literal["chat"] = "chat"

    url: str = Field(description="address of the endpoint, such as https://HOST/v1")
    model: str = Field(min_length=1, description="the model's name there")
    text_chars: PositiveInt = Field(6000, description="characters of the query, and of the document, that are sent")
    at_once: PositiveInt = Field(4, description="calls under way at the same time")
    seconds: PositiveFloat = Field(60.0, description="longest that one call may take")
    retries: NonNegativeInt = Field(
        5, description="times a call is sent again after status 429, 5xx or a lost connection"
    )
    pause: PositiveFloat = Field(1.0, description="seconds before the first of these, doubled before each next")
    longest_wait: PositiveFloat = Field(300.0, description="most seconds to wait where the endpoint says how long")
    answer_tokens: PositiveInt = Field(300, description="tokens that an answer may have")
    json_mode: bool = Field(True, description="send response_format, which some servers do not know")
    price_in: NonNegativeFloat | None = Field(None, description="price of 1,000 tokens read; null: no cost is shown")
    price_out: NonNegativeFloat | None = Field(None, description="price of 1,000 tokens written")

    def check(self, budget: Budget) -> None:
        """ConfigError as `address_of`; MissingPackageError without httpx."""
        address_of(self.url)
        if find_spec("httpx") is None:
            raise MissingPackageError("--judge-url needs a package: pip install 'noisyir[judge]'")

    @property
    def name(self) -> str:
        """The model's name and the prompt's version."""
        return f"model:{self.model}@{load_prompt().version}"

    def expected_tokens(self, question: Question) -> float:
        """By the usual length of a token."""
        messages = load_prompt().messages(*self._cut(question))
        return _bytes(messages) / _BYTES_OF_A_TOKEN + _EXPECTED_ANSWER

    def cost(self, spent: JudgeUsage) -> float | None:
        """Tokens times prices, a missing price being 0; None where neither is set."""
        if self.price_in is None and self.price_out is None:
            return None
        price = spent.prompt_tokens * (self.price_in or 0.0) + spent.completion_tokens * (self.price_out or 0.0)
        return price / 1000

    def ask(self, asking: QuestionQueue) -> JudgeAnswers:
        """Send what was not answered before, several at once, within the budget; equal texts are sent once."""
        digest = load_prompt().digest
        questions = [self._cut(question) for question in asking.questions]
        keys = [digest_of(digest, self.model, *question) for question in questions]
        with KeptAnswers(asking.home / KEPT, set(keys)) as kept:
            spent = JudgeUsage(kept=sum(key in kept.found for key in keys))
            asked = dict(zip(keys, questions, strict=True))
            unsent = asyncio.run(
                self._send(asking, {k: q for k, q in asked.items() if k not in kept.found}, kept, spent)
            )
            found = [kept.found.get(key) for key in keys]
        spent.left = sum(key in unsent for key in keys)
        return JudgeAnswers([_answer(answer.verdict) if answer else None for answer in found], spent)

    async def _send(
        self, asking: QuestionQueue, questions: Mapping[str, Question], kept: KeptAnswers, spent: JudgeUsage
    ) -> Set[str]:
        """Ask each question and keep what is answered; the keys of those that were never sent."""
        import httpx

        address, prompt, ledger = address_of(self.url), load_prompt(), BudgetLedger(asking.budget)
        patience = RetryPolicy(self.retries, self.pause, self.longest_wait)
        waiting, unsent, done = iter(questions.items()), set(questions), 0
        # The environment names proxies and certificates; none is asked on the way to this machine itself.
        headers = {**address.headers, "Accept-Encoding": "identity"}
        async with httpx.AsyncClient(headers=headers, timeout=None, trust_env=not address.local) as client:
            talk = Conversation(Endpoint(address, client, self._asked(), self.seconds), ledger, patience, spent)

            async def work() -> None:
                nonlocal done
                for key, question in waiting:
                    messages = prompt.messages(*question)
                    reply = await talk.ask(messages, _bytes(messages) + _FRAME + self.answer_tokens)
                    if reply is not None:
                        unsent.remove(key)
                    if reply is not None and reply.verdict is not None:
                        kept.add(_kept(key, self.name, prompt.digest, reply.verdict))
                    done += 1
                    asking.progress(done, len(questions), self._so_far(spent))

            await asyncio.gather(*(work() for _ in range(self.at_once)))
        return unsent

    def _asked(self) -> dict[str, object]:
        """The fields that go with every question, beside the messages."""
        asked = {"model": self.model, "temperature": 0, "max_tokens": self.answer_tokens, "stream": False}
        return asked | ({"response_format": {"type": "json_object"}} if self.json_mode else {})

    def _so_far(self, spent: JudgeUsage) -> str:
        cost = self.cost(spent)
        tokens = spent.prompt_tokens + spent.completion_tokens
        return f"{spent.calls:,} calls, {tokens:,} tokens" + ("" if cost is None else f", cost {cost:.4g}")

    def _cut(self, question: Question) -> Question:
        return Question(question.query[: self.text_chars], question.document[: self.text_chars])


def _kept(key: str, judge: str, prompt: str, verdict: Verdict) -> KeptAnswer:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return KeptAnswer(key=key, judge=judge, prompt=prompt, verdict=verdict, at=now)


def _answer(verdict: Verdict) -> Answer:
    return _WORDS[verdict.verdict]._replace(reason=verdict.reason)


def _bytes(messages: Sequence[dict[str, str]]) -> int:
    """Of the texts, which no tokenizer turns into more tokens than they have bytes."""
    return sum(len(message["content"].encode("utf-8", "replace")) for message in messages)


def _kept_answer(line: bytes) -> KeptAnswer | None:
    if not line.endswith(b"\n"):
        return None
    try:
        return KeptAnswer.model_validate_json(line)
    except ValidationError:
        return None


VERSION = "v1"
_CUT = "\n---\n"  # between what the judge is told and what it is given


@dataclass(frozen=True)
class Prompt:
    """A prompt's two parts and the digest of its file, which is in the key of each answer."""

    version: str
    digest: str
    told: str
    given: str

    def messages(self, query: str, document: str) -> list[dict[str, str]]:
        """The question as messages of the chat protocol.

        The fence bears a mark that is made from both texts, so that neither can hold it: a document that was written to
        close its own fence would have to contain a digest of itself.
        """
        mark = digest_of(self.digest, query, document)[:16]
        given = self.given.format(mark=mark, query=query, document=document)
        return [{"role": "system", "content": self.told.format(mark=mark)}, {"role": "user", "content": given}]


@cache
def load_prompt(version: str = VERSION) -> Prompt:
    """The packaged prompt of this version."""
    text = files("noisyir.auditing.asking").joinpath(f"prompt_{version}.txt").read_text(encoding="utf-8")
    told, _, given = text.partition(_CUT)
    return Prompt(version, hashlib.sha256(text.encode()).hexdigest(), told, given)


def digest_of(*parts: str) -> str:
    """A digest of several texts that no other division into texts shares."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(f"{len(data)}:".encode() + data)
    return digest.hexdigest()
