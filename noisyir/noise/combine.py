"""Several detectors as one."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

Array = np.ndarray


def robust_z(scores: Float[Array, " score"], scale_of: Float[Array, " pair"]) -> Float[Array, " score"]:
    """(score - median) / interquartile range, both of `scale_of`; zeros where that range is 0: nothing is said."""
    low, median, high = np.quantile(scale_of, [0.25, 0.5, 0.75])
    return np.asarray((scores - median) / (high - low)) if high > low else np.zeros(len(scores))


def mean_z(
    scores: Sequence[Float[Array, " pair"]], null_scores: Sequence[Float[Array, " pair"]]
) -> tuple[Float[Array, " pair"], Float[Array, " pair"]]:
    """Scores and null scores of the mean detector, each detector on the scale of its own scores."""
    observed = [robust_z(own, own) for own in scores]
    null = [robust_z(random, own) for own, random in zip(scores, null_scores, strict=True)]
    return np.mean(observed, axis=0), np.mean(null, axis=0)
