"""Asking an endpoint until it answers: how often, how long to wait, when to give up; never about which pairs."""

import asyncio
import random
from typing import NamedTuple

from noisyir.auditing.asking.budget import BudgetLedger
from noisyir.auditing.asking.endpoint import Endpoint, Reply
from noisyir.auditing.asking.judges import JudgeUsage

ASKED_AGAIN = 2  # times, where what came was no answer
_IN_A_ROW = 10  # questions without an answer, after which no more are asked
_LONGEST_PAUSE = 60.0  # seconds, where the endpoint does not say how long


class RetryPolicy(NamedTuple):
    """retries: times that a call is sent again to an endpoint that is busy, broken or out of reach.

    pause: seconds before the first of these, twice as many before each next; longest: most seconds that are waited
    because the endpoint says so.
    """

    retries: int
    pause: float
    longest: float


class Conversation:
    """Questions to one endpoint, several at once, out of one budget; all wait where the endpoint asks one to."""

    def __init__(self, endpoint: Endpoint, ledger: BudgetLedger, patience: RetryPolicy, spent: JudgeUsage) -> None:
        self._endpoint = endpoint
        self._ledger = ledger
        self._patience = patience
        self.spent = spent
        self._not_before = 0.0
        self._in_a_row = 0
        self._jitter = random.Random()

    async def ask(self, messages: list[dict[str, str]], most_tokens: int) -> Reply | None:
        """The reply that answers, or the last one that did not; None where nothing could be sent.

        most_tokens: that one call may cost.
        """
        reply, nothing, later = None, 0, 0
        while self.spent.stopped is None:
            await self._wait_for_all()
            if self.spent.stopped is not None or not await self._ledger.reserve(most_tokens):
                break
            reply = await self._call(messages, most_tokens)
            if reply.outcome == "answer":
                self._in_a_row = 0
                return reply
            self.spent.faults[reply.said] += 1
            nothing, later = nothing + (reply.outcome == "nothing"), later + (reply.outcome == "later")
            if self._gives_up(reply, nothing, later):
                break
            await self._pause(reply, nothing + later)
        return reply

    async def _call(self, messages: list[dict[str, str]], most_tokens: int) -> Reply:
        self.spent.calls += 1
        reply = await self._endpoint.send(messages)
        usage = reply.usage
        if usage:
            self.spent.prompt_tokens += usage.prompt_tokens
            self.spent.completion_tokens += usage.completion_tokens
        else:
            self.spent.unmetered += 1
        await self._ledger.charge(most_tokens, usage.prompt_tokens + usage.completion_tokens if usage else most_tokens)
        return reply

    def _gives_up(self, reply: Reply, nothing: int, later: int) -> bool:
        """Whether this question is not asked again; and no other, where none would fare better."""
        waits_too_long = reply.wait is not None and reply.wait > self._patience.longest
        if reply.outcome == "stop" or waits_too_long:
            asks = f"; it asks to wait {reply.wait:,.0f} s" if waits_too_long else ""
            self.spent.stopped = f"{reply.said}{asks}"
            return True
        if reply.outcome != "refused" and nothing <= ASKED_AGAIN and later <= self._patience.retries:
            return False
        self._in_a_row += 1
        if self._in_a_row >= _IN_A_ROW:
            self.spent.stopped = f"{_IN_A_ROW} questions in succession got no answer; the last: {reply.said}"
        return True

    async def _pause(self, reply: Reply, times: int) -> None:
        """Before a question is sent again: a random part of a time that doubles, or what the endpoint asks for.

        Source: Brooker, "Exponential backoff and jitter", AWS Architecture Blog, 2015 (full jitter).
        """
        if reply.wait is not None:
            self._not_before = max(self._not_before, asyncio.get_running_loop().time() + reply.wait)
            return
        await asyncio.sleep(self._jitter.uniform(0, min(self._patience.pause * 2 ** (times - 1), _LONGEST_PAUSE)))

    async def _wait_for_all(self) -> None:
        """Until the endpoint takes questions again, and not all at the same moment."""
        while (left := self._not_before - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(left + self._jitter.uniform(0, self._patience.pause))
