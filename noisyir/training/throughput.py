"""Training throughput: pairs and tokens a second."""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Work:
    """Work done: trained pairs (or lists, questions), and unpadded tokens read in training."""

    pairs: int = 0
    tokens: int = 0

    def __add__(self, other: "Work") -> "Work":
        return Work(self.pairs + other.pairs, self.tokens + other.tokens)


class Meter:
    """Sums work and seconds; `unit` names the pairs."""

    def __init__(self, unit: str = "pairs", clock: Callable[[], float] = time.monotonic) -> None:
        self.unit, self.clock = unit, clock
        self._work, self._seconds = Work(), 0.0
        self._all, self._all_seconds = Work(), 0.0
        self._since = clock()

    def restart(self) -> None:
        """Exclude the time since the last work: it was no training."""
        self._since = self.clock()

    def add(self, work: Work) -> None:
        """Add the work done since the last call or `restart`."""
        now = self.clock()
        self._work, self._seconds, self._since = self._work + work, self._seconds + now - self._since, now

    def rates(self) -> dict[str, float]:
        """Return the rates since the last call, by metric."""
        work, seconds = self._work, self._seconds
        self._all, self._all_seconds = self._all + work, self._all_seconds + seconds
        self._work, self._seconds = Work(), 0.0
        return rates(work, seconds, self.unit)

    def means(self) -> dict[str, float]:
        """Return the rates over all work, by metric."""
        return rates(self._all + self._work, self._all_seconds + self._seconds, self.unit)


def rates(work: Work, seconds: float, unit: str = "pairs") -> dict[str, float]:
    """Return pairs and tokens a second."""
    seconds = max(seconds, 1e-9)
    return {f"{unit}_per_second": work.pairs / seconds, "tokens_per_second": work.tokens / seconds}
