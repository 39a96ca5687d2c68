"""An endpoint that speaks the OpenAI chat protocol: the texts of the pairs asked about are sent to it."""

import asyncio
from collections.abc import Mapping, Sequence, Set
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from noisyir.auditing.asking.address import address_of
from noisyir.auditing.asking.answer import Verdict
from noisyir.auditing.asking.conversation import Conversation, Patience
from noisyir.auditing.asking.endpoint import Endpoint
from noisyir.auditing.asking.judges import Answer, Answers, Asking, MachineJudge, Question, Spent
from noisyir.auditing.asking.kept_answers import KeptAnswer, KeptAnswers
from noisyir.auditing.asking.prompt import digest_of, load_prompt
from noisyir.auditing.asking.purse import Budget, Purse
from noisyir.errors import MissingPackageError

KEPT = "judge-answers.jsonl"
_WORDS: dict[str, Answer] = {
    "right": Answer("clean", 0.0),
    "wrong": Answer("wrong", 1.0),
    "unsure": Answer("unclear", 0.5),
}
_FRAME = 200  # tokens, at most, that an endpoint puts around the messages
_BYTES_OF_A_TOKEN = 4.0
_EXPECTED_ANSWER = 60.0  # tokens


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

    def cost(self, spent: Spent) -> float | None:
        """Tokens times prices, a missing price being 0; None where neither is set."""
        if self.price_in is None and self.price_out is None:
            return None
        price = spent.prompt_tokens * (self.price_in or 0.0) + spent.completion_tokens * (self.price_out or 0.0)
        return price / 1000

    def ask(self, asking: Asking) -> Answers:
        """Send what was not answered before, several at once, within the budget; equal texts are sent once."""
        digest = load_prompt().digest
        questions = [self._cut(question) for question in asking.questions]
        keys = [digest_of(digest, self.model, *question) for question in questions]
        with KeptAnswers(asking.home / KEPT, set(keys)) as kept:
            spent = Spent(kept=sum(key in kept.found for key in keys))
            asked = dict(zip(keys, questions, strict=True))
            unsent = asyncio.run(
                self._send(asking, {k: q for k, q in asked.items() if k not in kept.found}, kept, spent)
            )
            found = [kept.found.get(key) for key in keys]
        spent.left = sum(key in unsent for key in keys)
        return Answers([_answer(answer.verdict) if answer else None for answer in found], spent)

    async def _send(
        self, asking: Asking, questions: Mapping[str, Question], kept: KeptAnswers, spent: Spent
    ) -> Set[str]:
        """Ask each question and keep what is answered; the keys of those that were never sent."""
        import httpx

        address, prompt, purse = address_of(self.url), load_prompt(), Purse(asking.budget)
        patience = Patience(self.retries, self.pause, self.longest_wait)
        waiting, unsent, done = iter(questions.items()), set(questions), 0
        # The environment names proxies and certificates; none is asked on the way to this machine itself.
        headers = {**address.headers, "Accept-Encoding": "identity"}
        async with httpx.AsyncClient(headers=headers, timeout=None, trust_env=not address.local) as client:
            talk = Conversation(Endpoint(address, client, self._asked(), self.seconds), purse, patience, spent)

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
        """What goes with every question, beside the messages."""
        asked = {"model": self.model, "temperature": 0, "max_tokens": self.answer_tokens, "stream": False}
        return asked | ({"response_format": {"type": "json_object"}} if self.json_mode else {})

    def _so_far(self, spent: Spent) -> str:
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
