"""The budget of a judge in calls or tokens, which retries and parallel calls never exceed."""

import asyncio
import re
from typing import Literal, NamedTuple

from noisyir.base.errors import ConfigError

Unit = Literal["calls", "tokens"]

_BUDGET = re.compile(r"(\d+(?:\.\d+)?)\s*([kM]?)\s*(calls?|tokens?)?")
_TIMES = {"": 1, "k": 1000, "M": 1_000_000}


class Budget(NamedTuple):
    """A number of calls, or of tokens read and written together."""

    amount: int
    unit: Unit

    @classmethod
    def parse(cls, text: str) -> "Budget":
        """Parse `200`, `2k calls`, `200k tokens`, `1.5M tokens`; a number alone means calls.

        Raises:
            ConfigError: If the text is no budget.
        """
        found = _BUDGET.fullmatch(text.strip())
        amount = round(float(found[1]) * _TIMES[found[2]]) if found else 0
        if found is None or amount < 1:
            raise ConfigError("audits.budget_malformed", text=text)
        return cls(amount, "tokens" if (found[3] or "").startswith("token") else "calls")


class BudgetLedger:
    """A budget that is being spent: each call is reserved before it is sent, and charged afterwards.

    `spent` counts a call under way, or of unknown size, at the most that it may cost.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.spent = 0
        self._under_way = 0
        self._charged = asyncio.Condition()

    async def reserve(self, most_tokens: int) -> bool:
        """Reserve a call of at most `most_tokens`; False if the budget does not allow it.

        Waits while calls under way may turn out cheaper than reserved.
        """
        most = self._price(most_tokens)
        async with self._charged:
            while self.spent + most > self.budget.amount:
                if not self._under_way or self.budget.unit == "calls":
                    return False
                await self._charged.wait()
            self.spent += most
            self._under_way += 1
            return True

    async def charge(self, most_tokens: int, tokens: int) -> None:
        """Charge a reserved call, which took `tokens`."""
        async with self._charged:
            self.spent += self._price(tokens) - self._price(most_tokens)
            self._under_way -= 1
            self._charged.notify_all()

    def _price(self, tokens: int) -> int:
        return tokens if self.budget.unit == "tokens" else 1
