"""The share of wrong pairs: from the scores of random documents, and from pairs judged by hand."""

import math
from statistics import NormalDist

import numpy as np
from jaxtyping import Bool, Float, Int

from noisyir.errors import ConfigError

Array = np.ndarray

_BINS = 128
_SPREAD = 5.0  # standard deviations of a resampled quantile that the bins cover


def noise_rate(scores: Float[Array, " pair"], null_scores: Float[Array, " null"], null_quantile: float = 0.5) -> float:
    """Share of wrong pairs: how many score above a quantile of random documents, over the share of those that do.

    Assumes that wrong pairs score as random documents do, and that correct ones stay below the quantile.  A model that
    was trained on the pairs has learnt the wrong ones in part, which makes the estimate too low; correct pairs above
    the quantile make it too high.  Ties with the quantile count half, on both sides.  Depends on ranks alone.
    Source: Storey, JRSS B 2002, whose lambda is null_quantile.
    """
    edge = np.quantile(null_scores, null_quantile, method="lower")

    def share_above(values: Array) -> float:
        return float((values > edge).mean() + (values == edge).mean() / 2)

    return min(1.0, share_above(scores) / share_above(null_scores))


def lowest_quantile(scores: Float[Array, " pair"], null_scores: Float[Array, " null"], null_quantile: float) -> float:
    """The lowest of ten quantiles up to `null_quantile` whose noise rate is not above that one's by a standard error.

    A low quantile counts more of the wrong pairs, so that its rate varies less, which matters for a few hundred pairs;
    but it may count correct ones, too, which add a standard error at most before they are noticed.
    """
    rate = noise_rate(scores, null_scores, null_quantile)
    share = 1 - null_quantile
    error = math.sqrt(
        max(rate * (1 / share - rate), 0.0) / len(scores) + rate**2 * null_quantile / share / len(null_scores)
    )
    quantiles = [null_quantile * tenth / 10 for tenth in range(1, 10)]
    return next((q for q in quantiles if noise_rate(scores, null_scores, q) <= rate + error), null_quantile)


def noise_rate_interval(
    scores: Float[Array, " pair"],
    null_scores: Float[Array, " pair"],
    confidence: float,
    resamples: int,
    rng: np.random.Generator,
    *,
    null_quantile: float = 0.5,
) -> tuple[float, float]:
    """Percentile bootstrap interval of `noise_rate`: pairs are drawn with replacement, each with its null score.

    Only the side of the quantile on which the two scores lie matters, and the resampled quantile stays close to the
    quantile: scores are binned near it and joined far from it, and counts of (score bin, null bin) are drawn.
    Source: Efron, Annals of Statistics, 1979.
    """
    count = len(scores)
    reach = _SPREAD * math.sqrt(null_quantile * (1 - null_quantile) / count)
    levels = np.linspace(max(0, null_quantile - reach), min(1, null_quantile + reach), _BINS)
    edges = np.unique(np.quantile(null_scores, levels, method="lower"))
    # bin 2k lies between the edges k - 1 and k, bin 2k + 1 is the edge k: an edge may be a value of many pairs
    score_bin, null_bin = (
        np.searchsorted(edges, values, "left") + np.searchsorted(edges, values, "right")
        for values in (scores, null_scores)
    )
    bins = 2 * len(edges) + 1
    cells, times = np.unique(score_bin * bins + null_bin, return_counts=True)
    drawn = rng.multinomial(count, times / count, size=resamples).astype(float)
    below, null_below = (
        np.cumsum(drawn @ (index[:, None] == np.arange(bins)), axis=1) for index in divmod(cells, bins)
    )
    at = np.argmax(null_below >= null_quantile * count, axis=1)

    def share_above(below: Float[Array, "resample bin"]) -> Float[Array, " resample"]:
        """Pairs in the bins above the quantile's, and half of those in it."""
        row = np.arange(resamples)
        return np.asarray(count - (below[row, at] + np.where(at > 0, below[row, at - 1], 0)) / 2)

    rates = np.minimum(1.0, share_above(below) / share_above(null_below))
    tail = (1 - confidence) / 2
    low, high = np.quantile(rates, [tail, 1 - tail])
    return float(low), float(high)


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
    weights: Float[Array, " judged"] | None = None,
) -> tuple[float, float, float]:
    """(rate, low, high): the share of wrong pairs among all, from a sample drawn at random within each stratum.

    sizes: pairs in each stratum; each has at least one that was judged.  weights: how many pairs each one judged stands
    for, where that is not the same for all of a stratum; the stratum then counts as many judged as would tell as much.
    The interval is Wilson's with the sample size that a simple random sample of the same variance would have, which of
    one stratum is the number judged (finite population corrected).  Shares enter the variance as
    (wrong + 1/2) / (judged + 1).
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
    """Wilson's interval of a share in a sample of this size, whole or not.  Source: Wilson, JASA 1927."""
    z = _quantile(confidence)
    centre = (share + z**2 / (2 * size)) / (1 + z**2 / size)
    half = z / (1 + z**2 / size) * math.sqrt(share * (1 - share) / size + z**2 / (4 * size**2))
    return max(0.0, centre - half), min(1.0, centre + half)


def _quantile(confidence: float) -> float:
    """Standard deviations either side of the mean that hold this share of a normal distribution."""
    return NormalDist().inv_cdf(0.5 + confidence / 2)
