"""One request to an endpoint that speaks the OpenAI chat protocol, and what came back; it never asks twice."""

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from noisyir.auditing.asking.address import Address
from noisyir.auditing.asking.answer import Usage, Verdict, printable, usage_of, verdict_of

if TYPE_CHECKING:
    import httpx

_LARGEST = 1_000_000  # bytes of a reply that are read
_QUOTED = 160  # characters of the endpoint's own words in a message
_LATER = {408, 425, 429}
_THIS_PAIR = {400, 413, 422}


class Reply(NamedTuple):
    """The answer to one call.

    outcome: answer; nothing (no verdict, or not in time); later (too busy, broken, not reached); refused (this question
    alone); stop (whatever is asked, such as for a wrong key).  said: what is wrong, for people.
    wait: seconds that the endpoint asks to wait.
    """

    outcome: Literal["answer", "nothing", "later", "refused", "stop"]
    verdict: Verdict | None = None
    said: str = ""
    usage: Usage | None = None
    wait: float | None = None


class Endpoint:
    """An address and how it is asked.  client: of httpx, without a time limit of its own; seconds: of one call."""

    def __init__(self, address: Address, client: "httpx.AsyncClient", asked: Mapping[str, Any], seconds: float) -> None:
        self._address = address
        self._client = client
        self._asked = asked
        self._seconds = seconds

    async def send(self, messages: list[dict[str, str]]) -> Reply:
        """Ask once."""
        import httpx

        try:
            async with (
                asyncio.timeout(self._seconds),
                self._client.stream("POST", self._address.url, json={**self._asked, "messages": messages}) as response,
            ):
                body = await _read(response)
        except TimeoutError:
            return Reply("nothing", said=f"no answer within {self._seconds:g} s")
        except httpx.HTTPError as error:
            return Reply("later", said=f"not reached ({self._quoted(f'{type(error).__name__}: {error}')})")
        if body is None:
            return Reply("nothing", said=f"a reply of more than {_LARGEST:,} bytes")
        text = self._address.without_key(body.decode("utf-8", "replace"))
        if response.status_code == httpx.codes.OK:
            return self._answer(text)
        return self._fault(response.status_code, text, response.headers.get("retry-after"))

    def _answer(self, text: str) -> Reply:
        try:
            body = json.loads(text)
        except (ValueError, RecursionError):
            return Reply("nothing", said="a reply that is not JSON")
        usage = usage_of(body)
        try:
            verdict = verdict_of(body)
        except ValueError as error:
            return Reply("nothing", said=f"a reply that {self._quoted(str(error))}", usage=usage)
        reason = self._address.without_key(verdict.reason)  # it may have stood there in another spelling
        return Reply("answer", verdict.model_copy(update={"reason": reason}), usage=usage)

    def _fault(self, status: int, text: str, retry_after: str | None) -> Reply:
        said = f"status {status}" + (f": {self._quoted(text)}" if text.strip() else "")
        if status in _LATER or status >= 500:
            return Reply("later", said=said, wait=seconds_of(retry_after))
        if status in _THIS_PAIR:
            return Reply("refused", said=said)
        if 300 <= status < 400:
            said = f"status {status}: it sends elsewhere, where no text is sent unasked; give that address"
        return Reply("stop", said=said)

    def _quoted(self, text: str) -> str:
        return printable(self._address.without_key(text)).strip()[:_QUOTED]


async def _read(response: "httpx.Response") -> bytes | None:
    """The reply's body; None where it is too large."""
    body = bytearray()
    async for part in response.aiter_bytes():
        body += part
        if len(body) > _LARGEST:
            return None
    return bytes(body)


def seconds_of(retry_after: str | None) -> float | None:
    """How long a Retry-After asks to wait: seconds, or a date; None where it is neither.  Source: RFC 9110, 10.2.3."""
    if retry_after is None:
        return None
    if retry_after.strip().isdecimal():
        return float(retry_after)
    try:
        until = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return max(0.0, (until - datetime.now(UTC)).total_seconds())
