"""Tests and intervals as arithmetic, and against scipy."""

import numpy as np
import pytest
from scipy import stats

from noisyir.eval.significance import Gate, bootstrap_means, holm, paired_t_test, percentile_interval


def test_holm_multiplies_the_smallest_by_the_number_of_tests():  # Holm, 1979
    got = holm(np.array([0.04, 0.01, 0.03, 0.005]))
    #             sorted: 0.005 * 4, 0.01 * 3, 0.03 * 2, 0.04 * 1 -> at least the one before
    np.testing.assert_allclose(got, [0.06, 0.03, 0.06, 0.02])


def test_the_paired_t_test_is_the_mean_over_its_standard_error():
    differences = np.array([[0.1], [0.3], [-0.1], [0.5]])
    mean, spread = 0.2, np.sqrt((0.1**2 + 0.1**2 + 0.3**2 + 0.3**2) / 3)
    expected = 2 * stats.t.sf(mean / (spread / np.sqrt(4)), df=3)
    assert paired_t_test(differences)[0] == pytest.approx(expected)


def test_the_paired_t_test_is_scipys():
    rng = np.random.default_rng(3)
    system, baseline = rng.random((200, 5)), rng.random((200, 5)) - 0.05
    np.testing.assert_allclose(paired_t_test(system - baseline), stats.ttest_rel(system, baseline).pvalue, rtol=1e-9)


def test_equal_systems_differ_with_p_one_and_a_constant_gain_with_p_zero():
    assert paired_t_test(np.zeros((10, 1)))[0] == 1
    assert paired_t_test(np.full((10, 1), 0.1))[0] == 0
    assert paired_t_test(np.array([[0.3]]))[0] == 1  # one query says nothing


def test_the_bootstrap_interval_is_near_scipys():
    values = np.random.default_rng(1).beta(0.5, 0.8, (400, 1))
    low, high = percentile_interval(bootstrap_means(values, 10000, np.random.default_rng(2)), 0.95)[:, 0]
    theirs = stats.bootstrap((values[:, 0],), np.mean, method="percentile", rng=np.random.default_rng(5))
    assert (low, high) == pytest.approx(tuple(theirs.confidence_interval), abs=2e-3)


def test_the_bootstrap_draws_the_same_queries_for_every_column():
    values = np.random.default_rng(1).random((50, 1))
    means = bootstrap_means(np.hstack([values, values + 0.25]), 500, np.random.default_rng(0))
    np.testing.assert_allclose(means[:, 1] - means[:, 0], 0.25)


def test_more_queries_than_a_block_holds_are_drawn_block_by_block(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("noisyir.eval.significance._BLOCK", 64)
    means = bootstrap_means(np.arange(20.0)[:, None], 4000, np.random.default_rng(0))
    assert means.shape == (4000, 1)
    assert means.mean() == pytest.approx(9.5, abs=0.1)
    assert means.std() == pytest.approx(np.sqrt((20**2 - 1) / 12 / 20), rel=0.05)


@pytest.mark.parametrize(
    ("difference", "low", "high", "p_holm", "expected"),
    [
        (0.05, 0.02, 0.08, 0.001, "WIN"),
        (0.05, 0.02, 0.08, 0.06, "MARGINAL"),  # not significant after correction
        (0.05, -0.01, 0.08, 0.01, "MARGINAL"),  # the interval holds zero
        (0.004, 0.002, 0.006, 0.001, "MARGINAL"),  # too small to matter
        (-0.02, -0.05, 0.01, 0.30, "MARGINAL"),
        (-0.004, -0.006, -0.002, 0.001, "REGRESSION"),  # a loss needs no size
    ],
)
def test_the_gate_asks_for_gain_interval_and_corrected_p(difference, low, high, p_holm, expected):
    assert Gate(alpha=0.05, min_gain=0.01).verdict(difference, low, high, p_holm) == expected
