"""Training pairs as arrays, and the batches of an epoch: which pairs together, with which negatives and masks."""

import math
from collections.abc import Callable, Sized
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, Literal, TypeVar

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from noisyir.models.text_tokenizer import Tokens, take_ragged

Rows = npt.NDArray[np.int64]
Rng = Callable[..., np.random.Generator]
"""A generator for a purpose."""
B = TypeVar("B", bound=Sized)
Pool = Literal["batch", "own"]
"""Competitors of a query's positive: all columns of the batch, or its own pair's alone."""


@dataclass(frozen=True)
class Ragged:
    """A list of row numbers for each of n things: thing i's are `values[offsets[i]:offsets[i + 1]]`."""

    offsets: Rows
    values: Rows

    @classmethod
    def grouped(cls, keys: Rows, values: Rows, size: int) -> "Ragged":
        """The values of each key in 0..size - 1, in their given order."""
        order = np.argsort(keys, kind="stable")
        return cls(np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=size))]), values[order])

    def take(self, rows: Rows) -> tuple[Rows, Rows]:
        """For the things at `rows`: (which of them, value), one entry a value."""
        offsets, places = take_ragged(self.offsets, rows)
        return np.repeat(np.arange(len(rows)), np.diff(offsets)), self.values[places]

    def shuffled(self, rows: Rows, rng: np.random.Generator) -> tuple[Rows, Rows, Rows]:
        """For the things at `rows`: (which of them, place, value) of every value, in an order drawn for each thing."""
        thing, value = self.take(rows)
        order = np.lexsort((rng.random(len(thing)), thing))
        return thing, np.arange(len(thing)) - np.searchsorted(thing, thing), value[order]


@dataclass(frozen=True)
class NumberedPairs:
    """Pairs by position: pair i joins query `query[i]` and passage `passage[i]`.

    text: for each query, the number of its text, equal for queries that read the same.
    known: for each such number, the passages that pairs give to it: they are nobody's negatives there.
    negatives: for each query, its mined negatives, perhaps none.
    """

    query: Rows
    passage: Rows
    text: Rows
    known: Ragged
    negatives: Ragged

    def __len__(self) -> int:
        return len(self.query)


@dataclass(frozen=True)
class TrainingPairs(NumberedPairs):
    """All that training reads: the pairs, with every query and passage as the model's tokens."""

    queries: Tokens
    passages: Tokens

    def draw(self, count: int, rng: np.random.Generator) -> Rows:
        """(pair, count) passages that stand beside each pair's own in a batch: its query's hard negatives."""
        return draw_negatives(self, count, rng)


@dataclass(frozen=True)
class ListedPairs(TrainingPairs):
    """Pairs whose queries have lists of passages with a teacher's scores: `negatives` are these lists.

    score: of each of `negatives.values`.
    """

    score: Float[np.ndarray, " listed"]

    def draw(self, count: int, rng: np.random.Generator) -> Rows:
        """Passages of the query's list, the pair's own not among them."""
        return draw_negatives(self, count, rng, but_own=True)

    @cached_property
    def _by_key(self) -> tuple[Rows, Float[np.ndarray, " listed"]]:
        """Keys of (query, passage) in their order, and the score of each."""
        query, passage = self.negatives.take(np.arange(len(self.negatives.offsets) - 1))
        keys, first = np.unique(query * len(self.passages) + passage, return_index=True)
        return keys, self.score[first]

    def teacher_scores(self, rows: Rows, passages: npt.NDArray[np.int64]) -> Float[np.ndarray, "pair passage"]:
        """The teacher's scores of the pairs' queries with (pair, passage) passages; NaN: it gave none."""
        keys, score = self._by_key
        asked = self.query[rows, None] * len(self.passages) + passages
        place = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
        return np.where(keys[place] == asked, score[place], np.nan)


@dataclass(frozen=True)
class Batch:
    """Pairs that are each other's negatives: those numbered `rows` of the training pairs.

    Columns run pair by pair: its own passage, then its hard negatives (DPR's order); `positive` holds the columns
    of the former, and `passage` the number of each column's passage among the training pairs'.  `ignored` is (query,
    passage), true where a passage is known to be right for a query but is not its pair's, and, if each query has a
    pool of its own, at the columns of other pairs.
    """

    rows: Rows
    queries: Tokens
    passages: Tokens
    positive: Rows
    ignored: npt.NDArray[np.bool_]
    passage: Rows

    def __len__(self) -> int:
        return len(self.queries)


