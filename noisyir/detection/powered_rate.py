"""The share of wrong pairs from those that were drawn at random and judged, helped by what a model says of all."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from noisyir.detection.rate import wilson
from noisyir.errors import DataError

Array = np.ndarray

_PARAMETERS = 2  # the sample's mean and the model's part in it


class PoweredRate(NamedTuple):
    """A share with its interval; size: of a simple random sample, without a model, that would tell as much."""

    value: float
    low: float
    high: float
    size: float


def powered_rate(
    is_wrong: Bool[Array, " judged"],
    weights: Float[Array, " judged"],
    said_of_judged: Float[Array, " judged"],
    said_of_all: Float[Array, " judged"],
    pairs: float,
    confidence: float = 0.95,
    *,
    unsure: float = 0.0,
) -> PoweredRate:
    """The share of wrong pairs among all `pairs`: the judged pairs' share, moved by what a model knows of the others.

    weights: how many pairs each judged one stands for, up to a factor.  said_of_judged: how likely wrong each judged
    pair is by a model that did not learn from it; said_of_all: the mean over all pairs of what that same model says, or
    over others that were drawn at random: that mean then has a variance, `unsure`.  pairs: may be infinite.
    The model may err as it likes: of weighted shares, value = wrong + part (said_of_all - said_of_judged), where `part`
    in [0, 1] is that of least variance, 0 for a model that tells nothing.  The interval is Wilson's, of as many pairs
    as a simple random sample would need for that variance; it is never empty, and with 0 wrong pairs the model counts
    for nothing.
    DataError without a judged pair.
    Source: Angelopoulos, Duchi and Zrnic, 2023, arXiv:2311.01453 (PPI++); Zrnic and Candès, PNAS 2024 (cross-fitting);
    Wilson, JASA 1927; Korn and Graubard, 1998 (effective size).
    """
    judged = len(is_wrong)
    if not judged:
        raise DataError("no pair that was drawn at random is judged: the rate is not known")
    share = weights / weights.sum()
    truth = is_wrong.astype(np.float64)
    plain = float(share @ truth)
    said = said_of_judged - said_of_all
    kish = 1 / float(share @ share)  # unequal weights tell less
    spread = float(share @ (said - share @ said) ** 2) + kish * unsure
    both = float(share @ ((said - share @ said) * (truth - plain)))
    part = min(max(both / spread, 0.0), 1.0) if spread > 0 else 0.0
    value = min(max(plain - part * float(share @ said), 0.0), 1.0)
    left = 1 - (2 * part * both - part**2 * spread) / (plain * (1 - plain)) if 0 < plain < 1 else 1.0
    left = min(1.0, left * judged / max(judged - _PARAMETERS, 1))
    size = kish / max(left, 1 / judged)
    return PoweredRate(value, *wilson(value, _of_a_finite_number(size, judged, pairs), confidence), size)


def half_width(rate: PoweredRate, judged: int, more: int, pairs: int, confidence: float = 0.95) -> float:
    """Half of the interval's width if `more` pairs were drawn at random and judged, the model as good as now."""
    size = rate.size * (judged + more) / judged
    low, high = wilson(rate.value, _of_a_finite_number(size, judged + more, pairs), confidence)
    return (high - low) / 2


def _of_a_finite_number(size: float, judged: int, pairs: float) -> float:
    """The size for which the share's variance is what is left of it when `judged` of `pairs` are drawn."""
    return size / (1 - judged / pairs) if judged < pairs else math.inf
