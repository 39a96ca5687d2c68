"""Nulls of wrong pairs: for each query, documents that a wrong pair might have.

A *null* is a set of documents that a wrong document might come from: all documents, those similar to the best other
one, documents with the query's words, documents of the same source. For each pair some are drawn from it and scored
with its query. If a pair is wrong and its document came from that set, its own document is exchangeable with the draws:
it is equally likely to have any rank among them, whatever the query.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Float32, Int

from noisyir.detection.settings import Assumed, Null
from noisyir.training.batches import Ragged

Array = np.ndarray
_ENOUGH = 20  # minimum pairs above 1/2 to estimate how wrong pairs score


def named_null(assumed: Assumed) -> Null | None:
    """The null assumed by name; None if none is assumed, or the best-fitting one is."""
    return None if assumed == "best" else assumed


@dataclass(frozen=True)
class RankShares:
    """Rank of each pair's own document among the draws of its query, as a share; near 0 if it fits best.

    A share is uniform between `low` and `high`. Drawn so, it is uniform on (0, 1) if the own document is exchangeable
    with the draws, whatever the query and despite ties; nothing is actually drawn, and probabilities are counted
    instead.

    Attributes:
        draws: Maximum number of draws of a pair.
    """

    low: Float[Array, " pair"]
    high: Float[Array, " pair"]
    draws: int

    def above(self, level: float) -> float:
        """Expected number of pairs with a share above a level: the sum of their probabilities."""
        return float(np.clip((self.high - level) / (self.high - self.low), 0, 1).sum())

    def mean(self) -> float:
        """Mean share."""
        return float((self.low + self.high).mean() / 2)


def rank_shares(observed: Float[Array, " pair"], draws: Float[Array, "pair draw"]) -> RankShares:
    """Compute the rank shares of the pairs that have a draw.

    With m draws, the number less suspect than the own document divided by m + 1, up to that number plus one plus the
    number of ties, divided likewise.

    Source: the p-value of a permutation test, Barnard 1963, randomised so that it is exact in spite of ties.
    """
    count = np.isfinite(draws).sum(axis=1)
    has = count > 0
    below = (draws[has] < observed[has, None]).sum(axis=1)
    up_to = (draws[has] <= observed[has, None]).sum(axis=1) + 1
    return RankShares(below / (count[has] + 1), up_to / (count[has] + 1), draws.shape[1])


def upper_half(observed: Float[Array, " pair"], draws: Float[Array, "pair draw"]) -> Float[Array, "some score"]:
    """Own score and draws of the pairs with shares above 1/2, one row per pair; NaN if it has fewer draws.

    These pairs are a random half of the wrong ones, so their queries are as hard as wrong pairs' queries, and the
    reference of their own document (the best other one) is present equally often; own document and draws together are
    exchangeable whatever the share.
    """
    count = np.isfinite(draws).sum(axis=1)
    below, up_to = (draws < observed[:, None]).sum(axis=1), (draws <= observed[:, None]).sum(axis=1)
    upper = (count > 0) & (below + up_to > count)
    return np.column_stack([observed[upper], draws[upper]])


def wrong_scores(observed: Float[Array, " pair"], draws: Float[Array, "pair draw"]) -> Float[Array, " null"]:
    """Scores distributed as those of wrong pairs: the upper half's, or all pairs' draws if it is too small."""
    both = upper_half(observed, draws)
    return np.asarray(both[np.isfinite(both)] if len(both) >= _ENOUGH else draws[np.isfinite(draws)])


def wrong_by_null(
    scores: Float[Array, " pair"], null_scores: Float[Array, " null"], rate: float
) -> Float[Array, " pair"]:
    """Probability that each pair is wrong, min(1, rate * f_null(s) / f_observed(s)), non-decreasing in the score.

    Assumes that wrong pairs score as the null's documents do. The density ratio is g / (1 - g), up to the sample sizes,
    where g is the isotonic regression of "is null" on the score over both samples: only ranks matter.

    Source: Efron et al., JASA 2001 (local false discovery rate); Barlow et al., 1972 (isotonic regression).
    """
    from scipy.optimize import isotonic_regression

    values, place = np.unique(np.concatenate([scores, null_scores]), return_inverse=True)
    observed = np.bincount(place[: len(scores)], minlength=len(values))
    null = np.bincount(place[len(scores) :], minlength=len(values))
    blocks = isotonic_regression(null / (observed + null), weights=observed + null).x
    is_null = blocks[place[: len(scores)]]  # below 1 because the block contains this score
    return np.asarray(np.minimum(rate * is_null / (1 - is_null) * len(scores) / len(null_scores), 1.0))


@dataclass(frozen=True)
class Positions:
    """Pairs of texts and documents by position; equal texts share a position, and so do equal documents.

    Attributes:
        known: For each text, the documents that pairs name for it, and the text itself as a document.
        source: Source number of each document; -1 if unknown.
    """

    text: Int[Array, " pair"]
    own: Int[Array, " pair"]
    known: Ragged
    source: Int[Array, " document"]

    @property
    def most_known(self) -> int:
        """Maximum number of documents that pairs name for one text."""
        return int(np.diff(self.known.offsets).max(initial=0))

    def unnamed(
        self, text: Int[Array, " some"], documents: Int[Array, "some k"], named: Int[Array, " key"] | None = None
    ) -> Int[Array, "some k"]:
        """Replace documents that are known to be no wrong answer to the text, or `named` alone, by -1."""
        keys = self._named if named is None else named
        if not len(keys):
            return documents
        asked = text[:, None] * len(self.source) + documents
        return np.where(keys[np.minimum(np.searchsorted(keys, asked), len(keys) - 1)] == asked, -1, documents)

    def of_source(
        self, documents: Int[Array, " some"], draws: int, rng: np.random.Generator
    ) -> Int[Array, "some draw"]:
        """Draw distinct documents from each document's source; -1 if there are fewer, all -1 without sources."""
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
    def itself(self) -> Int[Array, " key"]:
        """Known documents that no pair names, for `unnamed`: they are the text itself, and nothing ranks behind it."""
        found: Int[Array, " key"] = np.setdiff1d(self._named, self.text * len(self.source) + self.own)
        return found

    @cached_property
    def _by_source(self) -> Ragged:
        there = np.flatnonzero(self.source >= 0)
        return Ragged.grouped(self.source[there], there, int(self.source.max(initial=-1)) + 1)


