"""The share of wrong pairs: from ranks of made-up documents, or from hand judgements, optionally model-assisted."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from noisyir.base.errors import ConfigError, DataError
from noisyir.base.pages.cells import percent
from noisyir.detection.null import RankShares
from noisyir.detection.settings import Null

Array = np.ndarray

Reading = Literal["agrees", "at_most", "too_easy", "weak", "few", "unchecked", "blind"]

_CHECKED = 3  # minimum draws for a check: with one or two, each upper half is balanced about 3/4 anyway
_COUNTED = 20  # minimum pairs in the upper half for a check: with fewer, only one-sided outcomes are unlikely
_FEW = 0.05  # rate that right pairs of a clean collection may produce: near neighbours, 1 to 4 % on SQuAD
_LEVEL = 0.05  # significance level of either check
_CROWD = 1.5  # relative density below the half: 1.0 to 1.4 observed with a right null, 1.7 to 2.5 with half answers
_EVEN = 1.6  # for the upper limit; at 2, weak detectors agree with a wrong rate more often
_SEPARATED = 3.3  # standard errors: pure noise passes once in a thousand times
_TRUSTED = 0.98  # at 0.9 detectors of AUROC 0.8 agree with a wrong rate in up to a quarter of simulated draws
_SLIGHT = 0.02  # deviation from 1/2, 4 % of the rate, that is ignored even if significant
_POWER = 0.9  # at which about one right pair in a hundred, at most, is in the upper half
LOOK_MADE_UP: dict[Null, float] = {"random": 0.05, "near": 0.2, "lexical": 0.2, "source": 0.2}
"""The share of right pairs that may look made up: near neighbours of a right document often are right, too."""
_PARAMETERS = 2  # the sample's mean and the model's coefficient


class Interval(NamedTuple):
    """An estimate with the bounds of its interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{percent(self.value, 1)} [{percent(self.low, 1)}, {percent(self.high, 1)}]"


@dataclass(frozen=True)
class RateByNull:
    """The rate under one null: the share of wrong pairs if their documents come from it, with its interval.

    Attributes:
        low: Allows for right pairs that look made up, which no score reveals: `LOOK_MADE_UP`.
        pairs: Pairs that have a document of this null.
        counted: Pairs in the upper half of their own ranking.
        tail: Share of these in its upper quarter, which is 1/2 if the null is the right one.
        fit: P-value of `tail` being 1/2; NaN if a pair has too few draws for the test.
        beside: Pairs between 1/4 and 1/2; under the right null, half as many as `counted`.
        auroc: Probability that a made-up document is more suspect than the pair's own.
        trusted: Lower bound of the same for the half of the pairs that fit best; pure noise gives 3/4.
    """

    rate: float
    low: float
    high: float
    pairs: float
    counted: float
    tail: float
    fit: float
    beside: float
    auroc: float
    trusted: float

    @property
    def z(self) -> float:
        """Deviation of `tail` from 1/2 in standard deviations."""
        return (2 * self.tail - 1) * math.sqrt(self.counted)

    @property
    def separated(self) -> bool:
        """Whether made-up pairs are distinguishable from the given ones: `auroc` exceeds what noise would give.

        Under noise each share is uniform, so their mean has the standard error 1 / sqrt(12 pairs).
        """
        return self.auroc - 1 / 2 > _SEPARATED / math.sqrt(12 * self.pairs)

    @property
    def crowd(self) -> tuple[float, float, float]:
        """(value, low, high): density of pairs between 1/4 and 1/2 relative to the density above 1/2.

        It is 1 if only wrong pairs of this null lie there, and greater if right pairs do, or wrong ones that fit better
        than its documents. Each limit is a one-sided 95 % limit. The rate is not used.
        """
        if not self.counted:
            return math.inf, 0.0, math.inf
        share = self.beside / (self.beside + self.counted)
        low, high = wilson(share, self.beside + self.counted, 1 - 2 * _LEVEL)
        return tuple(2 * end / (1 - end) for end in (share, low, high))  # type: ignore[return-value]

    @property
    def supported(self) -> bool:
        """Whether right pairs are separated from its documents and wrong ones are visible, if the rate is right.

        The power is `auroc` of the right pairs alone, (A - r/2) / (1 - r): a wrong pair and a made-up one are separated
        only by chance. It does not support a rate, because it uses it; it serves to weight detectors.
        """
        power = (self.auroc - self.rate / 2) / (1 - self.rate) if self.rate < 1 else 1 / 2
        return self.counted >= _COUNTED and power >= _POWER

    @property
    def reading(self) -> Reading:
        """How far this can be believed.

        Returns:
            agrees: All checks pass.
            blind: Made-up pairs are indistinguishable from the given ones: all of these are wrong, or the detector is
                uninformative.
            at_most: Made-up pairs fit better than the wrong ones among the given pairs, more than half of which are
                counted.
            too_easy: Right pairs, or wrong ones that are harder to detect, crowd in from below: in the upper half's
                lower quarter, or just below the half.
            weak: Right pairs may lie in the upper half, too, and be counted: the pairs do not rule it out.
            few: No more than the spread of right pairs alone can produce.
            unchecked: Too few pairs or draws for a check.
        """
        if not self.separated:
            return "blind"
        if self.counted < _COUNTED:
            return "few" if self.rate < _FEW else "unchecked"
        if not math.isfinite(self.fit):
            return "unchecked"
        fits = self.fit >= _LEVEL or abs(self.tail - 1 / 2) <= _SLIGHT
        if not fits:
            return "at_most" if self.tail > 1 / 2 else "too_easy"
        if self.rate < _FEW:
            return "few"
        value, low, high = self.crowd
        if value > _CROWD and low > 1:
            return "too_easy"
        return "agrees" if high <= _EVEN and self.trusted >= _TRUSTED else "weak"


