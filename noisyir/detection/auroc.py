"""How often a wrong pair is more suspect than a right one, in one order or in two, with what a sample leaves open."""

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

Array = np.ndarray


class Auroc(NamedTuple):
    """The area under the ROC curve with its interval."""

    value: float
    low: float
    high: float


def auroc(suspicion: Float[Array, " pair"], is_wrong: Bool[Array, " pair"], confidence: float = 0.95) -> Auroc | None:
    """The chance that a wrong pair is more suspect than a right one, ties half; None where one kind is lacking.

    The interval is normal on the scale of log odds, so that it stays within 0 and 1; half a pair of either order is
    added where all are in one.  Source: DeLong, DeLong and Clarke-Pearson, Biometrics, 1988.
    """
    wrong, right = int(is_wrong.sum()), int((~is_wrong).sum())
    if not wrong or not right:
        return None
    of_wrong, of_right = _placements(suspicion, is_wrong)
    value = float(of_wrong.mean())
    least = 0.5 / (wrong * right)
    shrunk = min(max(value, least), 1 - least)
    floor = shrunk * (1 - shrunk) / (wrong + right)  # a handful in perfect order does not prove perfection
    error = math.sqrt(max(_variance(of_wrong) + _variance(of_right), floor)) / (shrunk * (1 - shrunk))
    odds, half = math.log(shrunk / (1 - shrunk)), _quantile(confidence) * error
    return Auroc(value, *(1 / (1 + math.exp(-(odds + side * half))) for side in (-1, 1)))


def auroc_gain(
    new: Float[Array, " pair"], old: Float[Array, " pair"], is_wrong: Bool[Array, " pair"], confidence: float = 0.95
) -> Auroc | None:
    """What the order `new` gains in AUROC over `old` on the same pairs; None where one kind is lacking.

    Source: DeLong et al., 1988 (both orders' placements of the same pairs).
    """
    if is_wrong.all() or not is_wrong.any():
        return None
    gained = [one - other for one, other in zip(_placements(new, is_wrong), _placements(old, is_wrong), strict=True)]
    value = float(gained[0].mean())
    half = _quantile(confidence) * math.sqrt(sum(map(_variance, gained)))
    return Auroc(value, value - half, value + half)


def _placements(suspicion: Array, is_wrong: Array) -> tuple[Float[Array, " wrong"], Float[Array, " right"]]:
    """For each wrong pair the share of right ones below it, and for each right pair that of wrong ones above it."""
    wrong, right = np.sort(suspicion[is_wrong]), np.sort(suspicion[~is_wrong])

    def below(values: Array, of: Array) -> Array:
        both = np.searchsorted(of, values, "left") + np.searchsorted(of, values, "right")
        return np.asarray(both / (2 * len(of)))

    return below(suspicion[is_wrong], right), 1 - below(suspicion[~is_wrong], wrong)


def _variance(placements: Array) -> float:
    """Of the mean of these; of one alone the most that it can be."""
    return float(placements.var(ddof=1)) / len(placements) if len(placements) > 1 else 0.25


def _quantile(confidence: float) -> float:
    return NormalDist().inv_cdf(0.5 + confidence / 2)
