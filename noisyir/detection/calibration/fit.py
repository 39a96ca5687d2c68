"""Learning from people's verdicts: chances of all pairs, the rate, and a guarantee."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from noisyir.detection.calibration.logistic import JudgedPairs, Lesson, learn
from noisyir.detection.guarantee import Guarantee, guarantee
from noisyir.detection.rate import PoweredRate, half_width, powered_rate

Array = np.ndarray


@dataclass(frozen=True)
class LearntOrder:
    """The message of the judgements.

    lesson: chances of all pairs, and whether judgements improve the order.  sampled: judged pairs.
    rate: the share of wrong pairs, and guarantee: bounds for the pairs kept in the label-free order, which no
    judgement has bent, so that they hold exactly; both None without judged pairs.
    """

    lesson: Lesson
    sampled: int
    rate: PoweredRate | None
    guarantee: Guarantee | None
    confidence: float

    def narrower(self, more: int) -> float | None:
        """Half of the width of the rate's interval after so many more pairs drawn at random; None without a rate."""
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
    """The message of the answers for all pairs.

    scores: the label-free order, higher being likelier wrong.  features: features.py, None where there are none,
    and the order then stays.  query: of each pair, as any number.  confidence: of the rate's interval; sureness: of the
    guarantee.  DataError for a score that is not finite.
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
    bounds = guaranteed(scores, rows, answers.is_wrong, answers.weights, sureness)
    return LearntOrder(lesson, len(rows), rate, bounds, confidence)


def guaranteed(
    scores: Float[Array, " pair"],
    rows: Int[Array, " drawn"],
    is_wrong: Bool[Array, " drawn"],
    weights: Float[Array, " drawn"],
    confidence: float,
) -> Guarantee | None:
    """The bounds for the pairs kept in the label-free order; None without pairs that were drawn at random and judged.

    weights: how many pairs each one stands for.
    """
    if not len(rows):
        return None
    even = _equally_likely(weights, rows, len(scores))
    return guarantee(scores, rows[even], is_wrong[even], confidence=confidence)


def _equally_likely(weights: Float[Array, " drawn"], rows: Array, pairs: int) -> Int[Array, " kept"]:
    """Places of some of the drawn pairs, each as likely to be there as any other pair of all would be.

    One that stands for few pairs was likely to be drawn, and is left out the more often; the pair of the greatest
    weight always stays.  The same pairs stay however many are judged later, as long as the weights do.
    """
    luck = np.random.default_rng(0).random(pairs)[rows]
    return np.flatnonzero(luck <= weights / weights.max())
