"""How many pairs can be kept so that at most a given share of them is wrong, with a given confidence.

From pairs drawn at random and judged, whatever the quality of the scores. Let G(q) be the share of all pairs that are
wrong and among the q least suspect. Every drawn pair has a number V, uniform on [0, 1]: G at its own place if it is
wrong, and a number above G(1) if it is right. The wrong drawn pairs among the q least suspect are therefore a count of
uniform numbers up to G(q), and a simultaneous confidence band for the uniform distribution function bounds G(q) for all
q at once. No grid is chosen, and no bound needs a correction for multiple looks: the stated confidence holds at every
point of the curve, even at a point selected as the best.

The order must not depend on the verdicts that test it. The label-free order does not. In the order learnt from
judgements, each pair's place comes from a model fitted without its own query's verdicts (`judged.py`), so every verdict
tests a model fitted without it; that the level then holds is shown by simulation, not proved.

Source: Owen, JASA 1995 (bands from binomial bounds); Clopper and Pearson, Biometrika, 1934 (the bound at each count);
Angelopoulos et al., 2021, arXiv:2110.01052 (Learn then Test: the band replaces its multiple-testing correction).

Without any judgement, how many pairs can be kept if wrong pairs are like made-up ones of a fitting null.

The pairs whose own document lies in the upper half of its ranking are a random half of the wrong ones (`null.py`), so
their own documents and draws together score as wrong pairs do, whatever their queries. If wrong pairs and these are
ranked together by score, all interleavings are equally likely, which bounds the number of wrong pairs that precede a
given number of these.

Source: Vovk, Gammerman and Shafer, 2005 (conformal prediction); Jin and Candès, JMLR 2023 (selection by conformal
p-values). If wrong pairs are not like the made-up ones, nothing holds; only judgements need no such condition.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Float, Int

from noisyir.base.errors import DataError
from noisyir.detection.combine import Scores, by_null
from noisyir.detection.null import upper_half
from noisyir.detection.settings import Null

Array = np.ndarray

_HALVINGS = 12
_FALL = 0.75  # exponent with which the level falls in the count of wrong pairs
_STEP = 1.25  # ratio of successive numbers of made-up pairs at which the order is examined


@dataclass(frozen=True)
class Guarantee:
    """Upper bounds of the share of wrong pairs among the least suspect ones, by number of pairs kept.

    Attributes:
        kept: Numbers of pairs, ascending.
        bound: Shares that hold simultaneously at `confidence`.
        judged: Number of pairs drawn at random and judged that it is based on; 0 if based on made-up pairs.
    """

    kept: Int[Array, " size"]
    bound: Float[Array, " size"]
    confidence: float
    judged: int

    def most(self, wrong: float) -> tuple[int, float] | None:
        """(pairs kept, bound) for the largest number with at most the share `wrong` wrong; None if none qualifies."""
        allowed = np.flatnonzero(self.bound <= wrong)
        return (int(self.kept[allowed[-1]]), float(self.bound[allowed[-1]])) if len(allowed) else None


def guarantee(
    suspicion: Float[Array, " pair"],
    rows: Int[Array, " judged"],
    is_wrong: Bool[Array, " judged"],
    *,
    confidence: float = 0.9,
    sizes: int = 100,
) -> Guarantee:
    """Compute bounds for `sizes` evenly spaced numbers of pairs kept, up to all; ties stay together.

    Args:
        rows: Pairs drawn at random with equal probability and judged. A sample stratified by the order with equal
            numbers per stratum is as valid because its counts vary less than in a simple random sample.
        is_wrong: Their verdicts.

    Raises:
        DataError: If there is no judgement.

    Source: Hoeffding, Annals of Mathematical Statistics, 1956 (counts of unequal chances are the less spread).
    """
    if not len(rows):
        raise DataError("detection.guarantee_needs_pairs_drawn")
    kept, edge = numbers_kept(suspicion, sizes)
    counts = np.searchsorted(np.sort(suspicion[rows][is_wrong]), edge, "right")
    bounds = upper_band(len(rows), confidence)[counts]
    share = np.minimum(1.0, bounds * len(suspicion) / kept)
    return Guarantee(kept, share, confidence, len(rows))


def numbers_kept(suspicion: Array, sizes: int) -> tuple[Int[Array, " size"], Float[Array, " size"]]:
    """(number of pairs kept, suspicion of the last) for evenly spaced numbers, ties kept together."""
    ordered = np.sort(suspicion)
    edge = ordered[np.unique(np.ceil(np.linspace(0, 1, sizes + 1)[1:] * len(ordered)).astype(int)) - 1]
    edge = np.unique(edge)
    return np.searchsorted(ordered, edge, "right"), edge


def judgements_needed(wrong: float, keep: float, confidence: float = 0.9) -> int:
    """Minimum number of random pairs to judge to keep the share `keep` of all with at most the share `wrong` wrong.

    Sufficient only if no judged pair among the kept ones is wrong.
    """
    low, high = 0, 1
    while upper_band(high, confidence)[0] > wrong * keep:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if upper_band(middle, confidence)[0] > wrong * keep else (low, middle)
    return high


@lru_cache(maxsize=256)
def upper_band(judged: int, confidence: float) -> Float[Array, " count"]:
    """For each count from 0 to `judged`, the largest share of the range of uniform numbers consistent with it.

    With this confidence, simultaneously for all t, t is at most the value at the count of `judged` uniform numbers up
    to t. Each value is the Clopper-Pearson upper bound at a level that decreases with the count, because few wrong
    pairs are the case of interest; the levels are the largest of that form that hold simultaneously.
    """
    low, high = (1 - confidence) / (4 * judged), 1 - confidence
    for _ in range(_HALVINGS):
        level = math.sqrt(low * high)
        if _chance_that_all_hold(_bounds(judged, level)) >= confidence:
            low = level
        else:
            high = level
    return np.append(_bounds(judged, low), 1.0)


def _bounds(judged: int, level: float) -> Float[Array, " count"]:
    """Upper bounds of 0 to judged - 1 among `judged`; the bound of a count of 0 fails with probability `level`."""
    from scipy.special import betaincinv

    count = np.arange(judged)
    missed = level / (count + 1) ** _FALL
    return np.maximum.accumulate(betaincinv(count + 1, judged - count, 1 - missed))


def _chance_that_all_hold(bounds: Float[Array, " count"]) -> float:
    """Probability that no order statistic of uniform numbers exceeds its bound; too low by less than 1e-6.

    Computed for a Poisson process conditioned on its total: a minimum number of points must lie below each bound.

    Source: Noé, Annals of Mathematical Statistics, 1972; Moscovich and Nadler, Statistics & Probability Letters, 2017.
    """
    count = len(bounds)
    width = min(count, int(10 * math.sqrt(count)) + 60)  # larger surpluses have negligible probability
    chance, before = np.ones(1), 0.0  # of the counts that still hold, in ascending order
    for bound in bounds.tolist():
        come = _poisson(np.arange(width + 1), count * (bound - before))
        chance, before = np.convolve(chance, come)[1 : width + 1], bound
    rest = _poisson(np.arange(len(chance)), count * (1 - before))  # the last count that holds is `count`
    return float(chance[0] * rest[0] / _poisson(np.array([count]), count)[0])


def _poisson(number: Int[Array, " number"], mean: float) -> Float[Array, " number"]:
    """Probability of each number."""
    from scipy.special import gammaln, xlogy

    return np.asarray(np.exp(xlogy(number, mean) - mean - gammaln(number + 1)))


def guaranteed_by_null(pairs: Scores, null: Null, confidence: float = 0.9, sizes: int = 100) -> Guarantee:
    """Compute the bounds that hold if wrong pairs are like made-up ones of this null.

    Half of the risk is that there are more wrong pairs than the upper end of the rate's interval; the other half, that
    more of them are kept.
    """
    risk = (1 - confidence) / 2
    highest = by_null(pairs, 1 - 2 * risk)[null].high
    like_wrong = upper_half(pairs.observed, pairs.nulls[null])
    return Guarantee(*guarantee_by_null(pairs.observed, like_wrong, highest, risk, sizes=sizes), confidence, 0)


def guarantee_by_null(
    suspicion: Float[Array, " pair"],
    like_wrong: Float[Array, "some score"],
    highest_rate: float,
    risk: float,
    *,
    sizes: int = 100,
) -> tuple[Int[Array, " size"], Float[Array, " size"]]:
    """(pairs kept, maximum share of wrong pairs): with probability at least 1 - `risk` all bounds hold.

    Args:
        like_wrong: Scores distributed as those of wrong pairs, one row per query, NaN if it has fewer. The more scores
            a query has, the less its count varies, so the bounds are conservative.
    """
    kept, edge = numbers_kept(suspicion, sizes)
    wrong = math.ceil(highest_rate * len(suspicion))
    # each query is weighted by the share of its scores up to the edge
    weights = np.isfinite(like_wrong) / np.isfinite(like_wrong).sum(axis=1, keepdims=True)
    ordered = np.argsort(like_wrong, axis=None)  # NaN last
    count = np.concatenate([[0.0], np.cumsum(weights.ravel()[ordered])])
    before = count[np.searchsorted(like_wrong.ravel()[ordered], edge, "right")]
    most = _most_wrong(np.ceil(before - 1e-9).astype(int), wrong, len(like_wrong), risk)
    return kept, np.minimum(1.0, most / kept)


def _most_wrong(before: Int[Array, " size"], wrong: int, made_up: int, risk: float) -> Int[Array, " size"]:
    """Upper bound of the wrong pairs that precede `before` made-up ones when both are in one random order.

    The risk is divided among numbers of made-up pairs that grow by a quarter; numbers in between take the next bound.
    """
    looked_at = [0]
    while looked_at[-1] < made_up:
        looked_at.append(min(max(looked_at[-1] + 1, math.ceil(_STEP * looked_at[-1])), made_up))
    most = _within(np.array(looked_at), wrong, made_up, risk / len(looked_at))
    return most[np.searchsorted(looked_at, before)]


def _within(before: Int[Array, " some"], wrong: int, made_up: int, risk: float) -> Int[Array, " some"]:
    """Smallest number that the wrong pairs ahead of made-up pair `before` + 1 exceed with at most this probability.

    More than b precede it if and only if the first b + 1 + `before` of both contain at most `before` made-up ones.
    """
    from scipy.stats import hypergeom

    low, high = np.full(len(before), -1), np.full(len(before), wrong)
    while (high - low > 1).any():
        middle = (low + high) // 2
        exceeded = hypergeom.cdf(before, wrong + made_up, made_up, middle + 1 + before)
        low, high = np.where(exceeded <= risk, low, middle), np.where(exceeded <= risk, middle, high)
    return high
