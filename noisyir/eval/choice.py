"""Which way of training is chosen by held-out pairs: plain training, unless another is better beyond doubt."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from noisyir.eval.significance import holm

Array = np.ndarray


class Difference(NamedTuple):
    """A mean difference, the ends of its interval, and the two-sided p-value that it is 0."""

    mean: float
    low: float
    high: float
    p_value: float


def crossed_t_test(differences: Float[Array, "query seed"], confidence: float = 0.95) -> Difference:
    """The mean of differences that vary with the query and with the seed of training, each seed on every query.

    variance = var(query means) / Q + var(seed means) / S - var(rest) / (Q S), at least the greater of the first two:
    the first two both hold the rest's share.  Degrees of freedom by Welch and Satterthwaite.  Of one seed, the paired
    t-test over queries.  p is 1 where nothing differs, or of one query; 0 where all differ by the same amount.
    Source: Cameron, Gelbach and Miller, JBES 2011 (two-way clustering); Satterthwaite, Biometrics 1946.
    """
    from scipy import special

    queries, seeds = differences.shape
    mean = float(differences.mean())
    if queries < 2 or not differences.any():
        return Difference(mean, mean, mean, 1.0)
    of_query, of_seed = differences.mean(axis=1), differences.mean(axis=0)
    by_query, by_seed = float(of_query.var(ddof=1)) / queries, 0.0
    variance, degrees = by_query, queries - 1.0
    if seeds > 1:
        by_seed = float(of_seed.var(ddof=1)) / seeds
        rest = differences - of_query[:, None] - of_seed + mean
        both = float((rest**2).sum()) / ((queries - 1) * (seeds - 1)) / (queries * seeds)
        variance = max(by_query + by_seed - both, by_query, by_seed)
        if variance > 0:
            degrees = (by_query + by_seed) ** 2 / (by_query**2 / (queries - 1) + by_seed**2 / (seeds - 1))
    error = math.sqrt(variance)
    if error <= 1e-12 * abs(mean):  # rounding alone
        return Difference(mean, mean, mean, 0.0)
    reach = float(special.stdtrit(degrees, 0.5 + confidence / 2)) * error
    p_value = 2 * float(special.stdtr(degrees, -abs(mean) / error))
    return Difference(mean, mean - reach, mean + reach, p_value)


def choose(values: Mapping[str, Float[Array, "query seed"]], plain: str, alpha: float) -> list[dict[str, Any]]:
    """A row for each method as TRIALS: its mean, its difference to plain training, and whether it is chosen.

    values: what each method is worth on every held-out query, under every seed; the greater, the better.
    Chosen is the method of the greatest mean among those better than plain at a Holm-corrected p below `alpha`, else
    plain training: a tie, or what may be chance, changes nothing.
    """
    others = [method for method in values if method != plain]
    tests = {method: crossed_t_test(values[method] - values[plain]) for method in others}
    corrected = dict(zip(others, holm(np.array([tests[method].p_value for method in others])), strict=True))
    better = [method for method in others if tests[method].mean > 0 and corrected[method] < alpha]
    chosen = max(better, key=lambda method: tests[method].mean, default=plain)
    rows = []
    for method, found in values.items():
        queries, seeds = found.shape
        row = {"method": method, "queries": queries, "seeds": seeds, "mean": float(found.mean())}
        if method != plain:
            test = tests[method]
            row |= {"difference": test.mean, "low": test.low, "high": test.high, "p_value": test.p_value}
            row["p_holm"] = float(corrected[method])
        rows.append(row | {"chosen": method == chosen})
    return rows
