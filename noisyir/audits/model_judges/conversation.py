"""Calls to an endpoint until it answers: how often, how long to wait, when to give up."""

import asyncio
import json
import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from noisyir.audits.model_judges.address import Address
from noisyir.audits.model_judges.answer import NoProbabilityError, Usage, printable, usage_of
from noisyir.audits.model_judges.budget import BudgetLedger
from noisyir.audits.model_judges.judges import Answer, JudgeUsage

if TYPE_CHECKING:
    import httpx

_MAX_BYTES = 1_000_000  # most that is read of a reply
_QUOTED = 160  # characters of the endpoint's own words in a message
_LATER = {408, 425, 429}
_THIS_PAIR = {400, 413, 422}
_REPEATS = 2  # times a question is sent again after a reply without an answer
_IN_A_ROW = 10  # questions without an answer that end asking
_LONGEST_PAUSE = 60.0  # seconds, unless the endpoint names a time


class EndpointCall(NamedTuple):
    """A question to send: its body, the reader of a reply, and the most tokens that it costs.

    The reader raises NoProbabilityError for words in place of a probability, and ValueError for no answer at all.
    """

    body: Mapping[str, Any]
    read: Callable[[Any], Answer]
    most_tokens: int


class Reply(NamedTuple):
    """The reply to one call.

    Attributes:
        outcome: answer; nothing (no verdict); silent (not in time); later (too busy, broken, not reached); refused
            (this question alone); stop (any question, such as for a wrong key); words (in place of a probability).
        fault: The fault in words.
        wait: Seconds that the endpoint asks to wait.
    """

    outcome: Literal["answer", "nothing", "silent", "later", "refused", "stop", "words"]
    answer: Answer | None = None
    fault: str = ""
    usage: Usage | None = None
    wait: float | None = None


class Endpoint:
    """An address and a client without a time limit, which `seconds` sets for each call."""

    def __init__(self, address: Address, client: "httpx.AsyncClient", seconds: float) -> None:
        self._address = address
        self._client = client
        self._seconds = seconds

    async def send(self, call: EndpointCall) -> Reply:
        """Ask once."""
        import httpx

        body = bytearray()
        try:
            async with (
                asyncio.timeout(self._seconds),
                self._client.stream("POST", self._address.url, json=call.body) as response,
            ):
                async for part in response.aiter_bytes():
                    body += part
                    if len(body) > _MAX_BYTES:
                        return Reply("nothing", fault=f"a reply of more than {_MAX_BYTES:,} bytes")
        except TimeoutError:
            return Reply("silent", fault=f"no answer within {self._seconds:g} s")
        except httpx.HTTPError as error:
            return Reply("later", fault=f"not reached ({self._quoted(f'{type(error).__name__}: {error}')})")
        text = self._address.without_key(body.decode("utf-8", "replace"))
        if response.status_code == httpx.codes.OK:
            return self._answer(text, call.read)
        return self._fault(response.status_code, text, response.headers.get("retry-after"))

    def _answer(self, text: str, read: Callable[[Any], Answer]) -> Reply:
        try:
            body = json.loads(text)
        except (ValueError, RecursionError):
            return Reply("nothing", fault="a reply that is not JSON")
        usage = usage_of(body)
        try:
            answer = read(body)
        except ValueError as error:
            outcome: Literal["words", "nothing"] = "words" if isinstance(error, NoProbabilityError) else "nothing"
            return Reply(outcome, fault=f"a reply that {self._quoted(str(error))}", usage=usage)
        reason = self._address.without_key(answer.reason)  # JSON may have spelled it in another way
        return Reply("answer", answer._replace(reason=reason), usage=usage)

    def _fault(self, status: int, text: str, retry_after: str | None) -> Reply:
        fault = f"status {status}" + (f": {self._quoted(text)}" if text.strip() else "")
        if status in _LATER or status >= 500:
            return Reply("later", fault=fault, wait=seconds_of(retry_after))
        if status in _THIS_PAIR:
            return Reply("refused", fault=fault)
        if 300 <= status < 400:
            fault = f"status {status}: it sends elsewhere, where no text is sent unasked; give that address"
        return Reply("stop", fault=fault)

    def _quoted(self, text: str) -> str:
        return printable(self._address.without_key(text)).strip()[:_QUOTED]


