"""How far two judges agree, beyond what chance alone would bring."""

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

from noisyir.errors import DataError


class Kappa(NamedTuple):
    """Cohen's kappa with its interval: 1 where two judges always agree, 0 where they do as often as chance brings."""

    value: float
    low: float
    high: float


def cohens_kappa(
    one: Bool[np.ndarray, " pair"], other: Bool[np.ndarray, " pair"], confidence: float = 0.95
) -> Kappa | None:
    """Of two judges' verdicts on the same pairs; None where both only ever said one and the same, which tells nothing.

    The interval is normal, with the large-sample error of kappa, and is cut at -1 and 1.  DataError without a pair.
    Source: Cohen, Educational and Psychological Measurement, 1960; Fleiss, Cohen and Everitt, Psychological Bulletin,
    1969, Eq. 13 (error).
    """
    if not len(one):
        raise DataError("the judges have no pair in common: their agreement is not known")
    joint = np.array([[np.mean((one == a) & (other == b)) for b in (False, True)] for a in (False, True)])
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    observed, expected = float(np.trace(joint)), float(rows @ columns)
    if expected == 1.0:
        return None
    value = (observed - expected) / (1 - expected)
    on = sum(joint[k, k] * (1 - (rows[k] + columns[k]) * (1 - value)) ** 2 for k in range(2))
    off = sum(joint[k, 1 - k] * (columns[k] + rows[1 - k]) ** 2 for k in range(2)) * (1 - value) ** 2
    variance = (on + off - (value - expected * (1 - value)) ** 2) / (len(one) * (1 - expected) ** 2)
    half = NormalDist().inv_cdf(0.5 + confidence / 2) * math.sqrt(max(variance, 0.0))
    return Kappa(value, max(-1.0, value - half), min(1.0, value + half))
