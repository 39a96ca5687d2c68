"""How far several judges agree."""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np

from noisyir.app.judging.journal import Answer
from noisyir.auditing.judgements import Pair
from noisyir.detection.agreement import cohens_kappa


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
