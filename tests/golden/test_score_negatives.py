"""Measures of false negatives, and the losses of groups of passages: their equations, written out by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from noisyir.evaluation.loss_groups import BINS, below, describe, pool_losses
from noisyir.evaluation.negatives import (
    query_average_precision,
    ranking_quality,
    signals,
    usual_verdict,
    verdict_quality,
)
from noisyir.mining.candidates import Candidates


def candidates(score, positive_score, similarity, positive_norm, norm) -> Candidates:
    """Candidates of one query of length 1."""
    rows, ones = np.arange(len(score)), np.ones(len(score))
    return Candidates(
        rows * 0, rows, rows + 1, *map(np.array, (score, positive_score, similarity, ones, positive_norm, norm))
    )


def test_the_signals_are_what_the_filters_compare_with_their_bounds():
    found = signals(candidates([0.5, 0.9, -0.2], [0.8, 0.8, -0.4], [3.0, 1.0, 5.0], [2.0, 1.0, 0.0], [2.0, 4.0, 1.0]))
    cosines = [(0.5 / 2, 0.8 / 2, 3 / 4), (0.9 / 4, 0.8 / 1, 1 / 4), (-0.2, 0, 0)]  # (q, d-), (q, d+), (d+, d-)
    expected = {
        "max_score": [0.5, 0.9, -0.2],
        "absolute_margin": [0.5 - 0.8, 0.9 - 0.8, -0.2 + 0.4],
        "relative_margin": [(0.5 - 0.8) / 0.8, (0.9 - 0.8) / 0.8, (-0.2 + 0.4) / 0.4],
        "max_positive_cosine": [3 / 4, 1 / 4, 0],  # a vector without length is near nothing
        "triangle_1": [-(right - wrong + 1 - between) for wrong, right, between in cosines],
        "triangle_1.5": [-(right - wrong + 1.5 * (1 - between)) for wrong, right, between in cosines],
    }
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, err_msg=name)


def test_a_positive_that_scores_0_puts_each_candidate_on_its_own_side():
    found = signals(candidates([0.1, 0.0, -0.1], *np.zeros((2, 3)), *np.ones((2, 3))))["relative_margin"]
    assert np.isfinite(found).all() and found[0] > 1e30 and found[1] == 0 and found[2] < -1e30


def test_percpos_at_95_percent():
    assert usual_verdict(np.array([0.75, 0.76, 0.77]), np.full(3, 0.8)).tolist() == [0.75 <= 0.95 * 0.8, True, False]
    assert usual_verdict(np.array([-0.43, -0.41]), np.full(2, -0.4)).tolist() == [True, False]  # the bound is -0.42


SIGNAL = np.array([0.9, 0.8, 0.7, 0.6, 0.5])
RELEVANT = np.array([True, False, True, False, False])


def test_auroc_is_the_share_of_pairs_in_order_and_ap_the_mean_precision_at_the_relevant():
    found = ranking_quality(SIGNAL, RELEVANT, np.zeros(5, np.int64))
    pairs_in_order = 3 + 2  # of 2 * 3: the first beats all three, the third beats two
    assert found["AUROC"] == pytest.approx(pairs_in_order / 6)
    assert found["AP"] == found["AP_query"] == pytest.approx((1 / 1 + 2 / 3) / 2)
    assert found["count"] == 5


def test_equal_signals_count_half_in_auroc_and_are_passed_together_in_ap():
    found = ranking_quality(np.array([0.5, 0.5, 0.1]), np.array([True, False, False]), np.zeros(3, np.int64))
    assert found["AUROC"] == pytest.approx((0.5 + 1) / 2)
    assert found["AP"] == found["AP_query"] == pytest.approx(1 / 2)


def test_the_mean_over_queries_leaves_out_queries_without_both_kinds():
    query = np.array([3, 3, 0, 0, 1, 1])
    relevant = np.array([False, True, True, False, True, True])
    found = query_average_precision(np.array([2.0, 1.0, 9.0, 8.0, 1.0, 2.0]), relevant, query)
    assert found.tolist() == [1 / 1, 1 / 2]  # queries 0 and 3
    assert "AP_query" not in ranking_quality(np.ones(2), np.ones(2, bool), np.zeros(2, np.int64))


rankings = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5), st.booleans()), min_size=1, max_size=40)


@given(rankings, st.randoms())
def test_each_querys_average_precision_is_sklearns_in_whatever_order(rows, random):
    query, signal, relevant = (np.array(column) for column in zip(*rows, strict=True))
    expected = [
        average_precision_score(relevant[query == number], signal[query == number])
        for number in np.unique(query)
        if 0 < relevant[query == number].sum() < (query == number).sum()
    ]
    order = np.array(random.sample(range(len(rows)), len(rows)))
    found = query_average_precision(signal[order].astype(float), relevant[order], query[order])
    np.testing.assert_allclose(found, expected)


def test_caught_is_of_the_relevant_and_lost_of_the_others():
    keep = np.array([False, True, False, True, True])
    assert verdict_quality(keep, RELEVANT) == {"caught": 2 / 2, "lost": 0 / 3}
    assert verdict_quality(~keep, RELEVANT) == {"caught": 0 / 2, "lost": 3 / 3}
    assert verdict_quality(keep, np.ones(5, bool)) == {"caught": 2 / 5}  # nothing else to lose


def test_measures_that_have_no_value_are_absent():
    assert ranking_quality(SIGNAL, np.zeros(5, bool), np.zeros(5, np.int64)) == {"count": 5}
    assert ranking_quality(SIGNAL[:0], RELEVANT[:0], np.zeros(0, np.int64)) == {"count": 0}


def test_equation_6_a_passages_loss_is_the_log_of_the_pools_sum_less_its_score():
    scores, pool = np.array([2.0, 1.0, 0.0, 5.0]), np.array([4, 4, 4, 2])
    total = np.exp(2) + np.exp(1) + np.exp(0)
    expected = [-np.log(np.exp(2) / total), -np.log(np.exp(1) / total), -np.log(1 / total), -np.log(1)]
    np.testing.assert_allclose(pool_losses(scores, pool), expected, atol=1e-15)
    assert pool_losses(np.array([1e4, 0.0]), np.zeros(2, np.int64)).tolist() == [0, 1e4]  # nothing overflows


def test_overlap_is_the_share_of_pairs_in_order():
    assert below(np.array([1.0, 3.0]), np.array([2.0, 3.0])) == (1 + 1 + 0 + 0.5) / 4


def test_histograms_share_their_bins_and_hold_every_passage():
    groups = {"positive": np.array([0.0, 1.0]), "false": np.array([2.0]), "hard": np.array([6.0, 1.5, 3.0]),
              "in_batch": np.array([])}  # fmt: skip
    rows = describe(groups)
    for name, losses in groups.items():
        own = {row["measure"]: row["value"] for row in rows if row["group"] == name and row["measure"] != "share"}
        bins = [row for row in rows if row["group"] == name and row["measure"] == "share"]
        assert own["count"] == len(losses)
        assert len(bins) == (BINS if len(losses) else 0)
        if len(losses):
            assert sum(row["value"] for row in bins) == pytest.approx(1)
            assert (bins[0]["low"], bins[-1]["high"]) == (0, 6)
            assert (own["mean"], own["q50"]) == (losses.mean(), np.median(losses))
    assert [row["value"] for row in rows if row["measure"] == "auroc"] == [pytest.approx(2 / 3)]
