"""Strict readers of an endpoint's replies: a verdict in words, a probability, or no answer."""

import json
import math
import re
from typing import Any, Literal

from pydantic import AliasPath, BaseModel, ConfigDict, Field, ValidationError

from noisyir.audits.model_judges.judges import Answer
from noisyir.data.text_files import each_key_once

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


class Usage(BaseModel):
    """Tokens that the endpoint reports to have read and written."""

    prompt_tokens: int = Field(ge=0, strict=True)
    completion_tokens: int = Field(ge=0, strict=True)


class _Words(BaseModel):
    """A reply in words."""

    content: str | None = Field(validation_alias=AliasPath("choices", 0, "message", "content"))


class _Token(BaseModel):
    token: str
    logprob: float | None


class _Place(_Token):
    top_logprobs: list[_Token] = []


class _Chances(BaseModel):
    """A reply with the log-probabilities of its tokens."""

    places: list[_Place] = Field(min_length=1, validation_alias=AliasPath("choices", 0, "logprobs", "content"))


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
        content = _Words.model_validate(body).content
    except ValidationError as error:
        raise ValueError(f"is no reply of the chat protocol ({_fault(error)})") from None
    if not content or not content.strip():
        raise ValueError("holds an empty message")
    try:
        return _Verdict.model_validate(json.loads(content, object_pairs_hook=each_key_once)).answer()
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
        places = _Chances.model_validate(body).places
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


def _fault(error: ValidationError) -> str:
    first = error.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'the whole'}: {first['msg']}"
