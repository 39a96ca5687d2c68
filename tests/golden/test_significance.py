"""Tests and intervals as arithmetic, and against scipy."""

import numpy as np
import pytest
from scipy import stats

from noisyir.evaluation.significance import crossed_t_test, guarded_interval, holm, variance_parts, verdict


def test_holm_multiplies_the_smallest_by_the_number_of_tests():  # Holm, 1979
    got = holm(np.array([0.04, 0.01, 0.03, 0.005]))
    #             sorted: 0.005 * 4, 0.01 * 3, 0.03 * 2, 0.04 * 1 -> at least the one before
    np.testing.assert_allclose(got, [0.06, 0.03, 0.06, 0.02])


def test_of_one_seed_it_is_the_paired_t_test():
    rng = np.random.default_rng(3)
    system, baseline = rng.random(200), rng.random(200) - 0.05
    found = crossed_t_test((system - baseline)[:, None])
    assert found.p_value == pytest.approx(stats.ttest_rel(system, baseline).pvalue)
    theirs = stats.ttest_rel(system, baseline).confidence_interval(0.95)
    assert (found.mean, found.low, found.high) == pytest.approx(((system - baseline).mean(), *theirs))


def test_where_only_seeds_differ_it_is_the_t_test_over_seeds():
    of_seed = np.array([0.01, 0.03, 0.02])
    found = crossed_t_test(np.tile(of_seed, (50, 1)))
    assert found.p_value == pytest.approx(stats.ttest_1samp(of_seed, 0).pvalue)


def test_variances_and_degrees_by_hand():
    # d: query means 1 and 4, seed means 2 and 3, mean 2.5; rests +-0.5: d = [[0, 2], [4, 4]] minus those
    parts = variance_parts(np.array([[0.0, 2.0], [4.0, 4.0]]))
    # var of query means: 2 * 1.5^2 = 4.5, / 2 queries; var of seed means: 2 * 0.5^2 = 0.5, / 2 seeds
    # var of rests: 4 * 0.5^2 / (1 * 1) = 1, / 4 values
    assert parts == (2.5, pytest.approx(4.5 / 2 - 1 / 4), pytest.approx(0.5 / 2), 1, 1)
    found = crossed_t_test(np.array([[0.0, 2.0], [4.0, 4.0]]))
    assert found.p_value == pytest.approx(2 * stats.t(1).sf(2.5 / np.sqrt(2.25)))  # 1 / (w / 1 + (1 - w) / 1) degrees


def test_queries_of_one_document_are_one_draw():
    of_document = np.array([0.1, 0.3, -0.1, 0.5])
    repeated = np.repeat(of_document, 5)[:, None]
    groups = np.repeat(np.arange(4), 5)
    alone = crossed_t_test(of_document[:, None])
    assert crossed_t_test(repeated, groups) == pytest.approx(alone)
    assert crossed_t_test(repeated).p_value < alone.p_value
    assert crossed_t_test(repeated, np.zeros(20, int)).p_value == 1.0, "one document says nothing"


def test_ties_and_constant_differences():
    assert crossed_t_test(np.zeros((5, 3))).p_value == 1.0
    assert crossed_t_test(np.full((5, 3), 0.1)).p_value == 0.0
    assert crossed_t_test(np.array([[0.3, 0.1]])).p_value == 1.0


def test_the_guarded_interval_adds_the_squares_of_both_reaches():  # Howe, 1974
    differences = np.array([[0.0, 2.0], [4.0, 4.0]])
    quantile = stats.t(1).ppf(0.975)
    found = guarded_interval(differences, 0.025)
    assert found.high - found.mean == pytest.approx(np.sqrt(quantile**2 * 2 + quantile**2 * 0.25))
    at_p = guarded_interval(differences, found.p_value / 2)
    assert at_p.low == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(
    ("low", "high", "p_holm", "seeds", "expected"),
    [
        (0.02, 0.08, 0.001, 5, "better"),
        (0.02, 0.08, 0.001, 4, "suggests better"),
        (0.02, 0.08, 0.06, 5, "unclear"),  # not significant after correction
        (-0.01, 0.08, 0.01, 5, "unclear"),  # the interval holds zero
        (0.002, 0.006, 0.001, 5, "slight"),  # too small to matter
        (-0.006, -0.002, 0.001, 5, "worse"),  # a loss needs no size
        (-0.006, -0.002, 0.001, 1, "suggests worse"),
        (0.0, 0.0, 1.0, 5, "equal"),
    ],
)
def test_what_may_be_said_of_a_difference(low, high, p_holm, seeds, expected):
    assert verdict(low, high, p_holm, seeds=seeds, alpha=0.05, min_gain=0.01) == expected
