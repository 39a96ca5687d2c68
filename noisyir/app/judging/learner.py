"""Learns from a session's judgements what noise/judging.py makes of them, in the session's own terms."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from noisyir.app.judging.learning import Interval, Kept, Known, Learnt
from noisyir.auditing.judgements import Judged
from noisyir.auditing.keeping import SURENESS
from noisyir.detection.judged import Answers
from noisyir.detection.judging import judge_all

Array = np.ndarray

_MORE = 50  # pairs, of which is said what they would do for the rate's interval
_CONFIDENCE = 0.95  # of the rate's interval


@dataclass(frozen=True)
class PairLearner:
    """Knows the pairs by their label-free score, their features, where they have any, and their query, by number."""

    scores: Float[Array, " pair"]
    features: Float[Array, "pair feature"] | None
    query: Int[Array, " pair"]

    def learn(self, judged: Mapping[int, Judged], wanted: int) -> Learnt:
        """As `Learner`; pairs about which the judges were unsure count for nothing, and are not asked about again."""
        decided = {row: said for row, said in judged.items() if said.verdict != "unclear"}
        answers = Answers(
            np.array(list(decided), np.int64),
            np.array([said.verdict == "wrong" for said in decided.values()], bool),
            np.array([np.nan if said.weight is None else said.weight for said in decided.values()], np.float64),
        )
        unsure = len(judged) - len(decided)
        found = judge_all(
            self.scores,
            self.features,
            self.query,
            answers,
            confidence=_CONFIDENCE,
            sureness=SURENESS,
            wanted=wanted + unsure,
        )
        lesson, bounds, half = found.lesson, found.guarantee, found.narrower(_MORE)
        known = Known(
            sampled=found.sampled,
            rate=found.rate and Interval(*found.rate[:3]),
            order=lesson.order and Interval(*lesson.order),
            unlearnt=lesson.unlearnt and Interval(*lesson.unlearnt),
            narrower=_narrower(half, _MORE, len(self.scores) - found.sampled),
            advice=lesson.advice() if decided else "",
            guarantee=tuple(map(Kept, bounds.kept.tolist(), bounds.bound.tolist())) if bounds else (),
            confidence=SURENESS,
        )
        return Learnt(known, [row for row in found.teaching.tolist() if row not in judged][:wanted])


def _narrower(half: float | None, more: int, left: int) -> str:
    if half is None or left < more:
        return ""
    return f"{more} more, drawn at random, would narrow this to about ± {100 * half:.0f} points."
