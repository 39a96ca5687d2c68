"""How many pairs may be kept so that at most a stated share of them is wrong, with a stated confidence.

From pairs that were drawn at random and judged, whatever the scores are worth.  Let G(q) be the share of all pairs that
are wrong and among the q least suspect.  Every pair drawn has a number V, uniform on [0, 1]: G at its own place if it
is wrong, and a number above G(1) if it is right.  So wrong pairs drawn among the q least suspect are a count of uniform
numbers up to G(q), and a band that holds all of the uniform numbers' distribution function at once bounds G(q) for all
q at once.  No grid is chosen and no bound is corrected afterwards for how many were looked at; whoever moves a slider
along the curve, or picks its best place, still has the confidence stated.

The order must not have learnt from the very verdicts that test it.  The label-free order has not.  In the order that
judgements teach, each pair's place is by a model that has not seen its own query's verdicts (`judged.py`), so that
every verdict tests a model without it; that the level then holds is shown by simulation, not proved.
Source: Owen, JASA 1995 (bands from binomial bounds); Clopper and Pearson, Biometrika, 1934 (the bound at each count);
Angelopoulos et al., 2021, arXiv:2110.01052 (Learn then Test, whose correction for many tests the band stands for).

How many pairs may be kept where nobody has judged any: if wrong pairs are like the made-up ones that fit.

The pairs whose own document lies in the upper half of its ranking are a random half of the wrong ones
(`null.py`), so that their own documents and draws together score as wrong pairs do, whatever their queries.  Wrong
pairs and these are put in one row by their scores: each order of the two is as likely as any other, so that of the
wrong pairs no more lie before so many of these than a random order allows.
Source: Vovk, Gammerman and Shafer, 2005 (conformal prediction); Jin and Candès, JMLR 2023 (selection by conformal
p-values).  Where wrong pairs are not like the made-up ones, nothing holds: judgements alone need no such condition.
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
_FALL = 0.75  # how fast the level falls with the count of wrong pairs, as a power
_STEP = 1.25  # between the numbers of made-up pairs at which the order is looked at


@dataclass(frozen=True)
class Guarantee:
    """For each number of pairs kept, the least suspect ones: at most which share of them is wrong.

    kept: numbers of pairs, ascending; bound: shares, which hold for all of them together at `confidence`.
    judged: pairs drawn at random and judged, from which this is known; 0 where it rests on made-up pairs.
    """

    kept: Int[Array, " size"]
    bound: Float[Array, " size"]
    confidence: float
    judged: int

    def most(self, wrong: float) -> tuple[int, float] | None:
        """(pairs kept, bound): the most of which at most this share is wrong; None where no number is known to be."""
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
    """The bounds for so many numbers of pairs kept, evenly spaced up to all; pairs of one suspicion are kept together.

    rows, is_wrong: pairs drawn at random, each as likely as any other, and judged.  A sample stratified by the order,
    as many from each part, is as good: its counts vary less than those of a simple one.
    Source: Hoeffding, Annals of Mathematical Statistics, 1956 (counts of unequal chances are the less spread).
    DataError without a judgement.
    """
    if not len(rows):
        raise DataError("detection.guarantee_needs_pairs_drawn")
    kept, edge = numbers_kept(suspicion, sizes)
    counts = np.searchsorted(np.sort(suspicion[rows][is_wrong]), edge, "right")
    bounds = upper_band(len(rows), confidence)[counts]
    share = np.minimum(1.0, bounds * len(suspicion) / kept)
    return Guarantee(kept, share, confidence, len(rows))


def numbers_kept(suspicion: Array, sizes: int) -> tuple[Int[Array, " size"], Float[Array, " size"]]:
    """(how many pairs are kept, the suspicion of the last), for evenly spaced numbers, ties kept together."""
    ordered = np.sort(suspicion)
    edge = ordered[np.unique(np.ceil(np.linspace(0, 1, sizes + 1)[1:] * len(ordered)).astype(int)) - 1]
    edge = np.unique(edge)
    return np.searchsorted(ordered, edge, "right"), edge


def judgements_needed(wrong: float, keep: float, confidence: float = 0.9) -> int:
    """How many pairs to draw and judge, at least, to keep this share of all with at most this share of them wrong.

    Enough only if none of those judged among the kept ones is wrong.
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
    """For each count from 0 to `judged`: the highest share of uniform numbers' range that so many of them may fill.

    With this confidence, for all t at once, t is at most the value at the count of `judged` uniform numbers up to t.
    Each value is Clopper and Pearson's upper bound at a level that falls with the count, since few wrong pairs are what
    one keeps; the levels are the largest of that form at which all hold together.
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
    """Upper bounds of 0 to judged - 1 among `judged`; that of a count of 0 is missed with the chance `level`."""
    from scipy.special import betaincinv

    count = np.arange(judged)
    missed = level / (count + 1) ** _FALL
    return np.maximum.accumulate(betaincinv(count + 1, judged - count, 1 - missed))


def _chance_that_all_hold(bounds: Float[Array, " count"]) -> float:
    """That of so many uniform numbers, in order, none is above its bound; too low by less than one in a million.

    As a Poisson process of that rate, given how many there are in all: up to each bound so many must have come.
    Source: Noé, Annals of Mathematical Statistics, 1972; Moscovich and Nadler, Statistics & Probability Letters, 2017.
    """
    count = len(bounds)
    width = min(count, int(10 * math.sqrt(count)) + 60)  # more than so many ahead of what is needed never come
    chance, before = np.ones(1), 0.0  # of the counts that still hold, from the least on
    for bound in bounds.tolist():
        come = _poisson(np.arange(width + 1), count * (bound - before))
        chance, before = np.convolve(chance, come)[1 : width + 1], bound
    rest = _poisson(np.arange(len(chance)), count * (1 - before))  # the last count that holds is `count`
    return float(chance[0] * rest[0] / _poisson(np.array([count]), count)[0])


def _poisson(number: Int[Array, " number"], mean: float) -> Float[Array, " number"]:
    """The chance of each number."""
    from scipy.special import gammaln, xlogy

    return np.asarray(np.exp(xlogy(number, mean) - mean - gammaln(number + 1)))


def guaranteed_by_null(pairs: Scores, null: Null, confidence: float = 0.9, sizes: int = 100) -> Guarantee:
    """The bounds that hold if wrong pairs are like made-up ones of this null.

    Half of the risk is that there are more wrong pairs than the upper end of the rate's interval, the other half that
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
    """(pairs kept, share of them that is wrong at most): all bounds together fail with at most the chance `risk`.

    like_wrong: scores as wrong pairs have them, those of one query in a row, NaN where it has fewer; the more of one
    query there are, the less its count varies, so that the bounds err to the safe side.
    """
    kept, edge = numbers_kept(suspicion, sizes)
    wrong = math.ceil(highest_rate * len(suspicion))
    # each query counts by the share of its scores up to the edge
    weights = np.isfinite(like_wrong) / np.isfinite(like_wrong).sum(axis=1, keepdims=True)
    ordered = np.argsort(like_wrong, axis=None)  # NaN last
    count = np.concatenate([[0.0], np.cumsum(weights.ravel()[ordered])])
    before = count[np.searchsorted(like_wrong.ravel()[ordered], edge, "right")]
    most = _most_wrong(np.ceil(before - 1e-9).astype(int), wrong, len(like_wrong), risk)
    return kept, np.minimum(1.0, most / kept)


