"""The answer of an endpoint, taken apart without mercy: one JSON object of a known shape, or no answer."""

import json
import re
from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
LONGEST_REASON = 500  # characters that are kept


class Verdict(BaseModel):
    """The shape of an answer to the prompt, and nothing beside it."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    verdict: Literal["right", "wrong", "unsure"]
    reason: str


class _Message(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    message: _Message


class Usage(BaseModel):
    """Tokens that the endpoint says it read and wrote."""

    prompt_tokens: int = Field(ge=0, strict=True)
    completion_tokens: int = Field(ge=0, strict=True)


class _Reply(BaseModel):
    choices: list[_Choice] = Field(min_length=1)


def usage_of(body: Any) -> Usage | None:
    """The reply's count of tokens; None where it gives none that can be one."""
    try:
        return Usage.model_validate(body["usage"])
    except (ValidationError, KeyError, TypeError):
        return None


def verdict_of(body: Any) -> Verdict:
    """The verdict that a reply of the chat protocol holds.  ValueError, saying what is wrong, for anything else."""
    try:
        content = _Reply.model_validate(body).choices[0].message.content
    except ValidationError as error:
        raise ValueError(f"is no reply of the chat protocol ({_fault(error)})") from None
    if not content or not content.strip():
        raise ValueError("holds an empty message")
    try:
        found = Verdict.model_validate(json.loads(content, object_pairs_hook=_once))
    except ValidationError as error:
        raise ValueError(f"answers in another form than asked for ({_fault(error)})") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"holds a message that is not one JSON object ({error})") from None
    return found.model_copy(update={"reason": printable(found.reason)[:LONGEST_REASON]})


def printable(text: str) -> str:
    """The text on one line, without what would steer a terminal."""
    return _UNPRINTABLE.sub(" ", text).encode("utf-8", "replace").decode()


def _once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """An object none of whose names stands twice, for then it says two things."""
    found = list(pairs)
    if len(dict(found)) < len(found):
        raise ValueError("a name stands twice")
    return dict(found)


def _fault(error: ValidationError) -> str:
    first = error.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'the whole'}: {first['msg']}"
