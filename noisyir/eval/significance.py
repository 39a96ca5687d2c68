"""Is one system better than another on these queries?  Paired tests, bootstrap intervals, correction for many tests."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

Verdict = Literal["WIN", "MARGINAL", "REGRESSION"]
Array = np.ndarray
_BLOCK = 4_000_000  # resampled query numbers held at once


def paired_t_test(differences: Float[Array, "query pair"]) -> Float[Array, " pair"]:
    """Two-sided p-value of the paired t-test for each column of differences, system minus baseline.

    1 where nothing differs or there is one query, 0 where all queries differ by the same amount.
    Source: Student, 1908; its use for retrieval: Smucker, Allan and Carterette, CIKM 2007.
    """
    from scipy import special

    count = len(differences)
    mean = differences.mean(axis=0)
    if count < 2:
        return np.ones_like(mean)
    error = differences.std(axis=0, ddof=1) / np.sqrt(count)
    # A column of one repeated value has a spread of rounding errors only.
    error = np.where(np.ptp(differences, axis=0) == 0, 0.0, error)
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.where(mean == 0, 0.0, np.abs(mean) / error)
    return np.asarray(2 * special.stdtr(count - 1, -statistic))


def holm(p_values: Float[Array, " test"]) -> Float[Array, " test"]:
    """p-values corrected so that the chance of one false claim among all the tests stays below the level.

    The i-th smallest of m becomes max over j <= i of (m - j + 1) p_(j), at most 1.
    Source: Holm, Scandinavian Journal of Statistics, 1979.
    """
    order = np.argsort(p_values, kind="stable")
    factors = len(p_values) - np.arange(len(p_values))
    corrected = np.empty_like(p_values)
    corrected[order] = np.minimum(np.maximum.accumulate(factors * p_values[order]), 1.0)
    return corrected


def bootstrap_means(
    values: Float[Array, "query column"], resamples: int, rng: np.random.Generator
) -> Float[Array, "resample column"]:
    """Means of the columns over queries drawn with replacement, the same queries for every column: paired.

    Source: Efron, Annals of Statistics, 1979.  Memory is some 100 MB whatever the number of queries.
    """
    count = len(values)
    means = np.empty((resamples, values.shape[1]))
    rows = max(1, _BLOCK // count)
    for start in range(0, resamples, rows):
        size = min(rows, resamples - start)
        drawn = rng.integers(0, count, (size, count)) + count * np.arange(size)[:, None]
        times = np.bincount(drawn.ravel(), minlength=size * count).reshape(size, count)
        means[start : start + size] = times @ values / count
    return means


def percentile_interval(means: Float[Array, "resample column"], confidence: float) -> Float[Array, "2 column"]:
    """Low and high end of the percentile interval.  Source: Efron and Tibshirani, 1993, chapter 13."""
    tail = (1 - confidence) / 2
    return np.asarray(np.quantile(means, [tail, 1 - tail], axis=0))


def randomisation_test(differences: Float[Array, " query"], resamples: int, rng: np.random.Generator) -> float:
    """One-sided p-value that the mean difference is above zero: the share of random signs with a mean as large.

    (1 + matches) / (1 + resamples), so that it errs in no more than p of all cases, at any number of queries, where the
    two systems could be exchanged for each other.
    Source: Fisher, 1935; for retrieval: Smucker, Allan and Carterette, CIKM 2007.
    """
    count, smaller = len(differences), 0
    least = differences.sum() - 1e-9 * np.abs(differences).sum()  # sums of one set in another order are equal
    rows = max(1, _BLOCK // count)
    for start in range(0, resamples, rows):
        signs = rng.choice(np.array([-1.0, 1.0]), (min(rows, resamples - start), count))
        smaller += int((signs @ differences < least).sum())
    return (1 + resamples - smaller) / (1 + resamples)


@dataclass(frozen=True)
class Gate:
    """When a difference counts: `alpha` bounds the Holm p-value, `min_gain` the gain, in the measure's unit."""

    alpha: float
    min_gain: float

    def verdict(self, difference: float, low: float, high: float, p_holm: float) -> Verdict:
        """WIN: gain enough, interval above zero, p below alpha.  REGRESSION: interval below zero, p below alpha.

        Everything between is MARGINAL, a significant gain that is too small included.
        """
        if p_holm < self.alpha and low > 0 and difference >= self.min_gain:
            return "WIN"
        return "REGRESSION" if p_holm < self.alpha and high < 0 else "MARGINAL"
