"""Learning from people's verdicts: chances of all pairs, the rate, a guarantee, and the pairs to ask about next."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from noisyir.detection.guarantee import Guarantee, guarantee
from noisyir.detection.judged import JudgedPairs, Lesson, learn
from noisyir.detection.rate import PoweredRate, half_width, powered_rate

Array = np.ndarray


@dataclass(frozen=True)
class LearntOrder:
    """The message of the judgements.

    lesson: chances of all pairs, and whether judgements improve the order.  sampled: judged pairs that were drawn at
    random.  rate: the share of wrong pairs, and guarantee: bounds for the pairs kept in the label-free order, which no
    judgement has bent, so that they hold exactly; both None without such pairs.
    teaching: rows of open pairs that teach most, best first.
    """

    lesson: Lesson
    sampled: int
    rate: PoweredRate | None
    guarantee: Guarantee | None
    teaching: Int[Array, " chosen"]
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
    wanted: int = 50,
) -> LearntOrder:
    """The message of the answers for all pairs.

    scores: the label-free order, higher being likelier wrong.  features: features.py, None where there are none,
    and the order then stays.  query: of each pair, as any number.  confidence: of the rate's interval; sureness: of the
    guarantee.  wanted: pairs to ask about next.  DataError for a score that is not finite.
    """
    lesson = learn(scores, features, query, answers)
    drawn = answers.at_random
    rows, truth = answers.rows[drawn], answers.is_wrong[drawn]
    rate = None
    if len(rows):
        rate = powered_rate(
            truth,
            answers.weights[drawn],
            lesson.chance[rows],
            lesson.chance_by_fold[lesson.fold[rows]],
            len(scores),
            confidence,
        )
    bounds = guaranteed(scores, rows, truth, answers.weights[drawn], sureness)
    teaching = pairs_that_teach(lesson.p_wrong, features, query, answers.rows, wanted)
    return LearntOrder(lesson, len(rows), rate, bounds, teaching, confidence)


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


_CHOICE = 4  # times as many pairs as wanted, those nearest to p = .5, are chosen among


def pairs_that_teach(
    p_wrong: Float[Array, " pair"],
    features: Float[Array, "pair feature"] | None,
    query: Int[Array, " pair"],
    judged: Int[Array, " judged"],
    wanted: int,
) -> Int[Array, " chosen"]:
    """Rows of `wanted` pairs, or fewer if there are no more, best first: none judged, no two of one query.

    Of the pairs nearest to a chance of one half, the first is the nearest, and each next one is that whose features are
    least like those of any before it by their cosine.  Without features, just the nearest ones.
    Source: Lewis and Gale, SIGIR 1994 (uncertainty); Sener and Savarese, ICLR 2018 (greedy k-centre).
    """
    is_open = np.ones(len(p_wrong), bool)
    is_open[judged] = False
    rows = np.flatnonzero(is_open)
    rows = rows[np.argsort(np.abs(p_wrong[rows] - 0.5), kind="stable")]
    _, first = np.unique(query[rows], return_index=True)
    rows = rows[np.sort(first)]
    if features is None:
        return rows[:wanted]
    rows = rows[: _CHOICE * wanted]
    directions = features[rows] / np.maximum(np.linalg.norm(features[rows], axis=1, keepdims=True), 1e-12)
    chosen, distance = [], np.full(len(rows), np.inf)
    for _ in range(min(wanted, len(rows))):
        best = int(distance.argmax())  # of the first round: 0, the nearest to one half
        chosen.append(best)
        distance = np.minimum(distance, 1 - directions @ directions[best])
        distance[chosen] = -np.inf
    return rows[chosen]