def rate_by_null(shares: RankShares, confidence: float = 0.95, null: Null = "random") -> RateByNull | None:
    """Estimate the rate from the rank shares among a null's documents; None if no pair has one.

    Of W wrong pairs the number X above 1/2 is binomial (W, 1/2), and no right pair is assumed to lie there: W = 2X, and
    the interval contains the W for which |X - W/2| <= z sqrt(W)/2, so it concerns the share among these pairs, not a
    population's. Of the X, binomial (X, 1/2) lie above 3/4, which is the check; it needs three draws.

    Source: Storey, JRSS B 2002, with lambda 1/2; the interval is an inverted Wilson (1927) interval.
    """
    if not (pairs := len(shares.low)):
        return None
    counted, highest, z = shares.above(1 / 2), shares.above(3 / 4), normal_quantile(confidence)
    centre, half = 2 * counted + z**2 / 2, z * math.sqrt(2 * counted + z**2 / 4)
    rate, low, high = (min(max(value / pairs, 0.0), 1.0) for value in (2 * counted, centre - half, centre + half))
    off = abs(2 * highest - counted) / math.sqrt(counted) if counted else 0.0
    fit = math.erfc(off / math.sqrt(2)) if shares.draws >= _CHECKED else math.nan
    tail, beside = highest / counted if counted else 1 / 2, shares.above(1 / 4) - counted
    alike = LOOK_MADE_UP[null]
    low = max(0.0, (low - alike) / (1 - alike))
    return RateByNull(rate, low, high, pairs, counted, tail, fit, beside, 1 - shares.mean(), 1 - _most_trusted(shares))


