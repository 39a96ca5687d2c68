"""Several detectors as one."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

Array = np.ndarray


def robust_z(scores: Float[Array, " score"], scale_of: Float[Array, " pair"]) -> Float[Array, " score"]:
    """(score - median) / interquartile range, both of `scale_of`; zeros where that range is 0: nothing is said."""
    low, median, high = np.quantile(scale_of, [0.25, 0.5, 0.75])
    return np.asarray((scores - median) / (high - low)) if high > low else np.zeros(len(scores))


def mean_z(scores: Sequence[Float[Array, " pair"]], others: Sequence[Float[Array, " pair"]]) -> Float[Array, " pair"]:
    """The mean of detectors' `others`, their own scores or those of made-up pairs, each on the scale of its scores."""
    return np.asarray(np.mean([robust_z(other, own) for own, other in zip(scores, others, strict=True)], axis=0))
