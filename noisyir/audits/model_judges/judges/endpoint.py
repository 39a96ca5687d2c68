"""Judges behind an address: the texts of the pairs asked about are sent to it, and to nobody else."""

import asyncio
import json
import os
from collections.abc import Callable, Mapping, Sequence, Set
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Self

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

from noisyir.audits.model_judges.address import address_of, refuse_odd_host
from noisyir.audits.model_judges.answer import Verdict
from noisyir.audits.model_judges.budget import Budget, BudgetLedger
from noisyir.audits.model_judges.conversation import Conversation, Endpoint, EndpointCall, RetryPolicy
from noisyir.audits.model_judges.judges import Answer, JudgeAnswers, JudgeUsage, MachineJudge, Question, QuestionQueue
from noisyir.audits.model_judges.prompt import Prompt, digest_of
from noisyir.base.errors import MissingPackageError, StoreError, install_hint

KEPT = "judge-answers.jsonl"
_FRAME = 200  # tokens, at most, that an endpoint puts around the texts
_BYTES_OF_A_TOKEN = 4.0


class KeptAnswer(BaseModel):
    """An answer under the digest of what was asked of whom; prompt: the digest of the prompt's file.

    p_wrong: as an answer has it.
    """

    model_config = ConfigDict(frozen=True)

    key: str
    judge: str
    prompt: str
    verdict: Verdict
    p_wrong: float | None = None
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
            raise StoreError("audits.cannot_keep_judges_answers_2", path=path, error=error) from error

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
            raise StoreError("audits.cannot_keep_judges_answers_2", path=self.path, error=error) from error
        if written < len(line):
            raise StoreError("audits.cannot_keep_judges_answers", path=self.path)

    def _read(self, wanted: Set[str]) -> bool:
        """Find the wanted answers, the last of each; whether the file ends with a whole line."""
        line = b"\n"
        with self.path.open("rb") as lines:
            for line in lines:
                answer = _kept_answer(line)
                if answer is not None and answer.key in wanted:
                    self.found[answer.key] = answer
        return line.endswith(b"\n")


def _kept_answer(line: bytes) -> KeptAnswer | None:
    if not line.endswith(b"\n"):
        return None
    try:
        return KeptAnswer.model_validate_json(line)
    except ValidationError:
        return None


class QuestionForm(NamedTuple):
    """A way to put a question: its prompt, the body that is sent, how the reply is read, tokens that an answer has."""

    prompt: Prompt
    body: Callable[[Question], dict[str, Any]]
    read: Callable[[Any], Answer]
    most_tokens: int
    usual_tokens: float

    def call(self, question: Question) -> EndpointCall:
        """The question as it is sent; no tokenizer turns a text into more tokens than it has bytes."""
        most = self.prompt.size(*question) + _FRAME + self.most_tokens
        return EndpointCall(self.body(question), self.read, most)


