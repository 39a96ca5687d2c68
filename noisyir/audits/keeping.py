"""The number of pairs that may be kept with few wrong ones, by judgements or by an assumption."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from noisyir.base.pages.cells import percent
from noisyir.detection.calibration.fit import guaranteed
from noisyir.detection.calibration.logistic import JudgedPairs
from noisyir.detection.guarantee import Guarantee, judgements_needed
from noisyir.detection.judgements import Judgements
from noisyir.detection.rate_sentences import ASSUMED
from noisyir.detection.settings import Null
from noisyir.engine.tables import pair_ids
from noisyir.training.flags import last_epoch

SURENESS = 0.9
_HALF = 0.5  # of the pairs


@dataclass(frozen=True)
class Keeping:
    """The part of the pairs that may be kept.

    Attributes:
        bounds: None if unknown.
        assumed: The assumed kind of null pairs; None if the bounds rest on judgements.
    """

    bounds: Guarantee | None
    pairs: int
    assumed: Null | None = None

    def most(self, wrong: float) -> int:
        """The most pairs, by lowest score, with at most this share of wrong ones; 0 if unknown."""
        found = self.bounds and self.bounds.most(wrong)
        return found[0] if found else 0

    @property
    def condition(self) -> str:
        """The assumption of the bounds, in a clause that begins a sentence; empty for judgements."""
        return f"if wrong pairs have {ASSUMED[self.assumed]}, " if self.assumed else ""

    def told(self, wrong: float) -> str:
        """The number of pairs to keep with at most the share `wrong`, as a sentence without its end."""
        if self.bounds is None:
            return f"nothing can be said with {percent(SURENESS)} confidence: judge 50 pairs drawn at random (--judge)"
        at = f"with {percent(self.bounds.confidence)} confidence"
        if found := self.bounds.most(wrong):
            return (
                f"{self.condition}keep the {found[0]:,} of {self.pairs:,} pairs with the lowest score: "
                f"at most {percent(found[1], 1)} of them are wrong, {at}"
            )
        least = int(np.argmin(self.bounds.bound))
        known = f"{percent(self.bounds.bound[least], 1)} of the {self.bounds.kept[least]:,} with the lowest score"
        none = f"no part of the pairs is known to have at most {percent(wrong, 1)} wrong {at}"
        said = f"{self.condition}{none}; the least known: at most {known}"
        if self.assumed:
            return said
        needed = judgements_needed(wrong, _HALF, self.bounds.confidence)
        return (
            f"{said}. To keep half of all takes {needed:,} pairs drawn at random and judged, none of those kept being "
            "wrong"
        )


def kept_by_judgements(pairs: pa.Table, judgements: Judgements) -> Keeping:
    """The pairs (query_id, doc_id, score) to keep by random judgements."""
    place = {pair: row for row, pair in enumerate(pair_ids(pairs))}
    drawn = JudgedPairs.of({place[pair]: said for pair, said in judgements.items()}).at_random
    return Keeping(guaranteed(pairs["score"].to_numpy().astype(np.float64), drawn, SURENESS), pairs.num_rows)


def kept_if_assumed(bounds: pa.Table, pairs: int, assumed: Null | None) -> Keeping:
    """The pairs to keep without judgements, by the last epoch of KEPT_BY_NULL (no rows without an assumption)."""
    if not bounds.num_rows:
        return Keeping(None, pairs)
    last = last_epoch(bounds)
    found = Guarantee(last["kept"].to_numpy().astype(np.int64), last["bound"].to_numpy(), SURENESS, 0)
    return Keeping(found, pairs, assumed)
