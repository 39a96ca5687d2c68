"""Local false discovery: how a score compares with those that wrong pairs have.

What wrong pairs score is not known, but can be made: the same query with a document drawn at random, or with a near
neighbour of its own document.  How much of either it takes to explain the observed scores shows in their upper part,
where no correct pair is left: there every quantile must tell the same rate.
"""

import numpy as np
from jaxtyping import Float

Array = np.ndarray

_LEVELS = np.array([0.5, 0.6, 0.7, 0.8, 0.9])
_SHARES = np.linspace(0.0, 1.0, 21)
_TOLERANCE = 0.02  # relative spread of the rates over the levels up to which they agree
_FLOOR = 0.002  # added to the mean rate: so low a rate is noise


def near_share(scores: Float[Array, " pair"], random: Float[Array, " pair"], near: Float[Array, " pair"]) -> float:
    """The least share of near neighbours, in steps of 0.05, with which the null tells one rate at every quantile.

    Storey's estimate of the rate (JRSS B 2002) does not depend on its lambda if the null is right and no correct pair
    lies above.  Where no share makes the estimates agree, the one with the least relative spread is taken.
    """
    pooled = np.concatenate([random, near])
    order = np.argsort(pooled, kind="stable")
    is_random = order < len(random)
    random_below, near_below = np.cumsum(is_random) / len(random), np.cumsum(~is_random) / len(near)
    values, observed = pooled[order], np.sort(scores)
    spreads = []
    for share in _SHARES:
        below = (1 - share) * random_below + share * near_below
        edges = values[np.searchsorted(below, _LEVELS - 1e-9)]
        rates = (1 - np.searchsorted(observed, edges, "right") / len(observed)) / (1 - _LEVELS)
        spreads.append(rates.std() / (rates.mean() + _FLOOR))
        if spreads[-1] <= _TOLERANCE:
            break
    return float(_SHARES[int(np.argmin(spreads))])


def blended(random: Float[Array, " pair"], near: Float[Array, " pair"], share: float) -> Float[Array, " pair"]:
    """A null sample of as many scores, `share` of them with near neighbours: evenly spaced order statistics of each."""
    count = round(share * len(random))
    if count in (0, len(random)):
        return near if count else random

    def spaced(values: Array, size: int) -> Array:
        return np.asarray(np.sort(values)[(np.arange(size) * len(values)) // size])

    return np.concatenate([spaced(random, len(random) - count), spaced(near, count)])


def wrong_by_null(
    scores: Float[Array, " pair"], null_scores: Float[Array, " null"], rate: float
) -> Float[Array, " pair"]:
    """Probability that each pair is wrong, min(1, rate * f_null(s) / f_observed(s)), non-decreasing in the score.

    Wrong pairs are taken to score as random documents do.  The ratio of densities is g / (1 - g), up to the sizes of
    the samples, where g is the isotonic regression of "is null" on the score over both samples: only ranks matter.
    Source: Efron et al., JASA 2001 (local false discovery rate); Barlow et al., 1972 (isotonic regression).
    """
    from scipy.optimize import isotonic_regression

    values, place = np.unique(np.concatenate([scores, null_scores]), return_inverse=True)
    observed = np.bincount(place[: len(scores)], minlength=len(values))
    null = np.bincount(place[len(scores) :], minlength=len(values))
    blocks = isotonic_regression(null / (observed + null), weights=observed + null).x
    is_null = blocks[place[: len(scores)]]  # below 1, as the block holds this score
    return np.asarray(np.minimum(rate * is_null / (1 - is_null) * len(scores) / len(null_scores), 1.0))
