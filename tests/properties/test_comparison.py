"""What a comparison of systems keeps to, whatever the numbers."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from noisyir.evaluation.comparison import compare
from noisyir.evaluation.significance import crossed_t_test, holm

p_values = hnp.arrays(float, st.integers(0, 20), elements=st.floats(0, 1))
unit = st.floats(0, 1, width=32)
scores = hnp.arrays(float, st.tuples(st.integers(5, 60), st.just(3)), elements=unit)


def metrics_of(values: np.ndarray, order: np.ndarray) -> dict[str, pa.Table]:
    ids = np.array([f"q{number:03d}" for number in range(len(values))])
    return {
        f"s{column}": pa.table(
            {
                "measure": ["nDCG@10"] * len(values),
                "split": ["test"] * len(values),
                "query_id": ids[order],
                "value": values[order, column],
            }
        )
        for column in range(values.shape[1])
    }


@given(p_values)
def test_holm_is_no_smaller_than_the_raw_p_and_keeps_its_order(raw: np.ndarray):
    corrected = holm(raw)
    assert (corrected >= raw).all() and (corrected <= 1).all()
    assert (np.diff(corrected[np.argsort(raw, kind="stable")]) >= 0).all()


@given(p_values, st.randoms(use_true_random=False))
def test_holm_does_not_depend_on_the_order_of_the_tests(raw: np.ndarray, random):
    order = np.array(random.sample(range(len(raw)), len(raw)), dtype=int)
    np.testing.assert_array_equal(holm(raw[order]), holm(raw)[order])


@given(scores)
def test_the_test_is_the_same_seen_from_the_other_side(values: np.ndarray):
    here, there = crossed_t_test(values), crossed_t_test(-values)
    assert here.p_value == pytest.approx(there.p_value)
    assert (here.mean, here.low, here.high) == pytest.approx((-there.mean, -there.high, -there.low))
    assert here.low <= here.mean <= here.high


@given(scores, st.randoms(use_true_random=False))
def test_neither_the_order_of_queries_and_seeds_nor_the_names_of_groups_matter(values: np.ndarray, random):
    order = np.array(random.sample(range(len(values)), len(values)))
    groups = np.arange(len(values)) // 3
    straight, shuffled = crossed_t_test(values, groups), crossed_t_test(values[order][:, ::-1], -7 * groups[order])
    assert straight == pytest.approx(shuffled, abs=1e-9)


@given(scores, st.randoms(use_true_random=False))
@settings(max_examples=20, deadline=None)
def test_the_order_of_the_rows_changes_nothing(values: np.ndarray, random):
    order = np.array(random.sample(range(len(values)), len(values)))
    straight, shuffled = (compare(metrics_of(values, rows)) for rows in (np.arange(len(values)), order))
    assert straight.equals(shuffled)


@given(scores)
@settings(max_examples=20, deadline=None)
def test_a_difference_is_the_difference_of_the_means_and_the_last_system_meets_every_other(values: np.ndarray):
    rows = compare(metrics_of(values, np.arange(len(values)))).to_pylist()
    means = {row["system"]: row["mean"] for row in rows}
    tests = [row for row in rows if row["baseline"] is not None]
    assert [(row["system"], row["baseline"]) for row in tests] == [("s1", "s0"), ("s2", "s0"), ("s2", "s1")]
    for row in tests:
        assert row["difference"] == pytest.approx(means[row["system"]] - means[row["baseline"]], abs=1e-9)
        assert row["difference_low"] <= row["difference_high"]
        assert row["wins"] + row["losses"] <= row["queries"]
