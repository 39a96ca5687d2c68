"""Local false discovery: how a score compares with those of random documents."""

import numpy as np
from jaxtyping import Float

Array = np.ndarray


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
