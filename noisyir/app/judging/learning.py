"""What a session is told after each batch: what judgements say of all pairs, and which pairs to ask about next."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from noisyir.auditing.judgements import Judged
from noisyir.auditing.keeping import SURENESS, Keeping
from noisyir.detection.guarantee import Guarantee


class Interval(NamedTuple):
    """An estimate and the ends of its interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        """In percent."""
        return f"{self.value:.1%} [{self.low:.1%}, {self.high:.1%}]"


class Kept(NamedTuple):
    """So many pairs, the least suspect, and the share of them that is wrong at most."""

    pairs: int
    bound: float


@dataclass(frozen=True)
class Known:
    """What the judgements tell.

    sampled: pairs drawn at random that were judged wrong or clean.  rate: share of wrong pairs among all, from these
    alone.  order, unlearnt: how often a wrong pair is more suspect than a right one (AUROC), in the order that the
    judgements teach (cross-validated) and in the order without them.  narrower: what more judgements would do.
    advice: whether judgements improve the order.  guarantee: bounds that hold together at `confidence`, by pairs kept.
    """

    sampled: int = 0
    rate: Interval | None = None
    order: Interval | None = None
    unlearnt: Interval | None = None
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


@dataclass(frozen=True)
class Learnt:
    """What one look at the judgements gave.  teaching: rows of pairs not judged yet, those that teach most first."""

    known: Known
    teaching: Sequence[int] = ()


class Learner(Protocol):
    """Learns from judgements; slow, so that it is called beside the answering."""

    def learn(self, judged: Mapping[int, Judged], wanted: int) -> Learnt:
        """What these judgements, by row of the pairs, tell, and `wanted` pairs that would teach most."""
