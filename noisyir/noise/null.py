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
_TOLERANCE = 0.02  # relative spread of the rates over the levels up to which they agree, whatever the number of pairs
_VARIANCE = float(0.5 * (1 / (1 - _LEVELS)).mean())  # halved, for the levels count partly the same pairs
_LEAST, _SOME = 0.02, 0.1  # a rate of some size: so much, and so much of the greatest that any share gives
_FLOOR = 0.002  # added to the mean rate: so low a rate is noise


def near_share(scores: Float[Array, " pair"], random: Float[Array, " pair"], near: Float[Array, " pair"]) -> float:
    """The least share of near neighbours, in steps of 0.05, with which the null tells one rate at every quantile.

    Storey's estimate of the rate (JRSS B 2002) does not depend on its lambda if the null is right and no correct pair
    lies above.  The rates agree when they spread no more than as many pairs would by chance.  Where no share makes
    rates of some size agree, the one with the least relative spread is taken.  Near neighbours that all score far
    below random documents hide behind these where both occur: the rate is then too low.
    """
    rates = _rates(scores, random, near)
    rate = rates.mean(axis=1)
    spread = rates.std(axis=1) / (rate + _FLOOR)
    # relative variances of the counts above a quantile: of the pairs, and of the null
    chance = _VARIANCE * (1 / (max(rate.max(), _FLOOR) * len(scores)) + 1 / len(scores))
    agree = (spread**2 <= _TOLERANCE**2 + chance) & (rate >= max(_LEAST, _SOME * rate.max()))
    return float(_SHARES[np.argmax(agree) if agree.any() else np.argmin(spread)])


def _rates(
    scores: Float[Array, " pair"], random: Float[Array, " pair"], near: Float[Array, " pair"]
) -> Float[Array, "share level"]:
    """Storey's estimate of the rate for every share of near neighbours in the null and every lambda."""
    pooled = np.concatenate([random, near])
    order = np.argsort(pooled, kind="stable")
    is_random = order < len(random)
    random_below, near_below = np.cumsum(is_random) / len(random), np.cumsum(~is_random) / len(near)
    values, observed = pooled[order], np.sort(scores)
    below = (1 - _SHARES[:, None]) * random_below + _SHARES[:, None] * near_below
    edges = np.stack([values[np.searchsorted(row, _LEVELS - 1e-9)] for row in below])
    return np.asarray((1 - np.searchsorted(observed, edges, "right") / len(observed)) / (1 - _LEVELS))


def blended(random: Float[Array, " pair"], near: Float[Array, " pair"], share: float) -> Float[Array, " pair"]:
    """A null sample of as many scores, `share` of them with near neighbours: evenly spaced order statistics of each."""
    count = round(share * len(random))
    if count in (0, len(random)):
        return near if count else random

    def spaced(values: Array, size: int) -> Array:
        return np.asarray(np.sort(values)[(2 * np.arange(size) + 1) * len(values) // (2 * size)])

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
