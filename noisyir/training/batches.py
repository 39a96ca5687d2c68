"""Training pairs as arrays, and the batches of an epoch with their negatives and masks."""

import math
from collections.abc import Callable, Sized
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, Literal, TypeVar

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from noisyir.models.text_tokenizer import Tokens, take_ragged

Rows = npt.NDArray[np.int64]
Rng = Callable[..., np.random.Generator]  # a generator for a purpose
B = TypeVar("B", bound=Sized)
Pool = Literal["batch", "own"]  # competitors of a query's positive: all columns of the batch, or its own pair's


@dataclass(frozen=True)
class Ragged:
    """Row lists of n things: thing i has `values[offsets[i]:offsets[i + 1]]`."""

    offsets: Rows
    values: Rows

    @classmethod
    def grouped(cls, keys: Rows, values: Rows, size: int) -> "Ragged":
        """Group values by keys in 0..size - 1, in their given order."""
        order = np.argsort(keys, kind="stable")
        return cls(np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=size))]), values[order])

    def of(self, thing: int) -> Rows:
        """Return the values of one thing."""
        return self.values[self.offsets[thing] : self.offsets[thing + 1]]

    def take(self, rows: Rows) -> tuple[Rows, Rows]:
        """Return (index into `rows`, value), one entry a value."""
        offsets, places = take_ragged(self.offsets, rows)
        return np.repeat(np.arange(len(rows)), np.diff(offsets)), self.values[places]

    def shuffled(self, rows: Rows, rng: np.random.Generator) -> tuple[Rows, Rows, Rows]:
        """Return (index into `rows`, place, value) of every value, in a random order within each thing."""
        thing, value = self.take(rows)
        order = np.lexsort((rng.random(len(thing)), thing))
        return thing, np.arange(len(thing)) - np.searchsorted(thing, thing), value[order]


@dataclass(frozen=True)
class NumberedPairs:
    """Pairs by position: pair i joins query `query[i]` and passage `passage[i]`.

    text: Text number of each query, equal for queries that read the same.
    known: Passages that pairs give to each text number; they are never its negatives.
    negatives: Mined negatives of each query, perhaps none.
    itself: Passages that are the query itself, of each text number; `known` has them, too.
    """

    query: Rows
    passage: Rows
    text: Rows
    known: Ragged
    negatives: Ragged
    itself: Ragged | None = field(default=None, kw_only=True)

    def __len__(self) -> int:
        return len(self.query)


@dataclass(frozen=True)
class TrainingPairs(NumberedPairs):
    """All that training reads: the pairs, with every query and passage as the model's tokens."""

    queries: Tokens
    passages: Tokens

    def draw(self, count: int, rng: np.random.Generator) -> Rows:
        """Draw the (pair, count) hard negatives that join each pair's own passage in a batch."""
        return draw_negatives(self, count, rng)


@dataclass(frozen=True)
class ListedPairs(TrainingPairs):
    """Pairs with teacher-scored lists: `negatives` are the lists, `score` the scores of `negatives.values`."""

    score: Float[np.ndarray, " listed"]

    def draw(self, count: int, rng: np.random.Generator) -> Rows:
        """Draw passages of the query's list, without the pair's own."""
        return draw_negatives(self, count, rng, but_own=True)

    @cached_property
    def _by_key(self) -> tuple[Rows, Float[np.ndarray, " listed"]]:
        query, passage = self.negatives.take(np.arange(len(self.negatives.offsets) - 1))
        keys, first = np.unique(query * len(self.passages) + passage, return_index=True)
        return keys, self.score[first]

    def teacher_scores(self, rows: Rows, passages: npt.NDArray[np.int64]) -> Float[np.ndarray, "pair passage"]:
        """Return the teacher's scores of (pair, passage) passages; NaN if it gave none."""
        keys, score = self._by_key
        wanted = self.query[rows, None] * len(self.passages) + passages
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[place] == wanted, score[place], np.nan)


