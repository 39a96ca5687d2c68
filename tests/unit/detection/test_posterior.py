"""The posterior of relevance: what it is made of, that it is calibrated, and that labels alone say too much."""

from math import exp

import numpy as np
import pytest

from noisyir.detection.posterior import (
    JudgedCandidates,
    LabelledCandidates,
    by_label,
    calibration_error,
    cross_fitted,
    curve,
    evidence,
)
from noisyir.evaluation.negatives import ranking_quality

QUERIES, DEPTH = 800, 30


@pytest.fixture(scope="module")
def world():
    """Lists of 30 by two scores that tell of relevance; some relevant and some irrelevant documents are given."""
    rng = np.random.default_rng(1)
    query = np.repeat(np.arange(QUERIES), DEPTH)
    scores = [rng.normal(0, 2, len(query)), rng.normal(5, 1, len(query))]
    columns = evidence(scores, query)
    odds = -4.0 + 2.5 * columns[:, 1] + 1.5 * columns[:, 3] + 0.3 * columns[:, 2]
    relevant = rng.random(len(query)) < 1 / (1 + np.exp(-odds))
    given = rng.random(len(query)) < np.where(relevant, 0.4, 0.02)
    return columns, query, relevant, given, float((~relevant)[given].mean())


def test_bayes_turns_the_chance_by_scores_into_that_by_scores_and_label():
    found = by_label(np.array([0.5, 0.5, 0.1, 0.0]), np.array([True, False, True, True]), 0.8, 0.2)
    assert found.tolist() == pytest.approx([0.8, 0.2, 0.08 / (0.08 + 0.18), 0.0])
    sure = by_label(np.array([0.3, 0.3]), np.array([True, False]), 1.0, 0.0)
    assert sure.tolist() == [1.0, 0.0]
    assert by_label(np.array([0.3]), np.array([True]), 0.0, 0.0).tolist() == [0.3]  # a label that cannot be


def test_columns_are_standard_scores_and_distances_to_the_querys_best():
    score = np.array([1.0, 3.0, 2.0, 6.0])
    found = evidence([score, np.full(4, 7.0)], np.array([0, 0, 1, 1]))
    width = score.std()
    assert found[:, 0].tolist() == [1.0] * 4
    np.testing.assert_allclose(found[:, 1], (score - 3.0) / width)
    np.testing.assert_allclose(found[:, 2], np.array([-2.0, 0.0, -4.0, 0.0]) / width)
    assert not found[:, 3:].any()


def test_with_the_right_share_of_wrong_labels_it_is_calibrated_on_unseen_queries(world):
    columns, query, relevant, given, wrong = world
    found, models = cross_fitted(LabelledCandidates(columns, query, given, query % 2), wrong)
    assert 0.1 < wrong < 0.5 and len(models) == 2
    assert calibration_error(found, relevant) < 0.02
    for some in (given, ~given):
        assert calibration_error(found[some], relevant[some]) < 0.05
    assert models[0].right == pytest.approx(0.4, abs=0.08) and models[0].wrong == pytest.approx(0.02, abs=0.01)
    assert ranking_quality(found[given], relevant[given], query[given])["AUROC"] > 0.8


def test_what_a_wrong_pair_should_have_given_is_found_among_the_others():
    """One relevant document a query, the best by either score; two pairs in five give another."""
    rng = np.random.default_rng(2)
    query, place = np.repeat(np.arange(300), 20), np.tile(np.arange(20), 300)
    relevant = place == 0
    columns = evidence([rng.normal(0, 1, len(query)) + 4 * relevant for _ in range(2)], query)
    is_wrong = rng.random(300) < 0.4
    given = place == np.where(is_wrong, rng.integers(1, 20, 300), 0)[query]
    found, models = cross_fitted(LabelledCandidates(columns, query, given, query % 2), float(is_wrong.mean()))
    assert models[0].right == pytest.approx(0.6, abs=0.06)
    assert found[relevant & ~given].mean() > 0.9 and found[given & ~relevant].mean() < 0.1
    assert calibration_error(found, relevant) < 0.02


def test_labels_that_are_taken_for_right_are_believed_whole(world):
    columns, query, relevant, given, wrong = world
    found, _ = cross_fitted(LabelledCandidates(columns, query, given, query % 2), 0.0)
    assert (found[given] == 1.0).all()
    assert calibration_error(found[given], relevant[given]) == pytest.approx(wrong)


def test_judgements_of_a_few_queries_calibrate_it(world):
    columns, query, relevant, given, wrong = world
    few = query < 60
    judged = JudgedCandidates(columns[few], relevant[few], query[few] % 5)
    found, models = cross_fitted(LabelledCandidates(columns, query, given, query % 5), wrong, judged)
    assert len(models) == 5 and calibration_error(found, relevant) < 0.03
    assert calibration_error(found[given], relevant[given]) < 0.1


@pytest.mark.parametrize("by", ["labels", "judgements"])
def test_a_candidates_chance_is_by_a_model_that_saw_nothing_of_its_fold(world, by):
    columns, query, relevant, given, wrong = world
    few = query < 100
    columns, relevant, given, fold = columns[few], relevant[few], given[few], (query % 2)[few]
    changed = fold == 1

    def chances(labels, truth):
        judged = JudgedCandidates(columns, truth, fold) if by == "judgements" else None
        return cross_fitted(LabelledCandidates(columns, query[few], labels, fold), wrong, judged)[0]

    before = chances(given, relevant)
    rng = np.random.default_rng(0)
    labels, truth = given.copy(), relevant.copy()
    labels[changed], truth[changed] = (rng.permutation(values[changed]) for values in (given, relevant))
    after, as_before = chances(labels, truth), changed & (labels == given)
    np.testing.assert_array_equal(after[as_before], before[as_before])
    assert np.abs(after - before)[~changed].max() > 0.01


def test_the_calibration_error_is_the_mean_gap_of_the_tenths():
    chance, relevant = np.array([0.05, 0.05, 0.95, 1.0]), np.array([False, True, True, True])
    assert calibration_error(chance, relevant) == pytest.approx(2 / 4 * 0.45 + 2 / 4 * 0.025)
    assert calibration_error(np.array([]), np.array([], bool)) == 0.0
    assert curve(np.array([[1.0, 2.0]]), np.array([0.5, -1.0])).tolist() == pytest.approx([1 / (1 + exp(1.5))])
