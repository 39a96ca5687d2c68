"""Learning from a few judgements: from the label-free order, never to a worse one, and by no pair's own query."""

from statistics import NormalDist

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from noisyir.base.errors import DataError
from noisyir.detection.calibration import logistic as judged_module
from noisyir.detection.calibration.logistic import (
    GAIN_CONFIDENCE,
    Gain,
    JudgedPairs,
    Prior,
    auroc,
    learn,
    most_likely_weights,
)
from noisyir.detection.rate import Interval


def world(count=2000, seed=0, strength=1.5, columns=30):
    """Pairs whose log odds of being wrong are half told by the score, and, `strength`, by the first of the features."""
    rng = np.random.default_rng(seed)
    scores, features = rng.normal(size=count), rng.normal(0, 0.3, size=(count, columns))
    odds = -0.5 + scores + strength / 0.3 * features[:, 0]
    return scores, features, rng.integers(0, count // 2, count), rng.random(count) < expit(odds)


def drawn(wrong, judged, seed=0):
    rows = np.random.default_rng(seed).choice(len(wrong), judged, replace=False)
    return JudgedPairs(rows, wrong[rows], np.ones(judged))


def test_the_weights_are_those_of_the_highest_posterior():
    rng = np.random.default_rng(0)
    columns, wrong = rng.normal(size=(60, 5)), rng.random(60) < 0.4
    prior = Prior(np.array([0.0, 1, 0, 0, 0]), np.array([0.25, 4, 10, 10, 10]))

    def loss(weights):
        odds = columns @ weights
        fit = np.logaddexp(0, np.where(wrong, -odds, odds)).sum()
        return fit + prior.precision @ (weights - prior.mean) ** 2 / 2

    found = minimize(loss, prior.mean, method="BFGS", options={"gtol": 1e-8}).x
    np.testing.assert_allclose(most_likely_weights(columns, wrong, prior), found, atol=1e-5)


def test_without_rows_the_prior_stays():
    prior = Prior(np.array([0.5, 1.0]), np.ones(2))
    assert most_likely_weights(np.empty((0, 2)), np.empty(0, bool), prior).tolist() == [0.5, 1.0]


def test_far_from_the_prior_newton_still_arrives():
    columns, wrong = np.column_stack([np.ones(400), np.linspace(-50, 50, 400)]), np.arange(400) >= 390
    weights = most_likely_weights(columns, wrong, Prior(np.zeros(2), np.full(2, 1e-3)))
    slope = columns.T @ (expit(columns @ weights) - wrong) + 1e-3 * weights
    assert np.abs(slope).max() < 1e-3


def test_judgements_teach_what_the_score_does_not_know():
    scores, features, query, wrong = world()
    lesson = learn(scores, features, query, drawn(wrong, 200))
    before, after = auroc(scores, wrong).value, auroc(lesson.suspicion, wrong).value
    assert lesson.improves and after > before + 0.05
    assert lesson.gain.at_least > 0 and lesson.advice().startswith("Judgements improve the order")


def test_the_cross_validated_auroc_is_that_of_all_pairs():
    inside = []
    for seed in range(60):
        scores, features, query, wrong = world(seed=seed)
        lesson = learn(scores, features, query, drawn(wrong, 100, seed))
        inside.append(lesson.order.low <= auroc(lesson.suspicion, wrong).value <= lesson.order.high)
    assert np.mean(inside) >= 0.9


def test_the_gain_is_the_share_of_log_loss_that_is_gone():
    plain, taught = np.array([0.5, 0.7, 0.9, 0.3]), np.array([0.4, 0.7, 0.6, 0.3])
    gained, found = plain - taught, judged_module._share_gained(plain, taught)
    half = 1.5 * NormalDist().inv_cdf(0.8) * gained.std(ddof=1) / 2
    assert found == pytest.approx((gained.mean() / plain.mean(), (gained.mean() - half) / plain.mean()))


def test_the_gain_on_all_pairs_is_at_least_what_is_said_at_its_level():
    inside = []
    for seed in range(60):
        scores, features, query, wrong = world(seed=seed)
        answers, every = drawn(wrong, 150, seed), JudgedPairs(np.arange(len(wrong)), wrong, np.ones(len(wrong)))
        fold, level = judged_module._folds(query, answers), np.column_stack([np.ones(len(scores)), scores])
        odds = [
            judged_module._own(judged_module._cross_fitted(columns, fold, answers, 0.3), fold)
            for columns in (level, np.column_stack([level, features]))
        ]
        found, true = (
            judged_module._share_gained(*(judged_module._losses(one, judged) for one in odds))
            for judged in (answers, every)
        )
        inside.append(found.at_least <= true.value)
    assert np.mean(inside) >= GAIN_CONFIDENCE


def test_where_features_tell_nothing_the_label_free_order_stays_to_the_bit():
    kept = 0
    for seed in range(8):
        scores, features, query, wrong = world(seed=seed, strength=0.0)
        lesson = learn(scores, features, query, drawn(wrong, 200, seed))
        if not lesson.improves:
            kept += 1
            np.testing.assert_array_equal(lesson.suspicion, scores)
            assert lesson.gain.at_least <= 0 and "order stays" in lesson.advice()
        assert auroc(lesson.suspicion, wrong).value > auroc(scores, wrong).value - 0.02
    assert kept >= 6


@pytest.mark.parametrize("judged", [0, 3, 19])
def test_few_judgements_leave_the_order_and_say_so(judged):
    scores, features, query, wrong = world(300)
    lesson = learn(scores, features, query, drawn(wrong, judged))
    np.testing.assert_array_equal(lesson.suspicion, scores)
    assert (np.diff(lesson.p_wrong[np.argsort(scores)]) >= 0).all()
    assert lesson.order is None and "Too few" in lesson.advice()


def test_verdicts_of_one_kind_alone_move_the_level_and_break_nothing():
    scores, features, query, _ = world(300)
    none, every = (learn(scores, features, query, drawn(np.full(300, said), 60)) for said in (False, True))
    assert none.p_wrong.mean() < 0.15 and every.p_wrong.mean() > 0.85 and not none.improves


def test_chances_are_calibrated_on_the_pairs_drawn_at_random():
    scores, features, query, wrong = world(6000, seed=2)
    rows = np.random.default_rng(0).choice(6000, 400, replace=False)
    answers = JudgedPairs(rows, wrong[rows], np.ones(400))
    lesson = learn(scores, features, query, answers)
    assert lesson.p_wrong.mean() == pytest.approx(wrong.mean(), abs=0.05)
    for part in np.array_split(np.argsort(lesson.p_wrong), 5):
        assert lesson.p_wrong[part].mean() == pytest.approx(wrong[part].mean(), abs=0.1)


def test_no_verdict_touches_the_order_of_its_own_querys_fold(monkeypatch):
    """A pair's own query's verdicts must not say how suspect it is, only, together, whether features count at all."""
    monkeypatch.setattr(judged_module, "_VARIANCES", (0.3,))
    monkeypatch.setattr(judged_module, "_share_gained", lambda plain, taught: Gain(1.0, 1.0))
    monkeypatch.setattr(judged_module, "auroc", lambda suspicion, is_wrong: Interval(1.0, 1.0, 1.0))
    scores, features, query, wrong = world(400)
    answers = drawn(wrong, 100)
    lesson = learn(scores, features, query, answers)
    mine = lesson.fold == lesson.fold[answers.rows[0]]
    turned = np.where(mine[answers.rows], ~answers.is_wrong, answers.is_wrong)
    again = learn(scores, features, query, JudgedPairs(answers.rows, turned, answers.weights))
    np.testing.assert_array_equal(again.fold, lesson.fold)
    np.testing.assert_array_equal(again.chance[mine], lesson.chance[mine])
    assert (again.chance[~mine] != lesson.chance[~mine]).any()
    assert len(np.unique(query[mine])) + len(np.unique(query[~mine])) == len(np.unique(query))


def test_only_the_ranks_of_scores_count_and_the_order_of_answers_does_not():
    scores, features, query, wrong = world(500)
    answers = drawn(wrong, 80)
    lesson = learn(scores, features, query, answers)
    np.testing.assert_allclose(learn(np.exp(scores), features, query, answers).p_wrong, lesson.p_wrong)
    turned = JudgedPairs(answers.rows[::-1], answers.is_wrong[::-1], answers.weights[::-1])
    np.testing.assert_allclose(learn(scores, features, query, turned).p_wrong, lesson.p_wrong, atol=1e-9)


def test_a_score_that_is_no_number_is_refused():
    scores, features, query, wrong = world(50)
    scores[3] = np.nan
    with pytest.raises(DataError):
        learn(scores, features, query, drawn(wrong, 10))


def test_auroc_is_the_share_of_pairs_in_order_and_its_interval_covers():
    suspicion, wrong = np.array([1.0, 2, 2, 3]), np.array([False, True, False, True])
    assert auroc(suspicion, wrong).value == (1 + 0.5 + 1 + 1) / 4
    assert auroc(suspicion, np.zeros(4, bool)) is None
    perfect = auroc(np.arange(20.0), np.arange(20) >= 10)
    assert perfect.value == 1 and perfect.low < 0.95 and perfect.high <= 1


def test_the_interval_of_auroc_covers_at_its_level():
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(400):
        wrong = rng.random(80) < 0.3
        found = auroc(rng.normal(size=80) + wrong, wrong)
        inside += found.low <= 0.7602 <= found.high  # the chance that N(1, 1) exceeds N(0, 1)
    assert 0.92 <= inside / 400 <= 0.985
