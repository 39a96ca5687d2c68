"""Learning from human verdicts: probabilities for all pairs, the rate and a guarantee."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from noisyir.detection.calibration.logistic import JudgedPairs, Lesson, learn
from noisyir.detection.guarantee import Guarantee, guarantee
from noisyir.detection.rate import PoweredRate, half_width, powered_rate

Array = np.ndarray


@dataclass(frozen=True)
class LearntOrder:
    """Implications of judgements.

    Attributes:
        lesson: Probabilities for all pairs, and whether judgements improve the order.
        sampled: Judged pairs.
        rate: Share of wrong pairs; None without judged pairs.
        guarantee: Bounds for the pairs kept in the label-free order; None without judged pairs. They hold exactly
            because that order does not depend on any judgement.
    """

    lesson: Lesson
    sampled: int
    rate: PoweredRate | None
    guarantee: Guarantee | None
    confidence: float

    def narrower(self, more: int) -> float | None:
        """Predict the half-width of the rate's interval after `more` additional random pairs; None without a rate."""
        if self.rate is None:
            return None
        return half_width(self.rate, self.sampled, more, len(self.lesson.p_wrong), self.confidence)


def judge_all(
    scores: Float[Array, " pair"],
    features: Float[Array, "pair feature"] | None,
    query: Int[Array, " pair"],
    answers: JudgedPairs,
    *,
    confidence: float = 0.95,
    sureness: float = 0.9,
) -> LearntOrder:
    """Infer chances for all pairs from the answers.

    Args:
        scores: The label-free order; higher means more likely wrong.
        features: Features from features.py; None if there are none, which leaves the order unchanged.
        query: Query number of each pair; any integers.
        confidence: Confidence level of the rate's interval.
        sureness: Confidence level of the guarantee.
    """
    lesson, rows = learn(scores, features, query, answers), answers.rows
    rate = None
    if len(rows):
        rate = powered_rate(
            answers.is_wrong,
            answers.weights,
            lesson.chance[rows],
            lesson.chance_by_fold[lesson.fold[rows]],
            len(scores),
            confidence,
        )
    bounds = guaranteed(scores, answers, sureness)
    return LearntOrder(lesson, len(rows), rate, bounds, confidence)


def guaranteed(scores: Float[Array, " pair"], drawn: JudgedPairs, confidence: float) -> Guarantee | None:
    """Compute the bounds for pairs kept in the label-free order; None if no randomly drawn pair was judged."""
    if not len(drawn.rows):
        return None
    even = _equally_likely(drawn.weights, drawn.rows, len(scores))
    return guarantee(scores, drawn.rows[even], drawn.is_wrong[even], confidence=confidence)


def _equally_likely(weights: Float[Array, " drawn"], rows: Array, pairs: int) -> Int[Array, " kept"]:
    """Thin the drawn pairs to a subset with equal inclusion probability over all pairs.

    A pair with a small weight had a high inclusion probability and is dropped more often; the pair with the largest
    weight always stays. As long as the weights do not change, the same pairs stay however many are judged later.
    """
    luck = np.random.default_rng(0).random(pairs)[rows]
    return np.flatnonzero(luck <= weights / weights.max())
