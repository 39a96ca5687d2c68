"""A session's learner: the model that judgements teach, the rate from those drawn at random, and the guarantee."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, Int

from noisyir.app.judging.learning import Interval, Kept, Known, Learnt
from noisyir.noise.auroc import Auroc
from noisyir.noise.judged import Answers
from noisyir.noise.judging import Judged as Told
from noisyir.noise.judging import judge_all
from noisyir.verdicts.judgements import Judged

Array = np.ndarray

_MORE = 50  # answers, of which every other is on a pair drawn at random


class ModelLearner:
    """Learns anew from all judgements whenever it is asked."""

    def __init__(
        self,
        scores: Float[Array, " pair"],
        features: Float[Array, "pair feature"] | None,
        query: Int[Array, " pair"],
    ) -> None:
        """The label-free order, the pairs' features where the detector gave some, and the number of each query."""
        self.scores, self.features, self.query = scores, features, query

    def learn(self, judged: Mapping[int, Judged], wanted: int) -> Learnt:
        """What these judgements, by row of the pairs, tell, and `wanted` pairs that would teach most."""
        told = judge_all(self.scores, self.features, self.query, answers_of(judged), wanted=wanted)
        asked = set(judged)  # also those about which the judge was unsure
        return Learnt(_known(told), [row for row in told.teaching.tolist() if row not in asked])


def answers_of(judged: Mapping[int, Judged]) -> Answers:
    """The judgements that are wrong or clean, in the order of the pairs' rows."""
    said = {row: judged[row] for row in sorted(judged) if judged[row].verdict != "unclear"}
    weights = [np.nan if one.weight is None else one.weight for one in said.values()]
    is_wrong = [one.verdict == "wrong" for one in said.values()]
    return Answers(np.array(list(said), np.int64), np.array(is_wrong, bool), np.array(weights, np.float64))


def _known(told: Told) -> Known:
    lesson, rate, bounds = told.lesson, told.rate, told.guarantee
    narrower = told.narrower(_MORE // 2)
    return Known(
        sampled=told.sampled,
        rate=Interval(rate.value, rate.low, rate.high) if rate else None,
        order=_interval(lesson.order),
        unlearnt=_interval(lesson.unlearnt),
        narrower=f"{_MORE} more answers would narrow this to about ± {100 * narrower:.0f} points." if narrower else "",
        advice=lesson.advice(),
        guarantee=tuple(map(Kept, bounds.kept.tolist(), bounds.bound.tolist())) if bounds else (),
        confidence=bounds.confidence if bounds else Known.confidence,
    )


def _interval(found: Auroc | None) -> Interval | None:
    return Interval(*found) if found else None
