"""The choice between ways of training: how often it errs, and what is chosen."""

import numpy as np
import pytest

from noisyir.eval.choice import choose


def drawn(rng, effect, queries=300, seeds=3, of_seed=0.01, spread=0.3):
    """Differences that vary with query, seed and both."""
    return (
        effect
        + rng.normal(0, spread, (queries, 1))
        + rng.normal(0, of_seed, (1, seeds))
        + rng.normal(0, spread, (queries, seeds))
    )


@pytest.mark.parametrize("of_seed", [0.0, 0.01, 0.1])
def test_what_is_no_better_is_rarely_chosen_however_much_seeds_matter(of_seed):
    rng = np.random.default_rng(1)

    def is_chosen():
        plain = rng.random((300, 3))
        rows = choose({"dpr": plain, "other": plain + drawn(rng, 0.0, of_seed=of_seed)}, "dpr", 0.05)
        return rows[1]["chosen"]

    chosen = np.mean([is_chosen() for _ in range(600)])
    assert chosen < 0.05 + 2 * np.sqrt(0.05 * 0.95 / 600)


def test_the_best_of_those_better_beyond_doubt_is_chosen_and_else_plain():
    rng = np.random.default_rng(0)
    plain = rng.random((400, 3))
    better, best = plain + drawn(rng, 0.1, 400, of_seed=0.0), plain + drawn(rng, 0.3, 400, of_seed=0.0)
    worse, alike = plain - 0.2 + drawn(rng, 0.0, 400), plain + drawn(rng, 0.0, 400)

    def chosen(**values):
        rows = choose({"dpr": plain, **values}, "dpr", 0.05)
        assert [row["method"] for row in rows] == ["dpr", *values]
        (name,) = (row["method"] for row in rows if row["chosen"])
        return name

    assert chosen(a=better, b=best, c=worse) == "b"
    assert chosen(c=worse, d=alike) == "dpr"
    assert chosen(e=plain.copy()) == "dpr", "a tie"


def test_the_rows_hold_means_and_corrected_p_values():
    rng = np.random.default_rng(0)
    plain = rng.random((50, 2))
    a, b = plain + drawn(rng, 0.1, 50, 2), plain + drawn(rng, 0.05, 50, 2)
    rows = choose({"dpr": plain, "a": a, "b": b}, "dpr", 0.05)
    assert rows[0] | {"chosen": None} == {
        "method": "dpr",
        "queries": 50,
        "seeds": 2,
        "mean": plain.mean(),
        "chosen": None,
    }
    assert rows[1]["difference"] == pytest.approx((a - plain).mean()) and rows[1]["low"] < rows[1]["difference"]
    p_values = sorted(row["p_value"] for row in rows[1:])
    assert min(row["p_holm"] for row in rows[1:]) == pytest.approx(min(2 * p_values[0], 1.0))
