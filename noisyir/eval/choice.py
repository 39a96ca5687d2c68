"""Which way of training is chosen by held-out pairs: plain training, unless another is better beyond doubt."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from noisyir.eval.significance import crossed_t_test, holm

Array = np.ndarray


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
