"""The choice between ways of training: how often it errs, and what is chosen."""

import numpy as np
import pytest
from scipy import stats

from noisyir.evaluation.comparison import choose
from noisyir.evaluation.significance import nested_t_test


def drawn(rng, effect, queries=300, seeds=3, of_seed=0.01, spread=0.3):
    """Differences that vary with query, seed and both."""
    return (
        effect
        + rng.normal(0, spread, (queries, 1))
        + rng.normal(0, of_seed, (1, seeds))
        + rng.normal(0, spread, (queries, seeds))
    )


@pytest.mark.parametrize(("alpha", "level"), [(0.05, 0.07), (0.2, 0.21), (0.4, 0.41)])
@pytest.mark.parametrize("of_seed", [0.0, 0.01, 0.1])
@pytest.mark.parametrize("same_queries", [True, False])
def test_what_is_no_better_is_rarely_chosen_however_much_seeds_matter(of_seed, same_queries, alpha, level):
    rng = np.random.default_rng(1)

    def is_chosen():
        plain = rng.random((5, 100))
        other = plain + (drawn(rng, 0.0, 100, 5, of_seed).T if same_queries else folds(rng, of_seed))
        rows = choose({"dpr": [*plain], "other": [*other]}, "dpr", alpha, same_queries=same_queries)
        return rows[1]["chosen"]

    chosen = np.mean([is_chosen() for _ in range(600)])
    assert chosen < level + 2 * np.sqrt(level * (1 - level) / 600), "of few seeds that matter much a little is lost"


@pytest.mark.parametrize("true", [-2.0, -1.0, -0.5, 0.5, 1.0, 2.0])
def test_a_wrong_choice_costs_as_little_as_the_docs_say(true):
    """true: the difference in standard errors of its estimate, which 100 queries under each of 5 seeds give."""
    rng, error = np.random.default_rng(2), 0.4 / np.sqrt(500)
    costs = []
    for _ in range(600):
        plain = rng.random((5, 100))
        rows = choose({"dpr": [*plain], "other": [*(plain + true * error + folds(rng, 0.0))]}, "dpr", 0.4,
                      same_queries=False)  # fmt: skip
        costs.append(abs(true) * (rows[1]["chosen"] == (true < 0)))
    assert np.mean(costs) < (0.12 if true < 0 else 0.24) + 2 * np.std(costs) / np.sqrt(600)


def folds(rng, of_seed):
    """Differences of five seeds with 100 queries each, all of them others."""
    return rng.normal(0, of_seed, (5, 1)) + rng.normal(0, 0.4, (5, 100))


def test_other_queries_under_each_seed_tell_more_than_the_same_ones():
    rng = np.random.default_rng(3)
    p_values = {False: [], True: []}
    for same_queries, found in p_values.items():
        for _ in range(200):
            plain = rng.random((5, 100))
            gain = 0.03 + (drawn(rng, 0.0, 100, 5, 0.0, 0.3).T if same_queries else folds(rng, 0.0))
            rows = choose({"dpr": [*plain], "other": [*plain + gain]}, "dpr", 0.05, same_queries=same_queries)
            found.append(rows[1]["chosen"])
    assert np.mean(p_values[False]) > np.mean(p_values[True]) + 0.1


def test_seeds_with_queries_of_their_own_by_hand():
    # seed means 2 and 2 differ by nothing: queries alone count
    found = nested_t_test([np.array([1.0, 3.0]), np.array([1.0, 3.0])])
    every = np.array([1.0, 3.0, 1.0, 3.0])
    assert found.mean == 2.0 and found.p_value == pytest.approx(stats.ttest_1samp(every, 0).pvalue)
    # seed means 1 and 3: variance 2 / 2 = 1; that of all four is (1 + 1 + 1 + 1) / 3 / 4 = 1 / 3
    found = nested_t_test([np.array([1.0, 1.0]), np.array([3.0, 3.0])])
    degrees = 1 / (3 / 4 / 1 + 1 / 4 / 3)  # shares 3 / 4 of the seeds, 1 / 4 of the queries
    assert found.p_value == pytest.approx(2 * stats.t(degrees).sf(2.0))
    assert nested_t_test([np.zeros(3), np.zeros(2)]).p_value == 1.0


def test_the_best_of_those_better_beyond_doubt_is_chosen_and_else_plain():
    rng = np.random.default_rng(0)
    plain = rng.random((400, 3))
    better, best = plain + drawn(rng, 0.1, 400, of_seed=0.0), plain + drawn(rng, 0.3, 400, of_seed=0.0)
    worse, alike = plain - 0.2 + drawn(rng, 0.0, 400), plain + drawn(rng, 0.0, 400)

    def chosen(**values):
        by_seed = {name: [*found.T] for name, found in {"dpr": plain, **values}.items()}
        rows = choose(by_seed, "dpr", 0.05, same_queries=True)
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
    rows = choose({"dpr": [*plain.T], "a": [*a.T], "b": [*b.T]}, "dpr", 0.05, same_queries=True)
    assert rows[0] | {"chosen": None} == {
        "method": "dpr",
        "queries": 50,
        "seeds": 2,
        "mean": pytest.approx(plain.mean()),
        "chosen": None,
    }
    assert rows[1]["difference"] == pytest.approx((a - plain).mean()) and rows[1]["low"] < rows[1]["difference"]
    one_sided = [row["p_value"] / 2 if row["difference"] > 0 else 1 - row["p_value"] / 2 for row in rows[1:]]
    assert min(row["p_holm"] for row in rows[1:]) == pytest.approx(min(2 * min(one_sided), 1.0))
