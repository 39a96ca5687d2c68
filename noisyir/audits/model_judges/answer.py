"""Strict readers of an endpoint's replies: a verdict in words, a probability, or no answer."""

import json
import math
import re
from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from noisyir.audits.model_judges.judges import Answer

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_LONGEST_REASON = 500  # characters that are kept
_AROUND = " \t\r\n\u2581\u0120\"'`*_.,:;!()[]"  # around a token: spaces, as tokenizers write them, and marks
_NO_CHANCE = "answers in words where a probability was promised"


class NoProbabilityError(ValueError):
    """A judge gave no probability, and will give none later."""


class _Verdict(BaseModel):
    """The exact shape of an answer to the prompt."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    verdict: Literal["right", "wrong", "unsure"]
    reason: str

    def answer(self) -> Answer:
        """The same in the audit's words."""
        words: dict[str, Literal["wrong", "clean", "unclear"]] = {"right": "clean", "unsure": "unclear"}
        return Answer(words.get(self.verdict, "wrong"), None, printable(self.reason)[:_LONGEST_REASON])


class _Message(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    message: _Message


class Usage(BaseModel):
    """Tokens that the endpoint reports to have read and written."""

    prompt_tokens: int = Field(ge=0, strict=True)
    completion_tokens: int = Field(ge=0, strict=True)


class _Reply(BaseModel):
    choices: list[_Choice] = Field(min_length=1)


class _Token(BaseModel):
    token: str
    logprob: float | None


class _Place(_Token):
    top_logprobs: list[_Token] = []


class _Chances(BaseModel):
    content: list[_Place] = Field(min_length=1)


class _ChoiceOfChances(BaseModel):
    logprobs: _Chances


class _ReplyOfChances(BaseModel):
    choices: list[_ChoiceOfChances] = Field(min_length=1)


def usage_of(body: Any) -> Usage | None:
    """The reply's count of tokens; None if it has no valid one."""
    try:
        return Usage.model_validate(body["usage"])
    except (ValidationError, KeyError, TypeError):
        return None


def in_words(body: Any) -> Answer:
    """The verdict in a reply of the chat protocol.

    Raises:
        ValueError: If the reply is anything else; its text names the fault.
    """
    try:
        content = _Reply.model_validate(body).choices[0].message.content
    except ValidationError as error:
        raise ValueError(f"is no reply of the chat protocol ({_fault(error)})") from None
    if not content or not content.strip():
        raise ValueError("holds an empty message")
    try:
        return _Verdict.model_validate(json.loads(content, object_pairs_hook=_once)).answer()
    except ValidationError as error:
        raise ValueError(f"answers in another form than asked for ({_fault(error)})") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"holds a message that is not one JSON object ({error})") from None


def yes_or_no(body: Any) -> Answer:
    """The probability that the answer's first word is no and not yes, from log-probabilities.

    Tokens that differ only in case, spaces and marks are one word.  A word outside the listed tokens gets the
    probability of the last listed one, its upper bound.

    Raises:
        NoProbabilityError: If the reply has no log-probabilities.
        ValueError: If neither word is listed.
    """
    try:
        places = _ReplyOfChances.model_validate(body).choices[0].logprobs.content
    except ValidationError:
        raise NoProbabilityError(f"{_NO_CHANCE}; ask.judge.answer=words takes them") from None
    first = next((place for place in places if place.token.strip(_AROUND)), places[0])
    listed = {one.token: min(one.logprob, 0.0) for one in [*first.top_logprobs, first] if one.logprob is not None}
    chance = {"yes": 0.0, "no": 0.0}
    for token, logprob in listed.items():
        if (word := token.strip(_AROUND).lower()) in chance:
            chance[word] += math.exp(logprob)
    if not sum(chance.values()):
        raise ValueError(f"begins with neither yes nor no, but with {first.token!r:.40}")
    least = math.exp(min(listed.values()))
    yes, no = (found or least for found in chance.values())
    return Answer.by_chance(no / (yes + no))


def printable(text: str) -> str:
    """The text on one line, without control characters."""
    return _UNPRINTABLE.sub(" ", text).encode("utf-8", "replace").decode()


def _once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The object, if no name occurs twice."""
    found = list(pairs)
    if len(dict(found)) < len(found):
        raise ValueError("a name stands twice")
    return dict(found)


def _fault(error: ValidationError) -> str:
    first = error.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'the whole'}: {first['msg']}"
