"""Drawing negatives: samplers give log-weights, and one function draws by them."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from noisyir.mining.candidates import LogWeights, Rows, Scores

Tiers = Float[np.ndarray, "tier candidate"]


@dataclass(frozen=True)
class Drawn:
    """The candidates drawn, by query and then by draw.

    rows: their positions among the candidates; draw: the number of each draw of its query, from 0;
    tier: by which row of the weights it was drawn, 0 being the sampler's own.
    """

    rows: Int[np.ndarray, " drawn"]
    draw: Int[np.ndarray, " drawn"]
    tier: Int[np.ndarray, " drawn"]


def draw(tiers: Tiers, query: Rows, document: Rows, per_query: int, rng: np.random.Generator) -> Drawn:
    """Draw up to `per_query` candidates of each query without replacement, with chances in proportion to weights.

    tiers: log-weights on any scale, -inf is never drawn.  Once no candidate with a weight in the first tier is left,
    the draw goes on among the rest by the second tier, and so on: no mass is no failure.
    query, document: numbers in the order of the ids.  The same generator draws the same candidates in whatever order
    they are given.  A query with fewer candidates of any weight than asked for gives all of them.

    Source: the n greatest log w + Gumbel noise are such a sample, in the order in which they would have been drawn
    (Yellott, 1977; Kool et al., ICML 2019).  Nothing underflows, for no weight is ever taken out of its logarithm.
    """
    by_ids = query * (document.max(initial=0) + 1) + document  # which also settles ties: the sorts are stable
    order = np.argsort(by_ids, kind="stable")
    noise = -np.log(rng.standard_exponential(len(order)))
    tiers, query = tiers[:, order], query[order]
    possible = tiers > -np.inf
    tier = possible.argmax(axis=0)
    relative = np.stack([weights - _largest(weights, query) for weights in tiers])
    key = np.take_along_axis(relative, tier[None], axis=0)[0] + noise
    drawable = np.flatnonzero(possible.any(axis=0))
    drawable = drawable[np.lexsort((-key[drawable], (query * len(tiers) + tier)[drawable]))]
    starts = _starts(query[drawable])
    numbers = np.arange(len(drawable)) - np.repeat(starts, np.diff(np.append(starts, len(drawable))))
    chosen = drawable[numbers < per_query]
    return Drawn(order[chosen], numbers[numbers < per_query], tier[chosen])


def shares(weights: LogWeights, query: Rows) -> Scores:
    """Each candidate's share of its query's weight: its chance of being the first draw; 0 where all weigh nothing."""
    relative = np.exp(weights - _largest(weights, query))
    total = np.bincount(query, relative)[query]
    share: Scores = np.divide(relative, total, out=np.zeros(len(weights)), where=total > 0)
    return share


def _largest(weights: LogWeights, query: Rows) -> LogWeights:
    """For each candidate the largest log-weight of its query; 0 where all are -inf."""
    largest = np.full(int(query.max(initial=-1)) + 1, -np.inf)
    np.maximum.at(largest, query, weights)
    return np.asarray(np.where(np.isneginf(largest), 0.0, largest)[query])


def _starts(query: Rows) -> Int[np.ndarray, " query"]:
    """Where each query's run of rows begins."""
    return np.flatnonzero(np.diff(query, prepend=query[:1] - 1))
