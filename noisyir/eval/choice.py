"""Which way of training is chosen by held-out pairs: plain training, unless another is better beyond doubt."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from noisyir.eval.significance import Difference, crossed_t_test, holm

Array = np.ndarray


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


def choose(
    values: Mapping[str, Sequence[Float[Array, " query"]]], plain: str, alpha: float, *, same_queries: bool
) -> list[dict[str, Any]]:
    """A row for each method as TRIALS: its mean, its difference to plain training, and whether it is chosen.

    values: what each method is worth on every held-out query, under every seed; the greater, the better.
    same_queries: whether all seeds have the same queries, or each its own.
    Chosen is the method of the greatest mean among those better than plain at a Holm-corrected p below `alpha`, else
    plain training: a tie, or what may be chance, changes nothing.  Only what is better can be chosen, so the p that is
    corrected is one-sided: where no method is better, another than plain is chosen with a chance of `alpha` at most.
    """
    others = [method for method in values if method != plain]
    tests = {method: _test(values[method], values[plain], same_queries) for method in others}
    better_by_chance = [_one_sided(tests[method]) for method in others]
    corrected = dict(zip(others, holm(np.array(better_by_chance)), strict=True))
    better = [method for method in others if tests[method].mean > 0 and corrected[method] < alpha]
    chosen = max(better, key=lambda method: tests[method].mean, default=plain)
    rows = []
    for method, found in values.items():
        queries = len(found[0]) if same_queries else sum(map(len, found))
        row = {"method": method, "queries": queries, "seeds": len(found), "mean": float(np.concatenate(found).mean())}
        if method != plain:
            test = tests[method]
            row |= {"difference": test.mean, "low": test.low, "high": test.high, "p_value": test.p_value}
            row["p_holm"] = float(corrected[method])
        rows.append(row | {"chosen": method == chosen})
    return rows


def _test(
    values: Sequence[Float[Array, " query"]], plain: Sequence[Float[Array, " query"]], same_queries: bool
) -> Difference:
    differences = [these - those for these, those in zip(values, plain, strict=True)]
    return crossed_t_test(np.stack(differences, axis=1)) if same_queries else nested_t_test(differences)


def _one_sided(test: Difference) -> float:
    """The chance of a difference at least as great where there is none."""
    return test.p_value / 2 if test.mean > 0 else 1 - test.p_value / 2
