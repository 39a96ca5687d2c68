"""Rows of a file in which documents have slipped against their queries, as after a sort or a lost cell."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import bdtrc

_OFFSETS = (-2, -1, 1, 2)
_LEVEL = 0.001


class Shift(NamedTuple):
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


def shifted_rows(rows: np.ndarray, documents: Sequence[str], others: Sequence[str | None]) -> Shift | None:
    """Find the block of rows in which documents have most clearly slipped, or None.

    In a block, a query that its own document or the opposite row's fits best counts against a query that the
    offset's row fits best; the block with most in favour is tested.  Without a slip either side is as likely, unless
    the rows follow from each other, as in a conversation: p = P(Binomial(fit + opposite, 1/2) >= fit), times the
    number of blocks and offsets.

    Args:
        rows: Row of each pair in the file, shape (pairs,).
        documents: The pair's document.
        others: The best other document if it fits the query better than the pair's own, else None.
    """
    order = np.argsort(rows, kind="stable")
    at = dict(zip(rows[order].tolist(), order.tolist(), strict=True))
    found = [shift for offset in _OFFSETS if (shift := _clearest(at, offset, documents, others))]
    best = max(found, key=lambda shift: shift.fit - shift.opposite, default=None)
    if best is None:
        return None
    blocks = len(at) * (len(at) + 1) / 2 * len(_OFFSETS)
    return best if bdtrc(best.fit - 1, best.fit + best.opposite, 0.5) * blocks <= _LEVEL else None


def _clearest(at: dict[int, int], offset: int, documents: Sequence[str], others: Sequence[str | None]) -> Shift | None:
    """The block with most queries that fit the document `offset` rows on, less the queries against it."""

    def fits(row: int, away: int) -> bool:
        other = at.get(row + away)
        return other is not None and documents[other] == others[at[row]] != documents[at[row]]

    rows = list(at)
    fit, opposite = (np.array([fits(row, away) for row in rows], bool) for away in (offset, -offset))
    own = np.array([others[at[row]] is None for row in rows], bool)
    total = np.concatenate([[0], np.cumsum(fit.astype(int) - (opposite | own))])
    end = int(np.argmax(total - np.minimum.accumulate(total)))
    start = int(np.argmin(total[: end + 1]))
    if start == end:
        return None
    return Shift(rows[start], rows[end - 1], offset, int(fit[start:end].sum()), int(opposite[start:end].sum()))
