"""Which pairs teach most: doubtful ones that are unlike each other."""

import numpy as np
from jaxtyping import Float, Int

Array = np.ndarray

_CHOICE = 4  # times as many pairs as wanted, those nearest to p = .5, are chosen among


def pairs_that_teach(
    p_wrong: Float[Array, " pair"],
    features: Float[Array, "pair feature"] | None,
    query: Int[Array, " pair"],
    judged: Int[Array, " judged"],
    wanted: int,
) -> Int[Array, " chosen"]:
    """Rows of `wanted` pairs, or fewer if there are no more, best first: none judged, no two of one query.

    Of the pairs nearest to a chance of one half, the first is the nearest, and each next one is that whose features are
    least like those of any before it by their cosine.  Without features, just the nearest ones.
    Source: Lewis and Gale, SIGIR 1994 (uncertainty); Sener and Savarese, ICLR 2018 (greedy k-centre).
    """
    is_open = np.ones(len(p_wrong), bool)
    is_open[judged] = False
    rows = np.flatnonzero(is_open)
    rows = rows[np.argsort(np.abs(p_wrong[rows] - 0.5), kind="stable")]
    _, first = np.unique(query[rows], return_index=True)
    rows = rows[np.sort(first)]
    if features is None:
        return rows[:wanted]
    rows = rows[: _CHOICE * wanted]
    directions = features[rows] / np.maximum(np.linalg.norm(features[rows], axis=1, keepdims=True), 1e-12)
    chosen, distance = [], np.full(len(rows), np.inf)
    for _ in range(min(wanted, len(rows))):
        best = int(distance.argmax())  # of the first round: 0, the nearest to one half
        chosen.append(best)
        distance = np.minimum(distance, 1 - directions @ directions[best])
        distance[chosen] = -np.inf
    return rows[chosen]
