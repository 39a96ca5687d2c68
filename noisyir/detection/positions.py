"""Texts and documents of pairs by position, who names whom, and where documents came from."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float32, Int

from noisyir.training.batches import Ragged

Array = np.ndarray


@dataclass(frozen=True)
class Positions:
    """Pairs of texts and documents by position; equal texts have one position, and so have equal documents.

    text, own: of each pair.  known: for each text the documents that pairs name for it.
    source: for each document the number of where it came from, -1 where nothing says.
    """

    text: Int[Array, " pair"]
    own: Int[Array, " pair"]
    known: Ragged
    source: Int[Array, " document"]

    @property
    def most_known(self) -> int:
        """The most documents that pairs name for one text."""
        return int(np.diff(self.known.offsets).max(initial=0))

    def unnamed(self, text: Int[Array, " some"], documents: Int[Array, "some k"]) -> Int[Array, "some k"]:
        """The documents but those that a pair of the text names: -1 in their place."""
        asked = text[:, None] * len(self.source) + documents
        keys = self._named
        named = keys[np.minimum(np.searchsorted(keys, asked), len(keys) - 1)] == asked
        return np.where(named, -1, documents)

    def of_source(
        self, documents: Int[Array, " some"], draws: int, rng: np.random.Generator
    ) -> Int[Array, "some draw"]:
        """Documents drawn from each document's source, none twice, -1 where there are fewer; without sources all -1."""
        source = np.where(documents >= 0, self.source[documents], -1)
        drawn = np.full((len(documents), draws), -1)
        there = np.flatnonzero(source >= 0)
        first, sizes = self._by_source.offsets[:-1], np.diff(self._by_source.offsets)
        of = source[there, None]
        place = (rng.random((len(there), draws)) * sizes[of]).astype(np.int64)
        drawn[there] = self._by_source.values[first[of] + place]
        return distinct(drawn)

    @cached_property
    def _named(self) -> Int[Array, " known"]:
        text = np.repeat(np.arange(len(self.known.offsets) - 1), np.diff(self.known.offsets))
        return np.sort(text * len(self.source) + self.known.values)

    @cached_property
    def _by_source(self) -> Ragged:
        there = np.flatnonzero(self.source >= 0)
        return Ragged.grouped(self.source[there], there, int(self.source.max(initial=-1)) + 1)


def distinct(rows: Int[Array, "row k"]) -> Int[Array, "row k"]:
    """Each row's numbers, every one once, in ascending order; -1 in the place of repetitions."""
    ordered = np.sort(rows, axis=1)
    ordered[:, 1:][ordered[:, 1:] == ordered[:, :-1]] = -1
    return ordered


def leading(rows: Int[Array, "row k"], count: int) -> Int[Array, "row count"]:
    """The first `count` numbers of each row that are not -1, in their order; -1 where there are fewer."""
    order = np.argsort(rows < 0, axis=1, kind="stable")[:, :count]
    kept = np.take_along_axis(rows, order, axis=1)
    return np.pad(kept, ((0, 0), (0, count - kept.shape[1])), constant_values=-1)


def best_places(values: Float32[Array, "row document"], count: int) -> Int[Array, "row count"]:
    """Where each row's greatest values above 0 are, greatest first; -1 where there are fewer."""
    count = min(count, values.shape[1])
    places = np.argpartition(-values, count - 1, axis=1)[:, :count]
    found = np.take_along_axis(values, places, axis=1)
    order = np.lexsort((places, -found), axis=1)
    found, places = np.take_along_axis(found, order, axis=1), np.take_along_axis(places, order, axis=1)
    return np.where(found > 0, places, -1)
