"""Drawing of negatives: samplers give log-weights, and one function draws by them."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from noisyir.mining.candidates import LogWeights, Mask, Rows, Scores

Keys = Float[np.ndarray, "query place"]
Chosen = Bool[np.ndarray, "query place"]


@dataclass(frozen=True)
class DrawnCandidates:
    """The drawn candidates, ordered by query and draw.

    Attributes:
        rows: Positions among the candidates.
        draw: Number of the draw within its query, from 0.
        tier: Index of the weighting used; 0 is the sampler's own.
    """

    rows: Int[np.ndarray, " drawn"]
    draw: Int[np.ndarray, " drawn"]
    tier: Int[np.ndarray, " drawn"]


def draw(
    weightings: Iterable[LogWeights], query: Rows, document: Rows, per_query: int, rng: np.random.Generator
) -> DrawnCandidates:
    """Draw up to `per_query` candidates of each query without replacement, with probability proportional to weight.

    Once no candidate with positive weight under the first weighting is left, the draw continues among the rest with the
    second, its fallback, and so on: zero mass is not an error. The same generator draws the same candidates in whatever
    order they are given. A query with fewer candidates of any weight than requested yields all of them.

    Args:
        weightings: Log-weights on any scale; -inf is never drawn.
        query: Query numbers in the order of the ids.
        document: Document numbers in the order of the ids.

    Source: the n greatest log w + Gumbel noise are such a sample, in the order in which they would have been drawn
    (Yellott, 1977; Kool et al., ICML 2019). Nothing underflows because no weight is ever exponentiated.
    """
    left = _by_ids(query, document)
    had = np.zeros(int(query.max(initial=-1)) + 1, np.int64)  # drawn per query so far
    parts = [np.empty((3, 0), np.int64)]
    for tier, weights in enumerate(weightings if per_query else ()):
        weighed = weights[left] > -np.inf
        among, left = (left, left[:0]) if weighed.all() else (left[weighed], left[~weighed])
        lines = _Lines.of(query[among])
        asked = query[among[lines.starts]]
        best = _best_first(lines.keys(weights[among], rng), per_query)
        number = had[asked, None] + np.arange(best.shape[1])
        drawn = number < np.minimum(had[asked] + lines.sizes, per_query)[:, None]
        rows = among[(lines.starts[:, None] + best)[drawn]]
        parts.append(np.stack([rows, number[drawn], np.full(len(rows), tier)]))
        had[asked] += drawn.sum(axis=1)
        left = left[had[query[left]] < per_query]  # candidates of queries that have exhausted this tier
    found = np.concatenate(parts, axis=1)
    return DrawnCandidates(*found[:, np.argsort(query[found[0]] * per_query + found[1], kind="stable")])


def drawn_first(weights: LogWeights, query: Rows, document: Rows, count: int, rng: np.random.Generator) -> Mask:
    """Return whether `draw` would draw each candidate with these weights, which must all be above -inf."""
    rows = _by_ids(query, document)
    lines = _Lines.of(query[rows])
    drawn = np.empty(len(rows), bool)
    drawn[rows] = _greatest(lines.keys(weights[rows], rng), count).ravel()[lines.places]
    return drawn


def shares(weights: LogWeights, query: Rows) -> Scores:
    """Each candidate's share of its query's total weight: its probability of being drawn first; 0 if the total is 0."""
    largest = np.full(int(query.max(initial=-1)) + 1, -np.inf)
    np.maximum.at(largest, query, weights)
    relative = np.exp(weights - np.where(np.isneginf(largest), 0.0, largest)[query])
    total = np.bincount(query, relative)[query]
    share: Scores = np.divide(relative, total, out=np.zeros(len(weights)), where=total > 0)
    return share


@dataclass(frozen=True)
class _Lines:
    """Rows sorted by query as a table: one line per query, with `width` places.

    Attributes:
        places: Place of each row in the flattened table.
    """

    starts: Rows
    sizes: Rows
    width: int
    places: Rows

    @classmethod
    def of(cls, query: Rows) -> "_Lines":
        starts = np.flatnonzero(np.concatenate([query[:1] >= 0, query[1:] != query[:-1]]))
        sizes = np.diff(starts, append=len(query))
        width = int(sizes.max(initial=0))
        shifts = np.arange(len(starts)) * width - starts
        return cls(starts, sizes, width, np.arange(len(query)) + np.repeat(shifts, sizes))

    def keys(self, weights: LogWeights, rng: np.random.Generator) -> Keys:
        """Log-weights relative to the line's maximum, plus Gumbel noise; -inf after the last place of a line."""
        relative = weights - np.repeat(np.maximum.reduceat(weights, self.starts), self.sizes)
        table = np.full((len(self.starts), self.width), -np.inf)
        table.ravel()[self.places] = relative - np.log(rng.standard_exponential(len(weights)))
        return table


def _by_ids(query: Rows, document: Rows) -> Rows:
    """Positions in the order of the ids, which also breaks ties."""
    key = query * (document.max(initial=0) + 1) + document
    return np.arange(len(key)) if (key[1:] > key[:-1]).all() else np.argsort(key, kind="stable")


def _best_first(keys: Keys, count: int) -> Int[np.ndarray, "query drawn"]:
    """Places of the `count` greatest keys of each line in descending order; ties go to the first."""
    lines, width = keys.shape
    places = np.flatnonzero(_greatest(keys, count)).reshape(lines, min(count, width))
    order = np.argsort(-keys.ravel()[places], axis=1, kind="stable")
    best: Int[np.ndarray, "query drawn"] = np.take_along_axis(places, order, axis=1) % width
    return best


def _greatest(keys: Keys, count: int) -> Chosen:
    """Mask of the `count` greatest keys of each line; ties go to the first."""
    if count >= keys.shape[1]:
        return np.ones(keys.shape, bool)
    least = np.partition(keys, -count, axis=1)[:, -count, None]
    chosen = keys >= least
    if len(tied := np.flatnonzero(np.count_nonzero(chosen, axis=1) > count)):
        above, equal = keys[tied] > least[tied], keys[tied] == least[tied]
        chosen[tied] = above | (equal & (equal.cumsum(axis=1) <= count - above.sum(axis=1, keepdims=True)))
    return chosen