class EndpointJudge(MachineJudge):
    """A model behind an address, asked about one pair at a time."""

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
    price_in: NonNegativeFloat | None = Field(None, description="price of 1,000 tokens read; null: no cost is shown")
    price_out: NonNegativeFloat | None = Field(None, description="price of 1,000 tokens written")

    def forms(self) -> Sequence[QuestionForm]:
        """The ways to ask it, the best first: the next one is for an endpoint that does not answer the first."""
        raise NotImplementedError

    def check(self, budget: Budget) -> None:
        """ConfigError as `address_of`; MissingPackageError without httpx."""
        address = address_of(self.url)
        if find_spec("httpx") is None:
            raise MissingPackageError("audits.judge_url_needs_package", install_hint=install_hint("judge"))
        refuse_odd_host(address)

    def expected_tokens(self, question: Question) -> float:
        """By the usual length of a token, in the form that takes most of them."""
        form = self.forms()[-1]
        return form.prompt.size(*self._cut(question)) / _BYTES_OF_A_TOKEN + form.usual_tokens

    def cost(self, spent: JudgeUsage) -> float | None:
        """Tokens times prices, a missing price being 0; None where neither is set."""
        if self.price_in is None and self.price_out is None:
            return None
        price = spent.prompt_tokens * (self.price_in or 0.0) + spent.completion_tokens * (self.price_out or 0.0)
        return price / 1000

    def ask(self, asking: QuestionQueue) -> JudgeAnswers:
        """Send what was not answered before, several at once, within the budget; equal texts are sent once."""
        questions = [self._cut(question) for question in asking.questions]
        by_form = {form: [self._key(form, question) for question in questions] for form in self.forms()}
        with KeptAnswers(asking.home / KEPT, {key for keys in by_form.values() for key in keys}) as kept:
            spent = JudgeUsage()
            unsent: Set[str] = set()
            form = _form_of_kept(by_form, kept.found)
            before = set(kept.found)
            if form is None or not before.issuperset(by_form[form]):
                form, unsent = asyncio.run(self._send(asking, questions, form, kept, spent))
            keys = by_form[form]
            answers = [_answer(kept.found.get(key)) for key in keys]
        spent.kept, spent.left = sum(key in before for key in keys), sum(key in unsent for key in keys)
        if spent.calls and spent.stopped is None and not (spent.heard and any(answers)):
            last = next(reversed(spent.faults), "the budget holds no more")
            spent.stopped = f"no question was answered; the last: {last}"
        return JudgeAnswers(answers, spent, self._name(form))

    async def _send(
        self,
        asking: QuestionQueue,
        questions: Sequence[Question],
        form: QuestionForm | None,
        kept: KeptAnswers,
        spent: JudgeUsage,
    ) -> tuple[QuestionForm, Set[str]]:
        """Ask each question and keep what is answered; the form that was taken, the keys of those never sent."""
        import httpx

        address, ledger = address_of(self.url), BudgetLedger(asking.budget)
        patience = RetryPolicy(self.retries, self.pause, self.longest_wait)
        # The environment names proxies and certificates; none is asked on the way to this machine itself.
        headers = {**address.headers, "Accept-Encoding": "identity"}
        async with httpx.AsyncClient(headers=headers, timeout=None, trust_env=not address.local) as client:
            talk = Conversation(Endpoint(address, client, self.seconds), ledger, patience, spent)
            form = form or await self._form(talk, questions[0], kept, spent)
            open_ = {key: question for question in questions if (key := self._key(form, question)) not in kept.found}
            waiting, unsent, done = iter(open_.items()), set(open_), 0

            async def work() -> None:
                nonlocal done
                for key, question in waiting:
                    reply = await talk.ask(form.call(question))
                    if reply is not None:
                        unsent.remove(key)
                    if reply is not None and reply.answer is not None:
                        kept.add(self._kept(key, form, reply.answer))
                    done += 1
                    asking.progress(done, len(open_), self._so_far(spent))

            await asyncio.gather(*(work() for _ in range(self.at_once)))
        return form, unsent

    async def _form(self, talk: Conversation, question: Question, kept: KeptAnswers, spent: JudgeUsage) -> QuestionForm:
        """The best form that the endpoint answers, tried on one question where there are several."""
        best, *others = self.forms()
        if not others or (reply := await talk.probe(best.call(question))) is None:
            return best
        if reply.answer is not None:
            kept.add(self._kept(self._key(best, question), best, reply.answer))
        if reply.outcome not in ("nothing", "refused", "words"):
            return best
        spent.in_words = "its reply has no log-probabilities" if reply.outcome == "words" else reply.said
        return others[0]

    def _key(self, form: QuestionForm, question: Question) -> str:
        return digest_of(form.prompt.digest, self.model, *question)

    def _name(self, form: QuestionForm) -> str:
        return f"model:{self.model}@{form.prompt.version}"

    def _kept(self, key: str, form: QuestionForm, answer: Answer) -> KeptAnswer:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        judge, verdict = self._name(form), Verdict.of(answer)
        return KeptAnswer(
            key=key, judge=judge, prompt=form.prompt.digest, verdict=verdict, p_wrong=answer.p_wrong, at=now
        )

    def _so_far(self, spent: JudgeUsage) -> str:
        cost = self.cost(spent)
        tokens = spent.prompt_tokens + spent.completion_tokens
        return f"{spent.calls:,} calls, {tokens:,} tokens" + ("" if cost is None else f", cost {cost:.4g}")

    def _cut(self, question: Question) -> Question:
        return Question(question.query[: self.text_chars], question.document[: self.text_chars])


def _form_of_kept(by_form: Mapping[QuestionForm, Sequence[str]], kept: Mapping[str, KeptAnswer]) -> QuestionForm | None:
    """The form that is known to be answered: the best one that ever was, or the one in which all was; None: try."""
    best = next(iter(by_form))
    if len(by_form) == 1 or any(key in kept for key in by_form[best]):
        return best
    return next((form for form, keys in by_form.items() if all(key in kept for key in keys)), None)


def _answer(kept: KeptAnswer | None) -> Answer | None:
    return None if kept is None else kept.verdict.answer(kept.p_wrong)
