"""Drawing negatives: a sampler gives every candidate a weight, and one function draws by weight."""

import numpy as np
from jaxtyping import Bool, Float, Int

Candidates = Float[np.ndarray, " candidate"]


def uniform_weights(eligible: Bool[np.ndarray, " candidate"]) -> Candidates:
    """The same weight for every candidate that may be drawn, and none for the others."""
    return eligible.astype(np.float64)


def draw(
    weights: Candidates, queries: Int[np.ndarray, " candidate"], per_query: int, rng: np.random.Generator
) -> tuple[Int[np.ndarray, " drawn"], Int[np.ndarray, " drawn"]]:
    """Draw up to `per_query` candidates of each query without replacement, with chances in proportion to weights.

    weights: any scale, 0 is never drawn; queries: a number for each candidate's query, in any order.
    Returns the positions of those drawn, by query and then by draw, and the number of each draw, from 0.
    A query with fewer candidates of positive weight gives all of them.

    Source: Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006: the items with the smallest
    -ln(u) / w, u uniform on (0, 1), are such a sample, in the order in which they would have been drawn.
    """
    candidates = np.flatnonzero(weights > 0)
    keys = rng.standard_exponential(len(weights))[candidates] / weights[candidates]
    order = candidates[np.lexsort((keys, queries[candidates]))]
    sorted_queries = queries[order]
    first = np.flatnonzero(np.r_[True, sorted_queries[1:] != sorted_queries[:-1]][: len(order)])
    numbers = np.arange(len(order)) - np.repeat(first, np.diff(np.r_[first, len(order)]))
    kept = numbers < per_query
    return order[kept], numbers[kept]