def distinct(rows: Int[Array, "row k"]) -> Int[Array, "row k"]:
    """Sort each row's numbers in ascending order and remove repetitions; -1 in their place."""
    ordered = np.sort(rows, axis=1)
    ordered[:, 1:][ordered[:, 1:] == ordered[:, :-1]] = -1
    return ordered


def leading(rows: Int[Array, "row k"], count: int) -> Int[Array, "row count"]:
    """First `count` numbers of each row that are not -1, in order; -1 if there are fewer."""
    order = np.argsort(rows < 0, axis=1, kind="stable")[:, :count]
    kept = np.take_along_axis(rows, order, axis=1)
    return np.pad(kept, ((0, 0), (0, count - kept.shape[1])), constant_values=-1)


def best_places(values: Float32[Array, "row document"], count: int) -> Int[Array, "row count"]:
    """Positions of each row's greatest values above 0, in descending order of value; -1 if there are fewer."""
    count = min(count, values.shape[1])
    places = np.argpartition(-values, count - 1, axis=1)[:, :count]
    found = np.take_along_axis(values, places, axis=1)
    order = np.lexsort((places, -found), axis=1)
    found, places = np.take_along_axis(found, order, axis=1), np.take_along_axis(places, order, axis=1)
    return np.where(found > 0, places, -1)
