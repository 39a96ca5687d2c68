"""Calibration by hand: which pairs to judge, and how scores relate to the judgements."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from noisyir.base.errors import DataError
from noisyir.detection.calibration.logistic import JudgedPairs
from noisyir.detection.combine import robust_z
from noisyir.detection.mixture import check_finite
from noisyir.detection.rate import rate_from_judgements

Array = np.ndarray

_STRATA = 10


@dataclass(frozen=True)
class Sample:
    """Pairs to judge: row numbers in an uninformative order, and the number of pairs each represents."""

    rows: Int[Array, " judged"]
    weights: Float[Array, " judged"]


@dataclass(frozen=True)
class Calibration:
    """A rate from judgements, and the logistic calibration of the scores.

    Attributes:
        rate: Share of wrong pairs among all.
        threshold: Score above which a pair is called wrong; may be infinite.
        slope: Slope of the log odds of being wrong, for scores as robust z.
        intercept: Intercept of the same log odds.
    """

    slope: float
    intercept: float
    scale_of: Float[Array, " pair"]
    threshold: float
    rate: float
    low: float
    high: float

    def p_wrong(self, scores: Float[Array, " score"]) -> Float[Array, " score"]:
        """Probability that pairs with these scores are wrong, increasing in the score."""
        from scipy.special import expit

        return np.asarray(expit(self.intercept + self.slope * robust_z(scores, self.scale_of)))


def draw_sample(scores: Float[Array, " pair"], size: int, rng: np.random.Generator) -> Sample:
    """Draw `size` pairs, or all if there are fewer, equally from each tenth of the pairs by score.

    If `size` is not a multiple of ten, the tenths that contribute one more are drawn at random.

    Source: Cochran, Sampling Techniques, 1977, chapter 5 (stratified sampling).
    """
    size = min(size, len(scores))
    strata = min(_STRATA, size)
    if size < 1:
        return Sample(np.empty(0, np.int64), np.empty(0))
    stratum = strata_by_score(scores, strata)
    sizes = np.bincount(stratum, minlength=strata)
    quota = np.full(strata, size // strata)
    quota[rng.choice(strata, size % strata, replace=False)] += 1
    spare = quota - np.minimum(quota, sizes)  # a small tenth may hold one fewer than requested
    quota -= spare
    quota[np.flatnonzero(sizes > quota)[: spare.sum()]] += 1
    drawn = [rng.choice(np.flatnonzero(stratum == number), quota[number], replace=False) for number in range(strata)]
    rows = rng.permutation(np.concatenate(drawn))
    return Sample(rows, (sizes / quota)[stratum[rows]])


def strata_by_score(scores: Float[Array, " pair"], strata: int) -> Int[Array, " pair"]:
    """Number of each pair's stratum when pairs are cut by score into strata of equal size, to within one."""
    number = np.empty(len(scores), np.int64)
    number[np.argsort(scores, kind="stable")] = np.arange(len(scores)) * strata // len(scores)
    return number


def recalibrate(
    scores: Float[Array, " pair"],
    rows: Int[Array, " judged"] | Sequence[int],
    is_wrong: Bool[Array, " judged"],
    threshold: float = 0.5,
    confidence: float = 0.95,
    weights: Float[Array, " judged"] | None = None,
) -> Calibration:
    """Fit a logistic regression of hand-made judgements on the scores, and estimate the noise rate.

    Judged pairs are post-stratified by score into at most ten strata, as many as still hold a judgement each, so that
    pairs of a sample may be left unjudged.

    Args:
        threshold: Minimum probability of being clean of a clean pair.
        weights: Number of pairs that each judged pair represents within its stratum; equal by default.

    Raises:
        DataError: If only one kind was judged, or wrong pairs do not score higher.

    Source: Platt, 1999.
    """
    from scipy.special import logit
    from sklearn.linear_model import LogisticRegression

    check_finite("score", scores)
    rows = np.asarray(rows)
    wrong, judged = int(is_wrong.sum()), len(is_wrong)
    if wrong in (0, judged):
        kind = "clean" if wrong == 0 else "wrong"
        raise DataError("detection.all_judged_pairs_judge", judged=judged, kind=kind)
    stratum, sizes = _post_strata(scores, rows)
    within = np.ones(judged) if weights is None else np.asarray(weights)
    stands_for = within * sizes[stratum] / np.bincount(stratum, within, len(sizes))[stratum]
    z = robust_z(scores[rows], scores)[:, None]
    fit = LogisticRegression().fit(z, is_wrong, sample_weight=stands_for / stands_for.mean())
    slope, intercept = float(fit.coef_[0, 0]), float(fit.intercept_[0])
    if slope <= 0:
        raise DataError("detection.judgements_wrong_wrong_pairs", judged=judged, wrong=wrong)
    low, median, high = np.quantile(scores, [0.25, 0.5, 0.75])
    cut = float(median + (high - low) * (logit(1 - threshold) - intercept) / slope)
    rate = rate_from_judgements(is_wrong, stratum, sizes, confidence, weights)
    return Calibration(slope, intercept, scores, cut, *rate)


def rate_of_sample(
    scores: Float[Array, " pair"], drawn: JudgedPairs, confidence: float = 0.95
) -> tuple[float, float, float]:
    """(rate, low, high): share of wrong pairs from a sample, stratified as in `recalibrate`."""
    return rate_from_judgements(drawn.is_wrong, *_post_strata(scores, drawn.rows), confidence, drawn.weights)


def _post_strata(scores: Array, rows: Array) -> tuple[Int[Array, " judged"], Int[Array, " stratum"]]:
    """Strata of the judged pairs, as many as hold a judgement each, and the sizes of the strata."""
    for strata in range(min(_STRATA, len(rows)), 1, -1):
        stratum = strata_by_score(scores, strata)
        if len(np.unique(stratum[rows])) == strata:
            return stratum[rows], np.bincount(stratum, minlength=strata)
    return np.zeros(len(rows), np.int64), np.array([len(scores)])
