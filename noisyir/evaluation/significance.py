"""Is one way better than another?  The one place of inference: over queries and seeds of training at once.

A comparison is a table of differences, a row for each query and a column for each seed.  Both vary: with other queries
the mean would be another, and with other seeds too.  A test over queries alone takes the seeds for granted: it calls
equal methods different in 12 % of the comparisons at 500 queries and in half of them at 6,980 (3 seeds whose means vary
by 0.005); `tests/unit/eval/test_type_one.py` measures how often these tests err.
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int

Array = np.ndarray
Groups = Int[Array, " query"]
Verdict = Literal["better", "worse", "suggests better", "suggests worse", "unclear", "equal"]
SEEDS_OF_A_CLAIM = 5
"""How many seeds a sentence about methods rests on; with fewer, a result suggests."""


class Difference(NamedTuple):
    """A mean difference, the ends of its interval, and the two-sided p-value that it is 0."""

    mean: float
    low: float
    high: float
    p_value: float


class Parts(NamedTuple):
    """The mean of a table of differences and the variance of that mean, by what it comes from.

    of_queries: the share of the queries alone, with `query_degrees` degrees of freedom; of_seeds: that of the seeds,
    and of what varies with query and seed together, with `seed_degrees`; 0 where there is one seed, whose draw cannot
    be seen.
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
    groups: equal numbers mark queries that are one draw, such as those of one document; their sums take the place of
    single queries.  Source: Cameron, Gelbach and Miller, JBES 2011 (two-way clustering).
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
    """The mean of differences that vary with the query and with the seed of training, each seed on every query.

    t = mean / sqrt(of_queries + of_seeds), with degrees of freedom 1 / (w_q / query_degrees + w_s / seed_degrees), w
    being each part's share of the variance: Satterthwaite's formula with shares in place of their squares, which keep
    the level in between (with squares, 3 seeds and a nominal 5 % err in up to 8 %).  Of one seed, the paired t-test
    over queries, which says nothing of other seeds.  p is 1 where nothing differs, or of one query; 0 where all differ
    by the same amount.
    """
    mean, of_queries, of_seeds, query_degrees, seed_degrees = variance_parts(differences, groups)
    if not query_degrees or not differences.any():
        return Difference(mean, mean, mean, 1.0)
    variance = of_queries + of_seeds
    share = of_seeds / variance if variance else 0.0
    degrees = 1 / ((1 - share) / query_degrees + (share / seed_degrees if seed_degrees else 0.0))
    return _by_t(mean, variance, degrees, confidence)


def nested_t_test(differences: Sequence[Float[Array, " query"]], confidence: float = 0.95) -> Difference:
    """The mean of differences of which every seed of training has its own queries, as the folds of cross-validation.

    variance = var(seed means) / S, which holds what queries do, or var(all) / Q where that is greater; degrees of
    freedom as in `crossed_t_test`, whose variance this is where no query comes twice.  p is 1 of one query.
    """
    every = np.concatenate(differences)
    queries, seeds, mean = len(every), len(differences), float(every.mean())
    if queries < 2 or not every.any():
        return Difference(mean, mean, mean, 1.0)
    by_query, by_seed, degrees = float(every.var(ddof=1)) / queries, 0.0, queries - 1.0
    if seeds > 1:
        by_seed = float(np.var([some.mean() for some in differences], ddof=1)) / seeds
        if by_query + by_seed > 0:
            share = by_seed / (by_query + by_seed)
            degrees = 1 / ((1 - share) / (queries - 1) + share / (seeds - 1))
    return _by_t(mean, max(by_query, by_seed), degrees, confidence)


def _by_t(mean: float, variance: float, degrees: float, confidence: float) -> Difference:
    """The interval and the p-value of a mean with this variance; rounding alone counts as none."""
    from scipy import special

    error = math.sqrt(variance)
    if error <= 1e-12 * abs(mean):
        return Difference(mean, mean, mean, 0.0)
    reach = float(special.stdtrit(degrees, 0.5 + confidence / 2)) * error
    p_value = 2 * float(special.stdtr(degrees, -abs(mean) / error))
    return Difference(mean, mean - reach, mean + reach, p_value)


def guarded_interval(
    differences: Float[Array, "query seed"], error_rate: float, groups: Groups | None = None
) -> Difference:
    """The mean, and an interval whose ends are passed in no more than `error_rate` of all cases each, at any seeds.

    reach^2 = t_q^2 of_queries + t_s^2 of_seeds, t being Student's quantiles at 1 - error_rate of either's degrees of
    freedom.  It is longer than that of `crossed_t_test`, which errs more often than it says at small error rates.
    p_value: twice the least error rate at which the interval leaves out 0.
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
    """p-values corrected so that the chance of one false claim among all the tests stays below the level.

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
    """The verdict on a difference: better or worse where the corrected p is below alpha and the interval agrees.

    Below `SEEDS_OF_A_CLAIM` seeds it suggests no more.  better also asks for a mean of at least min_gain, worse for no
    size.  equal: the same value on every query, as when nothing was there to correct.
    """
    if low == high == 0:
        return "equal"
    beyond_doubt = p_holm < alpha
    if beyond_doubt and low > 0 and (low + high) / 2 >= min_gain:
        return "better" if seeds >= SEEDS_OF_A_CLAIM else "suggests better"
    if beyond_doubt and high < 0:
        return "worse" if seeds >= SEEDS_OF_A_CLAIM else "suggests worse"
    return "unclear"
