"""Drawing negatives: samplers give log-weights, and one function draws by them."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from noisyir.mining.candidates import LogWeights, Mask, Rows, Scores

Keys = Float[np.ndarray, "query place"]
Chosen = Bool[np.ndarray, "query place"]


@dataclass(frozen=True)
class DrawnCandidates:
    """The candidates drawn, by query and then by draw.

    rows: their positions among the candidates; draw: the number of each draw of its query, from 0;
    tier: by which of the weights it was drawn, 0 being the sampler's own.
    """

    rows: Int[np.ndarray, " drawn"]
    draw: Int[np.ndarray, " drawn"]
    tier: Int[np.ndarray, " drawn"]


def draw(
    weightings: Iterable[LogWeights], query: Rows, document: Rows, per_query: int, rng: np.random.Generator
) -> DrawnCandidates:
    """Draw up to `per_query` candidates of each query without replacement, with chances in proportion to weights.

    weightings: log-weights on any scale, -inf is never drawn.  Once no candidate weighted by the first is left, the
    draw goes on among the rest by the second, its fallback, and so on: no mass is no failure.
    query, document: numbers in the order of the ids.  The same generator draws the same candidates in whatever order
    they are given.  A query with fewer candidates of any weight than asked for gives all of them.

    Source: the n greatest log w + Gumbel noise are such a sample, in the order in which they would have been drawn
    (Yellott, 1977; Kool et al., ICML 2019).  Nothing underflows, for no weight is ever taken out of its logarithm.
    """
    left = _by_ids(query, document)
    had = np.zeros(int(query.max(initial=-1)) + 1, np.int64)  # by each query so far
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
        left = left[had[query[left]] < per_query]  # whose queries have drawn all that this tier weighs
    found = np.concatenate(parts, axis=1)
    return DrawnCandidates(*found[:, np.argsort(query[found[0]] * per_query + found[1], kind="stable")])


def drawn_first(weights: LogWeights, query: Rows, document: Rows, count: int, rng: np.random.Generator) -> Mask:
    """Whether `draw` would draw each candidate of its query by these weights, all of them above -inf."""
    rows = _by_ids(query, document)
    lines = _Lines.of(query[rows])
    drawn = np.empty(len(rows), bool)
    drawn[rows] = _greatest(lines.keys(weights[rows], rng), count).ravel()[lines.places]
    return drawn


def shares(weights: LogWeights, query: Rows) -> Scores:
    """Each candidate's share of its query's weight: its chance of being the first draw; 0 where all weigh nothing."""
    largest = np.full(int(query.max(initial=-1)) + 1, -np.inf)
    np.maximum.at(largest, query, weights)
    relative = np.exp(weights - np.where(np.isneginf(largest), 0.0, largest)[query])
    total = np.bincount(query, relative)[query]
    share: Scores = np.divide(relative, total, out=np.zeros(len(weights)), where=total > 0)
    return share


@dataclass(frozen=True)
class _Lines:
    """Rows in the order of their queries as a table: a line for each query, of `width` places.

    starts, sizes: of each line, its first row and how many it has; places: of each row, in the table line after line.
    """

    starts: Rows
    sizes: Rows
    width: int
    places: Rows

    @classmethod
    def of(cls, query: Rows) -> "_Lines":
        """The table of rows with these queries."""
        starts = np.flatnonzero(np.concatenate([query[:1] >= 0, query[1:] != query[:-1]]))
        sizes = np.diff(starts, append=len(query))
        width = int(sizes.max(initial=0))
        shifts = np.arange(len(starts)) * width - starts
        return cls(starts, sizes, width, np.arange(len(query)) + np.repeat(shifts, sizes))

    def keys(self, weights: LogWeights, rng: np.random.Generator) -> Keys:
        """Log-weights below the line's largest, plus Gumbel noise; -inf behind the last of a line."""
        relative = weights - np.repeat(np.maximum.reduceat(weights, self.starts), self.sizes)
        table = np.full((len(self.starts), self.width), -np.inf)
        table.ravel()[self.places] = relative - np.log(rng.standard_exponential(len(weights)))
        return table


def _by_ids(query: Rows, document: Rows) -> Rows:
    """The positions in the order of the ids, which also settles ties."""
    key = query * (document.max(initial=0) + 1) + document
    return np.arange(len(key)) if (key[1:] > key[:-1]).all() else np.argsort(key, kind="stable")


def _best_first(keys: Keys, count: int) -> Int[np.ndarray, "query drawn"]:
    """The places of the `count` greatest keys of each line, the greatest first; of equal ones the first."""
    lines, width = keys.shape
    places = np.flatnonzero(_greatest(keys, count)).reshape(lines, min(count, width))
    order = np.argsort(-keys.ravel()[places], axis=1, kind="stable")
    best: Int[np.ndarray, "query drawn"] = np.take_along_axis(places, order, axis=1) % width
    return best


def _greatest(keys: Keys, count: int) -> Chosen:
    """Where the `count` greatest keys of each line are; of equal ones the first."""
    if count >= keys.shape[1]:
        return np.ones(keys.shape, bool)
    least = np.partition(keys, -count, axis=1)[:, -count, None]
    chosen = keys >= least
    if len(tied := np.flatnonzero(np.count_nonzero(chosen, axis=1) > count)):
        above, equal = keys[tied] > least[tied], keys[tied] == least[tied]
        chosen[tied] = above | (equal & (equal.cumsum(axis=1) <= count - above.sum(axis=1, keepdims=True)))
    return chosen
