"""Learning in a session, after each batch of answers: the rate, the order, and how many pairs may be kept."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from jaxtyping import Float, Int

from noisyir.audits.judgements import HumanJudgement
from noisyir.audits.keeping import SURENESS, Keeping
from noisyir.detection.calibration.fit import judge_all
from noisyir.detection.calibration.logistic import Interval, JudgedPairs
from noisyir.detection.guarantee import Guarantee


class Kept(NamedTuple):
    """So many pairs, the least suspect, and the share of them that is wrong at most."""

    pairs: int
    bound: float


@dataclass(frozen=True)
class Knowledge:
    """The judgements' message.

    sampled: pairs drawn at random that were judged wrong or clean.  rate: share of wrong pairs among all.  order: how
    often a wrong pair is more suspect than a right one (AUROC, cross-validated).  narrower: of what more would do.
    advice: whether judgements improve the order.  guarantee: bounds that hold together at `confidence`, by pairs kept.
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
        """The guarantee, as it is told of so many audited pairs."""
        if not self.guarantee:
            return Keeping(None, pairs)
        kept, bound = (np.array(column) for column in zip(*self.guarantee, strict=True))
        return Keeping(Guarantee(kept, bound, self.confidence, self.sampled), pairs)


class OrderLearner(Protocol):
    """Learns from judgements; slow, so that it is called beside the answering."""

    def learn(self, judged: Mapping[int, HumanJudgement]) -> Knowledge:
        """The message of these judgements, by row of the pairs."""


Array = np.ndarray

_MORE = 50  # pairs, of which is said what they would do for the rate's interval
_CONFIDENCE = 0.95  # of the rate's interval


@dataclass(frozen=True)
class PairLearner:
    """Knows the pairs by their label-free score, their features, where they have any, and their query, by number."""

    scores: Float[Array, " pair"]
    features: Float[Array, "pair feature"] | None
    query: Int[Array, " pair"]

    def learn(self, judged: Mapping[int, HumanJudgement]) -> Knowledge:
        """As `OrderLearner`; pairs that were not drawn at random, or of which the judges were unsure, do not count."""
        decided = {row: said for row, said in judged.items() if said.tells_of_others}
        answers = JudgedPairs(
            np.array(list(decided), np.int64),
            np.array([said.verdict == "wrong" for said in decided.values()], bool),
            np.array([said.weight for said in decided.values()], np.float64),
        )
        found = judge_all(self.scores, self.features, self.query, answers, confidence=_CONFIDENCE, sureness=SURENESS)
        lesson, bounds, half = found.lesson, found.guarantee, found.narrower(_MORE)
        return Knowledge(
            sampled=found.sampled,
            rate=found.rate and Interval(*found.rate[:3]),
            order=lesson.order,
            narrower=_narrower(half, _MORE, len(self.scores) - found.sampled),
            advice=lesson.advice() if decided else "",
            guarantee=tuple(map(Kept, bounds.kept.tolist(), bounds.bound.tolist())) if bounds else (),
            confidence=SURENESS,
        )


def _narrower(half: float | None, more: int, left: int) -> str:
    if half is None or left < more:
        return ""
    return f"{more} more, drawn at random, would narrow this to about ± {100 * half:.0f} points."