@dataclass(frozen=True)
class Batch:
    """Pairs that are each other's negatives, numbered `rows` among the training pairs.

    Columns run pair by pair: its own passage, in column `positive`, then its hard negatives (DPR's order).  `passage`:
    number of each column's passage.  `ignored`: (query, column) mask of other known positives and, with pool "own", of
    other pairs' columns.
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
    """Endless batches by number: epochs of `size` things, in the order of the epoch's generator `rng`.

    Each epoch has ceil(size / batch_size) batches, with sizes that differ by at most one.
    """

    def __init__(self, size: int, batch_size: int, rng: Rng) -> None:
        self.size, self.rng = size, rng
        self.an_epoch = math.ceil(size / batch_size)
        self._epoch, self._rows, self._drawn = -1, list[Rows](), np.empty((0, 0), np.int64)

    def __getitem__(self, number: int) -> B:
        """Return batch `number`; an epoch is drawn whole, so that any of its batches can come first."""
        epoch, place = divmod(number, self.an_epoch)
        if epoch != self._epoch:
            rng = self.rng(epoch)
            self._rows = np.array_split(rng.permutation(self.size), self.an_epoch)
            self._drawn, self._epoch = self.draw(rng), epoch
        rows = self._rows[place]
        return self.batch(rows, self._drawn[rows])

    def draw(self, rng: np.random.Generator) -> Rows:
        """Draw (thing, n) numbers for an epoch; by default none."""
        return np.empty((self.size, 0), np.int64)

    def batch(self, rows: Rows, drawn: Rows) -> B:
        """Build the batch of the things at `rows` from the numbers drawn for them."""
        raise NotImplementedError


class PairBatches(Batches[Batch]):
    """Batches of training pairs, each with `hard_negatives` drawn from its query's."""

    def __init__(
        self, pairs: TrainingPairs, batch_size: int, hard_negatives: int, rng: Rng, pool: Pool = "batch"
    ) -> None:
        super().__init__(len(pairs), batch_size, rng)
        self.pairs, self.hard_negatives, self.pool = pairs, hard_negatives, pool

    def draw(self, rng: np.random.Generator) -> Rows:
        """Draw the (pair, n) hard negatives."""
        return self.pairs.draw(self.hard_negatives, rng)

    def batch(self, rows: Rows, drawn: Rows) -> Batch:
        """Build the batch of the pairs at `rows`."""
        return assemble(self.pairs, rows, drawn, self.pool)


def assemble(pairs: TrainingPairs, rows: Rows, negatives: Rows, pool: Pool = "batch") -> Batch:
    """Build the batch of the pairs numbered `rows` with their (pair, n) hard negatives."""
    columns = np.concatenate([pairs.passage[rows, None], negatives], axis=1)
    positive = np.arange(len(rows)) * columns.shape[1]
    ignored = known_columns(pairs.known, pairs.text[pairs.query[rows]], columns.ravel())
    ignored[np.arange(len(rows)), positive] = False
    if pool == "own":
        ignored |= np.arange(len(rows))[:, None] != np.arange(columns.size) // columns.shape[1]
    queries, passages = pairs.queries.take(pairs.query[rows]), pairs.passages.take(columns.ravel())
    return Batch(rows, queries, passages, positive, ignored, columns.ravel())


def known_columns(known: Ragged, texts: Rows, columns: Rows) -> npt.NDArray[np.bool_]:
    """Return (query, column): whether the column's passage is known to be right for the query's text."""
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
    """Return for each (text, passage) entry whether a pair says that the passage is right for the text."""
    size = int(max(known.values.max(initial=0), passages.max(initial=0))) + 1
    keys = np.repeat(np.arange(len(known.offsets) - 1), np.diff(known.offsets)) * size + known.values
    return np.isin(texts * size + passages, keys)


def draw_negatives(pairs: TrainingPairs, count: int, rng: np.random.Generator, *, but_own: bool = False) -> Rows:
    """Draw (pair, count) hard negatives of each query without repetition, never the pair's own passage if `but_own`.

    Passages that pairs or negatives name fill missing places; dev's passages are never drawn.
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
