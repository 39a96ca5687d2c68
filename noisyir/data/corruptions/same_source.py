"""Wrong pairs whose document comes from where the right one does: the same article, page or module."""

from typing import Literal

import numpy as np

from noisyir.data.corruptions import Mismatches, Noise, Spoilt, TrainingPairs, in_turn
from noisyir.errors import DataError

_TRIES = 30  # draws before all that the source has is listed; nearly every pair is done after two


class SameSource(Noise):
    """Any training pairs that have a source, each with another document of that source."""

    kind: Literal["same_source"] = "same_source"

    def spoil(self, given: TrainingPairs) -> Spoilt:
        """Each pair's document is uniform over those that pairs of its source have and that are wrong for it.

        A pair whose source has no wrong document for it is passed over.  DataError when no pair has a source, or when
        too few have such a document.
        Source: the mechanism is ours, after what label people find in collected pairs: the right page, the wrong
        passage of it.
        """
        if not (given.source >= 0).any():
            raise DataError(
                "noise.kind=same_source needs pairs with a source, and no training pair has one; "
                "those of pydocs and squad do, beir takes metadata.source of corpus.jsonl, pairs a source column"
            )
        shelf = np.unique(np.stack([given.source, given.document], axis=1), axis=0)
        starts = np.searchsorted(shelf[:, 0], np.arange(shelf[-1, 0] + 2))
        mismatches, rng = Mismatches(given), given.rng("documents")

        def other_of_source(row: int) -> int | None:
            source = given.source[row]
            if source < 0:
                return None
            there = shelf[starts[source] : starts[source + 1], 1]
            for number in rng.integers(len(there), size=_TRIES):  # a source may hold the whole data
                if wrong := mismatches.first(row, [there[number : number + 1]], 1):
                    return mismatches.draw(row, wrong, 1, rng)
            wrong = mismatches.first(row, [there], len(there))
            return mismatches.draw(row, wrong, len(wrong), rng) if wrong else None

        need = "a source with another document, which is wrong for the query"
        found = in_turn(self, len(given.query), given.rng("pairs"), other_of_source, need)
        return Spoilt(np.array(list(found), np.int64), np.array(list(found.values()), np.int64))
