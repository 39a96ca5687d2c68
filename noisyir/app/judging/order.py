"""In which order pairs are drawn at random: any first part of the order is a stratified random sample."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from noisyir.detection.judgement import strata_by_score

Array = np.ndarray

_STRATA = 10
_ROUNDS = 5  # a weight is how many pairs one stands for after so many rounds, which is fifty pairs


class RandomOrder(NamedTuple):
    """All pairs in random order, and how many pairs each stands for, up to a common factor."""

    rows: Int[Array, " pair"]
    weights: Float[Array, " pair"]


def random_order(scores: Float[Array, " pair"], rng: np.random.Generator) -> RandomOrder:
    """All pairs, in rounds: each takes one pair, at random, of every tenth of the pairs by score, in random order.

    A judge may stop anywhere: of a part by score, those judged are always drawn at random from it.
    Source: Cochran, Sampling Techniques, 1977, chapter 5 (stratified sampling).
    """
    count = len(scores)
    stratum = strata_by_score(scores, min(_STRATA, count))
    shuffled = rng.permutation(count)
    by_stratum = shuffled[np.argsort(stratum[shuffled], kind="stable")]
    sizes = np.bincount(stratum)
    turn = np.arange(count) - np.repeat(np.cumsum(sizes) - sizes, sizes)  # the round in which a pair's stratum gives it
    order = np.lexsort((rng.random(count), turn))
    return RandomOrder(by_stratum[order], sizes[stratum[by_stratum[order]]] / _ROUNDS)