def _most_trusted(shares: RankShares) -> float:
    """Upper 95 % limit of the share of draws that fit better than the own document, over the best-fitting half."""
    steps = shares.draws + 1
    ahead = np.sort((shares.low + shares.high) / 2)[: max(1, len(shares.low) // 2)]
    ahead = (ahead - 1 / (2 * steps)) * steps / shares.draws
    return float(ahead.mean() + normal_quantile(1 - 2 * _LEVEL) * ahead.std() / math.sqrt(len(ahead)))


def best_fit(said: Mapping[Null, RateByNull]) -> Null:
    """The agreeing null with the highest rate; if none agrees, the one with the least evidence against it.

    An easy null that agrees counts only the wrong pairs that are as easy. A null whose check fails is taken only if
    none is unchecked for lack of pairs; of the unchecked ones, `random`, or else the first, is taken.
    """
    if agree := [null for null, found in said.items() if found.reading == "agrees"]:
        return max(agree, key=lambda null: said[null].rate)
    said = {null: found for null, found in said.items() if found.reading == "unchecked"} or said
    checked = [null for null, found in said.items() if found.counted >= _COUNTED and math.isfinite(found.fit)]
    if checked:
        return min(checked, key=lambda null: abs(said[null].z))
    return "random" if "random" in said else next(iter(said))


def rate_range(said: Mapping[Null, RateByNull]) -> tuple[float, float]:
    """Smallest and largest rate that a null allows; all rates if none is informative.

    A null that only says "at most" allows all lower rates, an indistinguishable one allows all, and one that is too
    easy is uninformative.
    """
    allowed = [
        (
            found.low if found.reading in ("agrees", "unchecked") else 0.0,
            1.0 if found.reading == "blind" else found.high,
        )
        for found in said.values()
        if found.reading != "too_easy"
    ]
    return (min(low for low, _ in allowed), max(high for _, high in allowed)) if allowed else (0.0, 1.0)


def pairs_to_judge(rate: float, error: float, confidence: float = 0.95, pairs: int | None = None) -> int:
    """Number of random pairs to judge by hand to estimate a rate near `rate` to within `error` either way.

    Normal approximation of a proportion, with the finite population correction if `pairs`, the population size, is
    given.

    Source: Cochran, Sampling Techniques, 1977, section 4.4.
    """
    if not 0 < error < 1:
        raise ConfigError("detection.error_noise_rate_must", error=error)
    planned = min(max(rate, error), 1 - error)  # at a rate of 0 or 1 the approximation would give 0 pairs
    needed = normal_quantile(confidence) ** 2 * planned * (1 - planned) / error**2
    if pairs is not None:
        needed = min(needed / (1 + (needed - 1) / pairs), pairs)
    return max(1, math.ceil(needed))


def rate_from_judgements(
    is_wrong: Bool[Array, " judged"],
    stratum: Int[Array, " judged"],
    sizes: Int[Array, " stratum"],
    confidence: float = 0.95,
    weights: Float[Array, " judged"] | None = None,
) -> tuple[float, float, float]:
    """(rate, low, high): share of wrong pairs among all, from a random sample within each stratum.

    The interval is Wilson's with the size of a simple random sample of the same variance, which for one stratum is the
    number judged (finite population corrected). Shares enter the variance as (wrong + 1/2) / (judged + 1).

    Args:
        sizes: Pairs in each stratum; each has at least one judged pair.
        weights: Number of pairs that each judged pair represents, if unequal within a stratum; the stratum then counts
            with its effective sample size.

    Source: Wilson, JASA 1927; Korn and Graubard, 1998 (effective sample size); Kish, Survey Sampling, 1965 (weights).
    """
    weights = np.ones(len(is_wrong)) if weights is None else weights
    total, wrong_weight = (np.bincount(stratum, weights * of, len(sizes)) for of in (1.0, is_wrong))
    judged = total**2 / np.bincount(stratum, weights**2, len(sizes))
    wrong = judged * wrong_weight / total
    part = sizes / sizes.sum()
    rate = float(part @ (wrong / judged))
    share = (wrong + 0.5) / (judged + 1)
    variance = float(part**2 @ (share * (1 - share) / judged * (1 - judged / sizes)))
    overall = (wrong.sum() + 0.5) / (judged.sum() + 1) if len(sizes) == 1 else float(part @ share)
    size = overall * (1 - overall) / variance if variance > 0 else math.inf
    return rate, *wilson(rate, size, confidence)


def wilson(share: float, size: float, confidence: float) -> tuple[float, float]:
    """Wilson's interval of a share in a sample of this size, which may be fractional or infinite.

    Source: Wilson, JASA 1927.
    """
    z = normal_quantile(confidence)
    centre = (share + z**2 / (2 * size)) / (1 + z**2 / size)
    half = z / (1 + z**2 / size) * math.sqrt(share * (1 - share) / size + z**2 / (4 * size**2))
    return max(0.0, centre - half), min(1.0, centre + half)


def widened(low: float, high: float, new: float) -> tuple[float, float]:
    """An interval of the share of wrong pairs, widened by pairs about which it says nothing.

    All of the share `new` may be right, or all may be wrong: (1 - new) low <= rate <= (1 - new) high + new.  Without
    an assumption about the new pairs no narrower interval holds.

    Source: Manski, Partial Identification of Probability Distributions, 2003, chapter 1 (missing outcomes).
    """
    return (1 - new) * low, (1 - new) * high + new


def normal_quantile(confidence: float) -> float:
    """Two-sided normal quantile: standard deviations either side of the mean that contain this share."""
    return NormalDist().inv_cdf(0.5 + confidence / 2)


class PoweredRate(NamedTuple):
    """A share with its interval.

    Attributes:
        size: Size of a simple random sample, without a model, that would be equally informative.
    """

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
    """Share of wrong pairs among all `pairs`: the judged share, adjusted by a model's predictions for the others.

    The model may err arbitrarily: for weighted shares, value = wrong + part (said_of_all - said_of_judged), where
    `part` in [0, 1] minimises the variance and is 0 for an uninformative model. The interval is Wilson's, with the size
    of a simple random sample of that variance; it is never empty, and with 0 wrong pairs the model is ignored.

    Args:
        weights: Number of pairs that each judged pair represents, up to a factor.
        said_of_judged: Probability that each judged pair is wrong, by a model that did not learn from it.
        said_of_all: Mean of the same model's probabilities over all pairs, or over others drawn at random.
        pairs: Number of pairs; may be infinite.
        unsure: Variance of `said_of_all`, if over a random sample.

    Raises:
        DataError: If there is no judged pair.

    Source: Angelopoulos, Duchi and Zrnic, 2023, arXiv:2311.01453 (PPI++); Zrnic and Candès, PNAS 2024 (cross-fitting);
    Wilson, JASA 1927; Korn and Graubard, 1998 (effective size).
    """
    judged = len(is_wrong)
    if not judged:
        raise DataError("detection.no_pair_drawn_random")
    share = weights / weights.sum()
    truth = is_wrong.astype(np.float64)
    plain = float(share @ truth)
    said = said_of_judged - said_of_all
    kish = 1 / float(share @ share)  # unequal weights are less informative
    spread = float(share @ (said - share @ said) ** 2) + kish * unsure
    both = float(share @ ((said - share @ said) * (truth - plain)))
    part = min(max(both / spread, 0.0), 1.0) if spread > 0 else 0.0
    value = min(max(plain - part * float(share @ said), 0.0), 1.0)
    left = 1 - (2 * part * both - part**2 * spread) / (plain * (1 - plain)) if 0 < plain < 1 else 1.0
    left = min(1.0, left * judged / max(judged - _PARAMETERS, 1))
    size = kish / max(left, 1 / judged)
    return PoweredRate(value, *wilson(value, _of_a_finite_number(size, judged, pairs), confidence), size)


def half_width(rate: PoweredRate, judged: int, more: int, pairs: int, confidence: float = 0.95) -> float:
    """Half-width of the interval if `more` random pairs were judged, with the model as good as now."""
    size = rate.size * (judged + more) / judged
    low, high = wilson(rate.value, _of_a_finite_number(size, judged + more, pairs), confidence)
    return (high - low) / 2


def _of_a_finite_number(size: float, judged: int, pairs: float) -> float:
    """Sample size with the finite population correction of the variance, if `judged` of `pairs` are drawn."""
    return size / (1 - judged / pairs) if judged < pairs else math.inf
