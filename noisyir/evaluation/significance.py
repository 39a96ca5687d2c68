"""Inference on differences, over queries and seeds of training at once.

A comparison is a table of differences by query and seed.  A test over queries alone ignores that other seeds would give
another mean: it calls equal methods different in 12 % of comparisons at 500 queries and in half of them at 6,980, with
3 seeds that vary by 0.005.  `tests/unit/evaluation/test_type_one.py` measures the error rates of these tests.
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int

Array = np.ndarray
Groups = Int[Array, " query"]
Verdict = Literal["better", "worse", "suggests better", "suggests worse", "slight", "unclear", "equal"]
SEEDS_OF_A_CLAIM = 5
"""The least number of seeds for a claim about methods; with fewer, a result suggests."""


class Difference(NamedTuple):
    """A mean difference, the ends of its interval, and the two-sided p-value that it is 0."""

    mean: float
    low: float
    high: float
    p_value: float


class Parts(NamedTuple):
    """The mean of a table of differences, and the variance of that mean by source.

    `of_queries` comes from queries alone, `of_seeds` from seeds and from the interaction; it is 0 with one seed.
    """

    mean: float
    of_queries: float
    of_seeds: float
    query_degrees: int
    seed_degrees: int


def variance_parts(differences: Float[Array, "query seed"], groups: Groups | None = None) -> Parts:
    """The mean and its variance by queries and by seeds, each seed on every query.

    With query means q, seed means s, and rests r = d - q - s + mean of Q queries and S seeds:
    of_seeds = var(s) / S; of_queries = var(q) / Q - var(r) / (Q S), at least 0.
    Equal numbers in `groups` mark queries that are one draw; their sums replace single queries.

    Source: Cameron, Gelbach and Miller, JBES 2011 (two-way clustering).
    """
    queries, seeds = differences.shape
    mean = float(differences.mean())
    of_query, of_seed = differences.mean(axis=1) - mean, differences.mean(axis=0) - mean
    rest = differences - of_query[:, None] - of_seed - mean
    if groups is not None:
        numbers = np.unique(groups, return_inverse=True)[1]
        of_query = np.bincount(numbers, of_query)
        rest = np.stack([np.bincount(numbers, of_one) for of_one in rest.T], axis=1)
    draws = len(of_query)
    if draws < 2:
        return Parts(mean, 0.0, 0.0, 0, seeds - 1)
    by_query = float((of_query**2).sum()) * draws / (draws - 1) / queries**2
    if seeds == 1:
        return Parts(mean, by_query, 0.0, draws - 1, 0)
    by_seed = float((of_seed**2).sum()) / (seeds - 1) / seeds
    both = float((rest**2).sum()) * draws / (draws - 1) * seeds / (seeds - 1) / (queries * seeds) ** 2
    return Parts(mean, max(by_query - both, 0.0), by_seed, draws - 1, seeds - 1)


def crossed_t_test(
    differences: Float[Array, "query seed"], groups: Groups | None = None, confidence: float = 0.95
) -> Difference:
    """A t-test of differences that vary with query and seed of training, each seed on every query.

    t = mean / sqrt(of_queries + of_seeds), with degrees of freedom 1 / (w_q / query_degrees + w_s / seed_degrees), w
    being each part's share of the variance: Satterthwaite's formula with shares, because their squares err in up to
    8 % at 3 seeds and a nominal 5 %.  With one seed it is the paired t-test over queries.  p is 1 if nothing differs or
    there is one query, and 0 if all differ by the same amount.
    """
    mean, of_queries, of_seeds, query_degrees, seed_degrees = variance_parts(differences, groups)
    if not query_degrees or not differences.any():
        return Difference(mean, mean, mean, 1.0)
    variance = of_queries + of_seeds
    share = of_seeds / variance if variance else 0.0
    degrees = 1 / ((1 - share) / query_degrees + (share / seed_degrees if seed_degrees else 0.0))
    return _by_t(mean, variance, degrees, confidence)


def nested_t_test(differences: Sequence[Float[Array, " query"]], confidence: float = 0.95) -> Difference:
    """A t-test of differences for seeds with their own queries, as the folds of cross-validation.

    variance = max(var(seed means) / S, var(all) / Q); degrees of freedom as in `crossed_t_test`.
    """
    every = np.concatenate(differences)
    queries, seeds, mean = len(every), len(differences), float(every.mean())
    if queries < 2 or not every.any():
        return Difference(mean, mean, mean, 1.0)
    by_query, by_seed, degrees = float(every.var(ddof=1)) / queries, 0.0, queries - 1.0
    if seeds > 1:
        by_seed = float(np.var([fold.mean() for fold in differences], ddof=1)) / seeds
        if by_query + by_seed > 0:
            share = by_seed / (by_query + by_seed)
            degrees = 1 / ((1 - share) / (queries - 1) + share / (seeds - 1))
    return _by_t(mean, max(by_query, by_seed), degrees, confidence)


def _by_t(mean: float, variance: float, degrees: float, confidence: float) -> Difference:
    """The interval and the p-value of a mean with this variance; rounding error counts as no variance."""
    from scipy import special

    error = math.sqrt(variance)
    if error <= 1e-12 * abs(mean):
        return Difference(mean, mean, mean, 0.0)
    reach = float(special.stdtrit(degrees, 0.5 + confidence / 2)) * error
    p_value = 2 * float(special.stdtr(degrees, -abs(mean) / error))
    return Difference(mean, mean - reach, mean + reach, p_value)


def mean_by_t(
    values: Float[Array, " query"], degrees: float, confidence: float = 0.95, least: float = 0.0
) -> Difference:
    """The mean over queries with its interval, by t with these degrees of freedom; its variance is at least `least`."""
    variance = max(float(values.var(ddof=1)) / len(values), least) if len(values) > 1 else math.inf
    if not values.any() and not least:
        return Difference(0.0, 0.0, 0.0, 1.0)
    return _by_t(float(values.mean()), variance, degrees, confidence)


def guarded_interval(
    differences: Float[Array, "query seed"], error_rate: float, groups: Groups | None = None
) -> Difference:
    """The mean, and an interval that is missed at each end in at most `error_rate` of cases, with any number of seeds.

    reach^2 = t_q^2 of_queries + t_s^2 of_seeds, t being Student's quantiles at 1 - error_rate.  It is longer than
    that of `crossed_t_test`, which is too short at small error rates.  p is twice the least error rate that excludes 0.

    Source: Howe, JASA 1974 (sums of two variances by the squares of their intervals).
    """
    from scipy import optimize, special

    parts = variance_parts(differences, groups)
    if not parts.query_degrees or not differences.any() or math.isnan(parts.mean):
        return Difference(parts.mean, parts.mean, parts.mean, 1.0)

    def reach(rate: float) -> float:
        of_queries = special.stdtrit(parts.query_degrees, rate) ** 2 * parts.of_queries
        of_seeds = special.stdtrit(parts.seed_degrees, rate) ** 2 * parts.of_seeds if parts.seed_degrees else 0.0
        return math.sqrt(float(of_queries + of_seeds))

    least, most = 1e-12, 0.5
    if reach(least) <= abs(parts.mean):
        rate = least
    else:
        rate = float(optimize.brentq(lambda rate: reach(rate) - abs(parts.mean), least, most))
    ends = reach(error_rate)
    return Difference(parts.mean, parts.mean - ends, parts.mean + ends, min(2 * rate, 1.0))


def holm(p_values: Float[Array, " test"]) -> Float[Array, " test"]:
    """p-values corrected for the family-wise error rate.

    The i-th smallest of m becomes max over j <= i of (m - j + 1) p_(j), at most 1.

    Source: Holm, Scandinavian Journal of Statistics, 1979.
    """
    order = np.argsort(p_values, kind="stable")
    factors = len(p_values) - np.arange(len(p_values))
    corrected = np.empty_like(p_values)
    corrected[order] = np.minimum(np.maximum.accumulate(factors * p_values[order]), 1.0)
    return corrected


def verdict(
    low: float, high: float, p_holm: float, *, seeds: int, alpha: float = 0.05, min_gain: float = 0.0
) -> Verdict:
    """The verdict on a difference: better or worse if the corrected p is below alpha and the interval agrees.

    With fewer than `SEEDS_OF_A_CLAIM` seeds it only suggests.  better also needs a mean of at least `min_gain`, and is
    slight without; equal means the same value on every query.
    """
    if low == high == 0:
        return "equal"
    significant = p_holm < alpha
    if significant and low > 0:
        if (low + high) / 2 < min_gain:
            return "slight"
        return "better" if seeds >= SEEDS_OF_A_CLAIM else "suggests better"
    if significant and high < 0:
        return "worse" if seeds >= SEEDS_OF_A_CLAIM else "suggests worse"
    return "unclear"
