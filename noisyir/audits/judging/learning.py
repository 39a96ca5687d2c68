"""Learning in a session, after each batch of answers: the rate, the order, and how many pairs may be kept."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from jaxtyping import Float, Int

from noisyir.audits.keeping import SURENESS, Keeping
from noisyir.detection.calibration.fit import judge_all
from noisyir.detection.calibration.logistic import Interval, JudgedPairs
from noisyir.detection.guarantee import Guarantee
from noisyir.detection.judgements import HumanJudgement

Array = np.ndarray

_MORE = 50  # further judgements, for which the rate's interval is foretold
_CONFIDENCE = 0.95  # of the rate's interval


class Kept(NamedTuple):
    """A number of the least suspect pairs, and a bound on their share of wrong ones."""

    pairs: int
    bound: float


@dataclass(frozen=True)
class Knowledge:
    """The judgements' message.

    Attributes:
        sampled: Number of random pairs judged wrong or clean.
        rate: Share of wrong pairs among all.
        order: Cross-validated AUROC of the order.
        narrower: The effect of more judgements, in words.
        advice: Whether judgements improve the order, in words.
        guarantee: Bounds by pairs kept, which hold together at `confidence`.
    """

    sampled: int = 0
    rate: Interval | None = None
    order: Interval | None = None
    narrower: str = ""
    advice: str = ""
    guarantee: tuple[Kept, ...] = ()
    confidence: float = SURENESS

    def as_json(self) -> dict[str, Any]:
        """For the page."""
        return asdict(self)

    def keeping(self, pairs: int) -> Keeping:
        """The guarantee on this number of audited pairs."""
        if not self.guarantee:
            return Keeping(None, pairs)
        kept, bound = (np.array(column) for column in zip(*self.guarantee, strict=True))
        return Keeping(Guarantee(kept, bound, self.confidence, self.sampled), pairs)


class OrderLearner(Protocol):
    """A slow learner from judgements, called in a thread of its own."""

    def learn(self, judged: Mapping[int, HumanJudgement]) -> Knowledge:
        """The message of these judgements, given by row."""


@dataclass(frozen=True)
class PairLearner:
    """A learner that knows the pairs by label-free score, perhaps features, and number of the query."""

    scores: Float[Array, " pair"]
    features: Float[Array, "pair feature"] | None
    query: Int[Array, " pair"]

    def learn(self, judged: Mapping[int, HumanJudgement]) -> Knowledge:
        """As `OrderLearner`; only random pairs with a clear verdict count."""
        answers = JudgedPairs.of(judged).at_random
        found = judge_all(self.scores, self.features, self.query, answers, confidence=_CONFIDENCE, sureness=SURENESS)
        lesson, bounds, half = found.lesson, found.guarantee, found.narrower(_MORE)
        return Knowledge(
            sampled=found.sampled,
            rate=found.rate and Interval(*found.rate[:3]),
            order=lesson.order,
            narrower=_narrower(half, _MORE, len(self.scores) - found.sampled),
            advice=lesson.advice() if len(answers.rows) else "",
            guarantee=tuple(map(Kept, bounds.kept.tolist(), bounds.bound.tolist())) if bounds else (),
            confidence=SURENESS,
        )


def _narrower(half: float | None, more: int, left: int) -> str:
    if half is None or left < more:
        return ""
    return f"{more} more, drawn at random, would narrow this to about ± {100 * half:.0f} points."