class Batches(Generic[B]):
    """Batches without end, by their number from 0: epochs of `size` things, in an order that `rng` decides.

    rng: a generator for an epoch.  Each thing is in one of the `an_epoch` batches of an epoch: ceil(size / batch_size),
    whose sizes differ by at most one.
    """

    def __init__(self, size: int, batch_size: int, rng: Rng) -> None:
        self.size, self.rng = size, rng
        self.an_epoch = math.ceil(size / batch_size)
        self._epoch, self._rows, self._drawn = -1, list[Rows](), np.empty((0, 0), np.int64)

    def __getitem__(self, number: int) -> B:
        """Batch `number`; an epoch is drawn whole, so that any of its batches can come first."""
        epoch, place = divmod(number, self.an_epoch)
        if epoch != self._epoch:
            rng = self.rng(epoch)
            self._rows = np.array_split(rng.permutation(self.size), self.an_epoch)
            self._drawn, self._epoch = self.draw(rng), epoch
        rows = self._rows[place]
        return self.batch(rows, self._drawn[rows])

    def draw(self, rng: np.random.Generator) -> Rows:
        """(thing, n) numbers that are drawn anew each epoch; none, unless a kind of batches needs them."""
        return np.empty((self.size, 0), np.int64)

    def batch(self, rows: Rows, drawn: Rows) -> B:
        """The batch of the things at `rows`, for which `drawn` was drawn."""
        raise NotImplementedError


class PairBatches(Batches[Batch]):
    """Batches of training pairs; with each pair `hard_negatives` of its query's are drawn."""

    def __init__(
        self, pairs: TrainingPairs, batch_size: int, hard_negatives: int, rng: Rng, pool: Pool = "batch"
    ) -> None:
        super().__init__(len(pairs), batch_size, rng)
        self.pairs, self.hard_negatives, self.pool = pairs, hard_negatives, pool

    def draw(self, rng: np.random.Generator) -> Rows:
        """The (pair, n) hard negatives."""
        return self.pairs.draw(self.hard_negatives, rng)

    def batch(self, rows: Rows, drawn: Rows) -> Batch:
        """The pairs at `rows` with their negatives."""
        return assemble(self.pairs, rows, drawn, self.pool)


def assemble(pairs: TrainingPairs, rows: Rows, negatives: Rows, pool: Pool = "batch") -> Batch:
    """The batch of the pairs numbered `rows`, whose (pair, n) hard negatives are given."""
    columns = np.concatenate([pairs.passage[rows, None], negatives], axis=1)
    positive = np.arange(len(rows)) * columns.shape[1]
    ignored = known_columns(pairs.known, pairs.text[pairs.query[rows]], columns.ravel())
    ignored[np.arange(len(rows)), positive] = False
    if pool == "own":
        ignored |= np.arange(len(rows))[:, None] != np.arange(columns.size) // columns.shape[1]
    queries, passages = pairs.queries.take(pairs.query[rows]), pairs.passages.take(columns.ravel())
    return Batch(rows, queries, passages, positive, ignored, columns.ravel())


def known_columns(known: Ragged, texts: Rows, columns: Rows) -> npt.NDArray[np.bool_]:
    """(query, column): whether the column's passage is known to be right for the query's text."""
    order = np.argsort(columns, kind="stable")
    ordered = columns[order]
    row, passage = known.take(texts)
    first = np.searchsorted(ordered, passage, "left")
    count = np.searchsorted(ordered, passage, "right") - first
    ends = np.cumsum(count)
    places = np.arange(count.sum()) + np.repeat(first - (ends - count), count)
    found = np.zeros((len(texts), len(columns)), bool)
    found[np.repeat(row, count), order[places]] = True
    return found


def is_known(known: Ragged, texts: Rows, passages: Rows) -> npt.NDArray[np.bool_]:
    """Of each (text, passage), entry by entry, whether a pair says that the passage is right for the text."""
    size = int(max(known.values.max(initial=0), passages.max(initial=0))) + 1
    keys = np.sort(np.repeat(np.arange(len(known.offsets) - 1), np.diff(known.offsets)) * size + known.values)
    asked = texts * size + passages
    found = keys[np.minimum(np.searchsorted(keys, asked), max(len(keys) - 1, 0))] == asked if len(keys) else asked < 0
    return np.asarray(found)


def draw_negatives(pairs: TrainingPairs, count: int, rng: np.random.Generator, *, but_own: bool = False) -> Rows:
    """(pair, count) hard negatives: a random choice of the query's own, without repetition.

    but_own: the pair's own passage, which may be among them, is not drawn.

    Where a query has fewer than `count`, passages drawn from all that pairs and negatives name take the missing places:
    dev's are held among `pairs.passages`, too, and are nobody's to learn from.
    """
    named = np.union1d(pairs.passage, pairs.negatives.values)
    drawn = named[rng.integers(len(named), size=(len(pairs), count))]
    pair, place, passage = pairs.negatives.shuffled(pairs.query, rng)
    if but_own:
        others = passage != pairs.passage[pair]
        pair, passage = pair[others], passage[others]
        place = np.arange(len(pair)) - np.searchsorted(pair, pair)
    kept = place < count
    drawn[pair[kept], place[kept]] = passage[kept]
    return drawn
