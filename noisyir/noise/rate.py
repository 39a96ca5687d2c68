"""The share of wrong pairs: from the ranks of documents made up for each, and from pairs judged by hand."""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from jaxtyping import Bool, Float, Int

from noisyir.errors import ConfigError

Array = np.ndarray

_CHECKED = 3  # draws that a check takes: with one or two, halves and quarters are drawn by lot


@dataclass(frozen=True)
class RateByNull:
    """What one null says: `rate` is the share of wrong pairs if theirs were documents of this null, with its interval.

    tail: of the pairs in the upper half of their own ranking, the share in its upper quarter, which is 1/2 where the
    null is the right one.  fit: the p-value of that.  auroc: chance that a made-up document is more suspect than the
    pair's own.  counted: pairs in the upper half.  NaN where it cannot be said.
    """

    rate: float
    low: float
    high: float
    tail: float
    fit: float
    auroc: float
    counted: int

    @property
    def power(self) -> float:
        """`auroc` of the right pairs alone, (A - r/2) / (1 - r): a wrong one and a made-up one are told by chance."""
        return (self.auroc - self.rate / 2) / (1 - self.rate) if self.rate < 1 else math.nan


def rate_by_null(shares: Float[Array, " pair"], confidence: float = 0.95, *, draws: int = 1) -> RateByNull:
    """The rate from rank shares (`null.rank_shares`), of which NaN do not count; draws: how many made each.

    Of W wrong pairs the number X above 1/2 is binomial (W, 1/2), and no right pair is taken to lie there: W = 2X,
    and the interval holds the W for which |X - W/2| <= z sqrt(W)/2, so it is of the share that these pairs have, not
    of a population's.  Above 3/4 there are then binomial (X, 1/2), which is the check; it takes three draws.
    Source: Storey, JRSS B 2002, with lambda 1/2; the interval is Wilson's (1927) turned round.
    """
    from scipy.stats import binomtest

    known = shares[np.isfinite(shares)]
    if not len(known):
        return RateByNull(math.nan, 0.0, 1.0, math.nan, math.nan, math.nan, 0)
    counted, highest = int((known > 1 / 2).sum()), int((known > 3 / 4).sum())
    z = _quantile(confidence)
    centre, half = 2 * counted + z**2 / 2, z * math.sqrt(2 * counted + z**2 / 4)
    rate, low, high = (min(max(value / len(known), 0.0), 1.0) for value in (2 * counted, centre - half, centre + half))
    checked = draws >= _CHECKED and counted > 0
    fit = float(binomtest(highest, counted).pvalue) if checked else math.nan
    return RateByNull(rate, low, high, highest / counted if checked else math.nan, fit, 1 - known.mean(), counted)


def pairs_to_judge(rate: float, error: float, confidence: float = 0.95, pairs: int | None = None) -> int:
    """How many pairs, drawn at random, to judge by hand to know a rate near `rate` to within `error` either way.

    Normal approximation of a proportion; with the finite population correction where `pairs`, the number there is,
    is given.  Source: Cochran, Sampling Techniques, 1977, section 4.4.
    """
    if not 0 < error < 1:
        raise ConfigError(f"the error of a noise rate must lie between 0 and 1, not {error}")
    planned = min(max(rate, error), 1 - error)  # of a rate of 0 or 1 the approximation would ask for no pair
    needed = _quantile(confidence) ** 2 * planned * (1 - planned) / error**2
    if pairs is not None:
        needed = min(needed / (1 + (needed - 1) / pairs), pairs)
    return max(1, math.ceil(needed))


def rate_from_judgements(
    is_wrong: Bool[Array, " judged"],
    stratum: Int[Array, " judged"],
    sizes: Int[Array, " stratum"],
    confidence: float = 0.95,
) -> tuple[float, float, float]:
    """(rate, low, high): the share of wrong pairs among all, from a sample drawn at random within each stratum.

    sizes: pairs in each stratum; each has at least one that was judged.  The interval is Wilson's with the sample
    size that a simple random sample of the same variance would have, which of one stratum is the number judged
    (finite population corrected).  Shares enter the variance as (wrong + 1/2) / (judged + 1).
    Source: Wilson, JASA 1927; Korn and Graubard, 1998 (effective sample size).
    """
    judged = np.bincount(stratum, minlength=len(sizes))
    wrong = np.bincount(stratum, is_wrong, minlength=len(sizes))
    part = sizes / sizes.sum()
    rate = float(part @ (wrong / judged))
    share = (wrong + 0.5) / (judged + 1)
    variance = float(part**2 @ (share * (1 - share) / judged * (1 - judged / sizes)))
    overall = (wrong.sum() + 0.5) / (judged.sum() + 1) if len(sizes) == 1 else float(part @ share)
    size = overall * (1 - overall) / variance if variance > 0 else math.inf
    return rate, *_wilson(rate, size, confidence)


def _wilson(share: float, size: float, confidence: float) -> tuple[float, float]:
    z = _quantile(confidence)
    centre = (share + z**2 / (2 * size)) / (1 + z**2 / size)
    half = z / (1 + z**2 / size) * math.sqrt(share * (1 - share) / size + z**2 / (4 * size**2))
    return max(0.0, centre - half), min(1.0, centre + half)


def _quantile(confidence: float) -> float:
    """Standard deviations either side of the mean that hold this share of a normal distribution."""
    return NormalDist().inv_cdf(0.5 + confidence / 2)
