"""Logistic regression towards a prior: few judgements move the weights little, and from where they were put."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

Array = np.ndarray

_ROUNDS, _TOLERANCE = 50, 1e-6
_LARGEST_STEP = 4.0  # of a weight in one round: a Newton step from far away overshoots


class Prior(NamedTuple):
    """What is believed of each weight before: its mean, and its precision, which is 1 / variance."""

    mean: Float[Array, " column"]
    precision: Float[Array, " column"]


def most_likely_weights(
    columns: Float[Array, "row column"], is_wrong: Bool[Array, " row"], prior: Prior
) -> Float[Array, " column"]:
    """The weights of the highest posterior density, by Newton's method: of the log odds of being wrong.

    The prior's precisions are above 0, so that there is one answer for any rows, even none.
    Source: McCullagh and Nelder, Generalized Linear Models, 1989, section 4.4; Bishop, Pattern Recognition and Machine
    Learning, 2006, section 4.5 (normal prior).
    """
    from scipy.special import expit

    weights = prior.mean.astype(np.float64)
    for _ in range(_ROUNDS):
        chance = expit(columns @ weights)
        slope = columns.T @ (chance - is_wrong) + prior.precision * (weights - prior.mean)
        bend = (columns.T * (chance * (1 - chance))) @ columns + np.diag(prior.precision)
        step = np.linalg.solve(bend, slope)
        largest = float(np.abs(step).max(initial=0.0))
        weights = weights - step * min(1.0, _LARGEST_STEP / max(largest, _TOLERANCE))
        if largest < _TOLERANCE:
            break
    return weights
