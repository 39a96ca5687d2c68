"""How often the bench, a comparison and the gate call equal ways different: the simulation of `bench/type_one.py`."""

from functools import partial

import numpy as np
import pytest

from bench.type_one import GATE, by_the_bench, over_queries_alone, share_promoted, shares_called_different
from noisyir.evaluation.comparison import difference


def share_called(tests, test, **about):
    return shares_called_different(tests, (test,), **about)[0]


def keeps_its_level(share: float, tests: int) -> bool:
    """From 3.5 to 6.5 %, less and more two standard errors of the simulation itself."""
    return bool(3.5 - 200 * np.sqrt(0.035 / tests) < share < 6.5 + 200 * np.sqrt(0.065 / tests))


def by_a_comparison_of_models(values, documents):
    return difference(values[0] - values[1], documents, 0.95)["p_value"]


@pytest.mark.parametrize(("queries", "tests"), [(500, 500), (2000, 250)])
def test_the_bench_errs_as_often_as_it_says(queries, tests):
    assert keeps_its_level(share_called(tests, by_the_bench, queries=queries, seeds=3), tests)


def test_a_test_that_takes_seeds_for_granted_does_not():
    assert share_called(300, over_queries_alone, queries=2000, seeds=3) > 12


def test_questions_of_one_document_are_no_more_than_one_draw():
    share = partial(share_called, 500, queries=500, asked_of_each=5)
    assert keeps_its_level(share(by_the_bench, seeds=5), 500)
    assert keeps_its_level(share(by_a_comparison_of_models, seeds=1, spread=0.0), 500)


@pytest.mark.parametrize("challengers", [1, 4])
def test_of_equal_recipes_the_gate_promotes_no_more_than_it_says(challengers):
    assert share_promoted(600 // challengers, challengers, queries=300, seeds=3) <= GATE.error_rate


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("asked_of_each", [1, 4])
@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("queries", [500, 2000, 6980])
def test_the_bench_errs_as_often_as_it_says_at_all_sizes(queries, seeds, asked_of_each):
    about = {"queries": queries, "seeds": seeds, "asked_of_each": asked_of_each}
    assert 3.5 <= share_called(4000, by_the_bench, **about) <= 6.5


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("queries", "seeds"), [(500, 3), (2000, 3), (2000, 5), (6980, 3)])
@pytest.mark.parametrize("asked_of_each", [1, 4])
def test_the_gates_level_at_all_sizes(queries, seeds, asked_of_each):
    about = {"queries": queries, "seeds": seeds, "asked_of_each": asked_of_each}
    tries = 2_000_000 // queries
    assert share_promoted(tries, 1, **about) <= GATE.error_rate
    chance = 2 * np.sqrt(GATE.error_rate / (tries // 10))
    assert share_promoted(tries // 10, 10, **about) <= GATE.error_rate + chance
