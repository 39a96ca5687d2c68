"""How far two judges agree, beyond what chance alone would bring."""

import math
from collections.abc import Mapping
from itertools import combinations
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool

from noisyir.app.judging.journal import Answer
from noisyir.auditing.judgements import Pair
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


def agreement(latest: Mapping[str, Mapping[Pair, Answer]]) -> list[dict[str, Any]]:
    """For every two judges with pairs in common: their names, how many pairs, and Cohen's kappa with its interval.

    latest: what each judge said last of each pair.  Pairs about which one of the two was unsure count for nothing;
    kappa is None where both only ever said one and the same.
    """
    found = []
    for judges in combinations(sorted(latest), 2):
        one, other = (_decided(latest[judge]) for judge in judges)
        both = [pair for pair in one if pair in other]
        if both:
            kappa = cohens_kappa(np.array([one[pair] for pair in both]), np.array([other[pair] for pair in both]))
            found.append({"judges": judges, "pairs": len(both), "kappa": kappa})
    return found


def _decided(said: Mapping[Pair, Answer]) -> dict[Pair, bool]:
    """Whether each pair was called wrong."""
    return {pair: answer.verdict == "wrong" for pair, answer in said.items() if answer.verdict != "unclear"}
