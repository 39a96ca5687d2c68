"""Learning in a session, after each batch of answers: the rate, the order, and how many pairs may be kept."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float, Int

from noisyir.audits.keeping import SURENESS
from noisyir.detection.calibration.fit import judge_all
from noisyir.detection.calibration.logistic import JudgedPairs
from noisyir.detection.guarantee import Guarantee
from noisyir.detection.judgements import HumanJudgement
from noisyir.detection.rate import Interval

Array = np.ndarray

_MORE = 50  # further judgements, for which the rate's interval is foretold
_CONFIDENCE = 0.95  # of the rate's interval


@dataclass(frozen=True)
class Knowledge:
    """The judgements' message.

    Attributes:
        sampled: Number of random pairs judged wrong or clean.
        rate: Share of wrong pairs among all.
        order: Cross-validated AUROC of the order.
        narrower: The effect of more judgements, in words.
        advice: Whether judgements improve the order, in words.
        bounds: On the share of wrong pairs, by pairs kept.
    """

    sampled: int = 0
    rate: Interval | None = None
    order: Interval | None = None
    narrower: str = ""
    advice: str = ""
    bounds: Guarantee | None = None

    def as_json(self) -> dict[str, Any]:
        """For the page."""
        told = {name: value for name, value in vars(self).items() if name != "bounds"}
        pairs = zip(self.bounds.kept.tolist(), self.bounds.bound.tolist(), strict=True) if self.bounds else ()
        return {**told, "guarantee": list(pairs), "confidence": SURENESS}


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
        lesson, half = found.lesson, found.narrower(_MORE)
        return Knowledge(
            sampled=found.sampled,
            rate=found.rate and Interval(*found.rate[:3]),
            order=lesson.order,
            narrower=_narrower(half, _MORE, len(self.scores) - found.sampled),
            advice=lesson.advice() if len(answers.rows) else "",
            bounds=found.guarantee,
        )


def _narrower(half: float | None, more: int, left: int) -> str:
    if half is None or left < more:
        return ""
    return f"{more} more, drawn at random, would narrow this to about ± {100 * half:.0f} points."
