"""The share of wrong pairs as Python has it: a number where people judged, else what is assumed and what follows."""

from collections.abc import Mapping
from dataclasses import dataclass

from noisyir.auditing.rates import NOT_KNOWN, by_each_null
from noisyir.detection.detection import nulls_in
from noisyir.detection.rate import rate_range


@dataclass(frozen=True)
class Rate:
    """The share of wrong pairs, as far as it is known.

    value: as judged by people, with its interval [low, high]; None without judgements: then `low` to `high` is only
    what the kinds of wrong pair in `assumed` would allow, a line each, and wrong pairs of other kinds are not in it.
    judged: pairs drawn at random that people judged.
    """

    value: float | None
    low: float
    high: float
    confidence: float
    judged: int
    assumed: tuple[str, ...]

    def __str__(self) -> str:
        """The judged rate with its interval; without one that it is not known, and what each assumption would mean."""
        if self.value is not None:
            return (
                f"{self.value:.1%} [{self.low:.1%}, {self.high:.1%}] at {self.confidence:.0%}, by {self.judged} judged"
            )
        return "\n".join([NOT_KNOWN, *(f"  {line}" for line in self.assumed)])


def assumed_rate(estimate: Mapping[str, float], confidence: float) -> Rate:
    """What made-up pairs say, without a judgement; any rate is possible where there are none of them."""
    said = nulls_in(estimate)
    lines = tuple(f"{line.assumed}: {line.rate}" for line in by_each_null(estimate)) if said else ()
    return Rate(None, *rate_range(said), confidence, 0, lines)