def seconds_of(retry_after: str | None) -> float | None:
    """Seconds that a Retry-After asks to wait, from a number or a date; None for anything else.

    Source: RFC 9110, 10.2.3.
    """
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


class RetryPolicy(NamedTuple):
    """How often a call is sent again to an endpoint that is busy, broken or out of reach.

    Attributes:
        pause: Seconds before the first retry, doubled before each next.
        longest: Most seconds to wait at the endpoint's own request.
    """

    retries: int
    pause: float
    longest: float


class Conversation:
    """Questions to one endpoint, several at once, from one budget; all wait when the endpoint asks for it."""

    def __init__(self, endpoint: Endpoint, ledger: BudgetLedger, retry: RetryPolicy, spent: JudgeUsage) -> None:
        self._endpoint = endpoint
        self._ledger = ledger
        self._retry = retry
        self.spent = spent
        self._not_before = 0.0
        self._in_a_row = 0
        self._jitter = random.Random()

    async def probe(self, call: EndpointCall) -> Reply | None:
        """The reply to one call, whatever it is; None if the budget does not allow it."""
        return await self._call(call) if await self._ledger.reserve(call.most_tokens) else None

    async def ask(self, call: EndpointCall) -> Reply | None:
        """The reply that answers, or the last one that did not; None if nothing could be sent."""
        reply, nothing, later = None, 0, 0
        while self.spent.stopped is None:
            await self._wait_for_all()
            if self.spent.stopped is not None or not await self._ledger.reserve(call.most_tokens):
                break
            reply = await self._call(call)
            if reply.outcome == "answer":
                self._in_a_row = 0
                return reply
            self.spent.faults[reply.fault] += 1
            nothing, later = nothing + (reply.outcome in ("nothing", "silent")), later + (reply.outcome == "later")
            if self._gives_up(reply, nothing, later):
                break
            await self._pause(reply, nothing + later)
        return reply

    async def _call(self, call: EndpointCall) -> Reply:
        self.spent.calls += 1
        reply = await self._endpoint.send(call)
        self.spent.heard |= reply.outcome not in ("later", "silent")
        usage, most = reply.usage, call.most_tokens
        if usage:
            self.spent.prompt_tokens += usage.prompt_tokens
            self.spent.completion_tokens += usage.completion_tokens
        else:
            self.spent.unmetered += 1
        await self._ledger.charge(most, usage.prompt_tokens + usage.completion_tokens if usage else most)
        return reply

    def _gives_up(self, reply: Reply, nothing: int, later: int) -> bool:
        """Whether this question is not sent again; asking stops if no other would fare better."""
        waits_too_long = reply.wait is not None and reply.wait > self._retry.longest
        if reply.outcome in ("stop", "words") or waits_too_long:
            asks = f"; it asks to wait {reply.wait:,.0f} s" if waits_too_long else ""
            self.spent.stopped = f"{reply.fault}{asks}"
            return True
        if reply.outcome != "refused" and nothing <= _REPEATS and later <= self._retry.retries:
            return False
        self._in_a_row += 1
        if self._in_a_row >= _IN_A_ROW:
            self.spent.stopped = f"{_IN_A_ROW} questions in succession got no answer; the last: {reply.fault}"
        return True

    async def _pause(self, reply: Reply, times: int) -> None:
        """Wait a random part of a time that doubles, or as the endpoint asks.

        Source: Brooker, "Exponential backoff and jitter", AWS Architecture Blog, 2015 (full jitter).
        """
        if reply.wait is not None:
            self._not_before = max(self._not_before, asyncio.get_running_loop().time() + reply.wait)
            return
        await asyncio.sleep(self._jitter.uniform(0, min(self._retry.pause * 2 ** (times - 1), _LONGEST_PAUSE)))

    async def _wait_for_all(self) -> None:
        """Wait until the endpoint takes questions again, each question a little differently."""
        while (left := self._not_before - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(left + self._jitter.uniform(0, self._retry.pause))
