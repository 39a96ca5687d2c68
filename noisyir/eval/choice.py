"""Which way of training is chosen by held-out pairs: plain training, unless a test finds another better."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from noisyir.eval.significance import Difference, crossed_t_test, holm, nested_t_test

Array = np.ndarray


def choose(
    values: Mapping[str, Sequence[Float[Array, " query"]]], plain: str, alpha: float, *, same_queries: bool
) -> list[dict[str, Any]]:
    """A row for each method as TRIALS: its mean, its difference to plain training, and whether it is chosen.

    values: what each method is worth on every held-out query, under every seed; the greater, the better.
    same_queries: whether all seeds have the same queries, or each its own.
    Chosen is the method of the greatest mean among those better than plain at a Holm-corrected p below `alpha`, else
    plain training: a tie changes nothing.  Only what is better can be chosen, so the p that is corrected is one-sided:
    where no method is better, another than plain is chosen with a chance of `alpha` at most.

    What is at stake is a loss, not a claim.  Of one method whose difference has the standard error s, and with
    z = Phi^-1(1 - alpha), the choice costs on average, at the worst true difference,
    harm = s max_x x Phi(-z - x) where the method is worse than plain, missed = s max_x x Phi(z - x) where it is better:
    .008 s and .84 s at an alpha of .05, .045 s and .44 s at .2, .12 s and .23 s at .4, .17 s and .17 s at .5.
    Source: Tetenov, Journal of Econometrics 2012 (tests as treatment choices, by asymmetric minimax regret).
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