def _most_wrong(before: Int[Array, " size"], wrong: int, made_up: int, risk: float) -> Int[Array, " size"]:
    """Of so many wrong pairs, how many at most come no later than `before` made-up ones, in one random order of both.

    The risk is shared among numbers of made-up pairs that grow by a quarter; those between have the next one's bound.
    """
    looked_at = [0]
    while looked_at[-1] < made_up:
        looked_at.append(min(max(looked_at[-1] + 1, math.ceil(_STEP * looked_at[-1])), made_up))
    most = _within(np.array(looked_at), wrong, made_up, risk / len(looked_at))
    return most[np.searchsorted(looked_at, before)]


def _within(before: Int[Array, " some"], wrong: int, made_up: int, risk: float) -> Int[Array, " some"]:
    """The least number that the wrong pairs ahead of made-up pair `before` + 1 exceed with at most this chance.

    More than b come first if among the first b + 1 + `before` of both there are no more than `before` made-up ones.
    """
    from scipy.stats import hypergeom

    low, high = np.full(len(before), -1), np.full(len(before), wrong)
    while (high - low > 1).any():
        middle = (low + high) // 2
        exceeded = hypergeom.cdf(before, wrong + made_up, made_up, middle + 1 + before)
        low, high = np.where(exceeded <= risk, low, middle), np.where(exceeded <= risk, middle, high)
    return high
