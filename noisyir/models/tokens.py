"""Texts as token ids, kept flat: no Python object per token, so a corpus costs four bytes a token."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

Side = Literal["query", "passage"]
SIDES: tuple[Side, Side] = ("query", "passage")
Rows = npt.NDArray[np.integer]


@dataclass(frozen=True)
class Tokens:
    """The token ids of n texts: text i is `ids[offsets[i]:offsets[i + 1]]`.

    ids: int32, flat; offsets: int64, n + 1 of them, from 0.
    shares: float32 beside ids, each id's share of its text's mean, where order is of no account (static backbone):
    an id then occurs once a text, ids ascend, and a text's shares sum to 1.  None where order counts (transformer).
    """

    ids: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    shares: npt.NDArray[np.float32] | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """How many ids each text has."""
        return np.diff(self.offsets)

    def __add__(self, other: Self) -> Self:
        """These texts, then the other's."""
        return self.joined([self, other])

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """The texts of all parts, in their order; all of them have shares, or none."""
        lengths = [part.lengths for part in parts]
        offsets = np.concatenate([[0], np.cumsum(np.concatenate(lengths), dtype=np.int64)])
        shares = [part.shares for part in parts if part.shares is not None]
        ids = np.concatenate([part.ids for part in parts])
        return cls(ids, offsets, np.concatenate(shares) if shares else None)

    def take(self, rows: Rows) -> Self:
        """The texts at `rows`, in that order; a row may be taken more than once."""
        offsets, flat = take_ragged(self.offsets, rows)
        shares = None if self.shares is None else self.shares[flat]
        return type(self)(self.ids[flat], offsets, shares)


def take_ragged(offsets: npt.NDArray[np.int64], rows: Rows) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Offsets of the chosen rows of a ragged array, and the places of their items in its flat values."""
    lengths = (offsets[1:] - offsets[:-1])[rows]
    taken = np.concatenate([[0], np.cumsum(lengths)])
    places = np.repeat(offsets[:-1][rows] - taken[:-1], lengths)
    places += np.arange(taken[-1])  # in place, for fresh memory costs more than the sum
    return taken, places


def token_batches(lengths: npt.NDArray[np.integer], budget: int) -> Iterator[npt.NDArray[np.int64]]:
    """Rows of texts in batches whose count times longest length is at most `budget`; at least one text each.

    lengths: tokens of each text.  Longest first, so that what does not fit the device's memory fails at once.
    """
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        longest = max(int(lengths[order[start]]), 1)
        stop = start + max(budget // longest, 1)
        yield order[start:stop]
        start = stop


def passage_text(title: str, text: str) -> str:
    """What a model reads of a document; the only place that joins a title to its text."""
    return f"{title} {text}" if title else text
