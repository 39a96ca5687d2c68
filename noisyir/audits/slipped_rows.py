"""Rows of a file in which documents have slipped against their queries, as after a sort or a lost cell."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_OFFSETS = (-2, -1, 1, 2)
_LEVEL = 0.001


class Slip(NamedTuple):
    """A block of rows, `first` to `last`: `fit` of its queries fit the document `offset` rows further down best.

    `opposite` is the number of its queries that the document as many rows up fits best.
    """

    first: int
    last: int
    offset: int
    fit: int
    opposite: int

    def __str__(self) -> str:
        """The block in one sentence."""
        sides = ("below", "above") if self.offset > 0 else ("above", "below")
        away = {1: "one row", 2: "two rows"}[abs(self.offset)]
        return (
            f"from row {self.first:,} to {self.last:,} the documents may have slipped: {self.fit:,} queries fit the "
            f"document {away} {sides[0]} better, and {self.opposite:,} the one {sides[1]}"
        )


def slipped_rows(rows: np.ndarray, documents: Sequence[str], others: Sequence[str | None]) -> Slip | None:
    """Find the block of rows in which documents have most clearly slipped, or None.

    A query that the offset's row fits best counts for a block, and one that its own or the opposite row fits best
    against it.  Without a slip either side is as likely, unless rows follow from each other, as in a conversation:
    p = P(Binomial(fit + opposite, 1/2) >= fit), times the number of blocks and offsets, in the block with most.

    Args:
        rows: Row of each pair in the file, shape (pairs,); of several pairs in a row the first counts.
        documents: The pair's document.
        others: The best other document if it fits the query better than the pair's own, else None.
    """
    rows, first = np.unique(rows, return_index=True)
    own, best = (np.array(ids, object)[first] for ids in (documents, others))
    slips = [slip for offset in _OFFSETS if (slip := _clearest(rows, own, best, offset))]
    clearest = max(slips, key=lambda slip: slip.fit - slip.opposite, default=None)
    if clearest is None:
        return None
    from scipy.special import bdtrc

    blocks = len(rows) * (len(rows) + 1) / 2 * len(_OFFSETS)
    return clearest if bdtrc(clearest.fit - 1, clearest.fit + clearest.opposite, 0.5) * blocks <= _LEVEL else None


def _clearest(rows: np.ndarray, own: np.ndarray, best: np.ndarray, offset: int) -> Slip | None:
    """The block with most queries that fit the document `offset` rows on, less the queries against it."""
    fit, opposite = (_fit(rows, own, best, away) for away in (offset, -offset))
    fits_best = np.array([other is None for other in best], bool)
    total = np.concatenate([[0], np.cumsum(fit.astype(int) - (opposite | fits_best))])
    end = int(np.argmax(total - np.minimum.accumulate(total)))
    start = int(np.argmin(total[: end + 1]))
    if start == end:
        return None
    block = slice(start, end)
    return Slip(int(rows[start]), int(rows[end - 1]), offset, int(fit[block].sum()), int(opposite[block].sum()))


def _fit(rows: np.ndarray, own: np.ndarray, best: np.ndarray, away: int) -> np.ndarray:
    """Whether the best other document of each row is the document `away` rows on, shape (rows,)."""
    there = np.searchsorted(rows, rows + away).clip(max=len(rows) - 1)
    return np.asarray((rows[there] == rows + away) & (own[there] == best) & (own != best))
