"""An endpoint of the OpenAI chat protocol that returns log-probabilities of yes and no, or words."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from noisyir.audits.model_judges.address import address_of, refuse_odd_host
from noisyir.audits.model_judges.answer import in_words, yes_or_no
from noisyir.audits.model_judges.budget import Budget, BudgetLedger
from noisyir.audits.model_judges.conversation import Conversation, Endpoint, EndpointCall, RetryPolicy
from noisyir.audits.model_judges.judges import Answer, JudgeAnswers, JudgeUsage, MachineJudge, Question, QuestionQueue
from noisyir.audits.model_judges.kept_answers import KEPT, KeptAnswers
from noisyir.audits.model_judges.prompt import Prompt, digest_of, load_prompt
from noisyir.base.errors import MissingPackageError, install_hint

_FRAME = 200  # most tokens that an endpoint puts around the texts
_BYTES_OF_A_TOKEN = 4.0
_LISTED = 5  # likeliest tokens, as many as every server gives
_YES_OR_NO = 4  # tokens, because some answers begin with a space or a line break


class QuestionForm(NamedTuple):
    """A way to ask: the prompt, the body to send, the reader of a reply, and the tokens of an answer."""

    prompt: Prompt
    body: Callable[[Question], dict[str, Any]]
    read: Callable[[Any], Answer]
    most_tokens: int
    usual_tokens: float

    def call(self, question: Question) -> EndpointCall:
        """The question to send; no tokenizer turns a text into more tokens than it has bytes."""
        most = self.prompt.size(*question) + _FRAME + self.most_tokens
        return EndpointCall(self.body(question), self.read, most)


class Chat(MachineJudge, kind="chat"):
    """A language model behind an address, which alone receives the texts: it gives a probability or a verdict."""

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
    answer: Literal["auto", "probability", "words"] = Field(
        "auto", description="form of the answer; auto: a probability, and words where the endpoint gives none"
    )
    answer_tokens: PositiveInt = Field(300, description="tokens that an answer in words may have")
    json_mode: bool = Field(True, description="send response_format with words, which some servers do not know")

    def forms(self) -> Sequence[QuestionForm]:
        """A probability, words, or one before the other."""
        prompts = load_prompt("yes_no_v1"), load_prompt("v1")
        chance = QuestionForm(prompts[0], self._for_a_chance, yes_or_no, _YES_OR_NO, 1.0)
        words = QuestionForm(prompts[1], self._for_words, in_words, self.answer_tokens, 60.0)
        return {"auto": (chance, words), "probability": (chance,), "words": (words,)}[self.answer]

    def check(self, budget: Budget) -> None:
        """Check the address.

        Raises:
            ConfigError: If the address or the key cannot be used.
            MissingPackageError: If httpx is not installed.
        """
        address = address_of(self.url)
        if find_spec("httpx") is None:
            raise MissingPackageError("audits.judge_package_missing", install_hint=install_hint("judge"))
        refuse_odd_host(address)

    def expected_tokens(self, question: Question) -> float:
        """The estimate for the longest form, from the usual length of a token."""
        form = self.forms()[-1]
        return form.prompt.size(*self._cut(question)) / _BYTES_OF_A_TOKEN + form.usual_tokens

    def ask(self, asking: QuestionQueue) -> JudgeAnswers:
        """Send the unanswered questions, several at once, within the budget; equal texts are sent once."""
        questions = [self._cut(question) for question in asking.questions]
        by_form = {form: [self._key(form, question) for question in questions] for form in self.forms()}
        with KeptAnswers(asking.home / KEPT) as kept:
            kept.load({key for keys in by_form.values() for key in keys})
            spent = JudgeUsage()
            unsent: Set[str] = set()
            form = _form_of_kept(by_form, kept.found)
            before = set(kept.found)
            if form is None or not before.issuperset(by_form[form]):
                form, unsent = asyncio.run(self._send(asking, questions, form, kept, spent))
            keys = by_form[form]
            answers = [kept.found.get(key) for key in keys]
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
        """Ask each question and keep the answers.

        Returns:
            The form in use, and the keys of the questions that were never sent.
        """
        import httpx

        address, ledger = address_of(self.url), BudgetLedger(asking.budget)
        retry = RetryPolicy(self.retries, self.pause, self.longest_wait)
        # Proxies and certificates come from the environment, except on the way to this machine itself.
        headers = {**address.headers, "Accept-Encoding": "identity"}
        async with httpx.AsyncClient(headers=headers, timeout=None, trust_env=not address.local) as client:
            conversation = Conversation(Endpoint(address, client, self.seconds), ledger, retry, spent)
            form = form or await self._form(conversation, questions[0], kept, spent)
            open_ = {key: question for question in questions if (key := self._key(form, question)) not in kept.found}
            waiting, unsent, done = iter(open_.items()), set(open_), 0

            async def work() -> None:
                nonlocal done
                for key, question in waiting:
                    reply = await conversation.ask(form.call(question))
                    if reply is not None:
                        unsent.remove(key)
                    if reply is not None and reply.answer is not None:
                        kept.add(key, reply.answer, self._name(form))
                    done += 1
                    asking.progress(done, len(open_), spent.so_far)

            await asyncio.gather(*(work() for _ in range(self.at_once)))
        return form, unsent

    async def _form(
        self, conversation: Conversation, question: Question, kept: KeptAnswers, spent: JudgeUsage
    ) -> QuestionForm:
        """The best form that the endpoint answers; several are tried on one question."""
        best, *others = self.forms()
        if not others or (reply := await conversation.probe(best.call(question))) is None:
            return best
        if reply.answer is not None:
            kept.add(self._key(best, question), reply.answer, self._name(best))
        if reply.outcome not in ("nothing", "refused", "words"):
            return best
        spent.in_words = "its reply has no log-probabilities" if reply.outcome == "words" else reply.fault
        return others[0]

    def _for_a_chance(self, question: Question) -> dict[str, Any]:
        listed = {"max_tokens": _YES_OR_NO, "logprobs": True, "top_logprobs": _LISTED}
        return self._body("yes_no_v1", question) | listed

    def _for_words(self, question: Question) -> dict[str, Any]:
        asked = {"max_tokens": self.answer_tokens}
        asked_in_json = {"response_format": {"type": "json_object"}} if self.json_mode else {}
        return self._body("v1", question) | asked | asked_in_json

    def _body(self, version: str, question: Question) -> dict[str, Any]:
        messages = load_prompt(version).messages(*question)
        return {"model": self.model, "temperature": 0, "stream": False, "messages": messages}

    def _key(self, form: QuestionForm, question: Question) -> str:
        return digest_of(form.prompt.digest, self.model, *question)

    def _name(self, form: QuestionForm) -> str:
        return f"model:{self.model}@{form.prompt.version}"

    def _cut(self, question: Question) -> Question:
        return Question(question.query[: self.text_chars], question.document[: self.text_chars])


def _form_of_kept(by_form: Mapping[QuestionForm, Sequence[str]], kept: Collection[str]) -> QuestionForm | None:
    """The best form if it was ever answered, else one that was always; None if a probe must tell."""
    best = next(iter(by_form))
    if len(by_form) == 1 or any(key in kept for key in by_form[best]):
        return best
    return next((form for form, keys in by_form.items() if all(key in kept for key in keys)), None)
