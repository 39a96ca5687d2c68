"""Samples to judge by hand, and what the judgements give back."""

import numpy as np
import pytest

from noisyir.base.errors import DataError
from noisyir.detection.calibration.sample import draw_sample, recalibrate, strata_by_score


def pairs(count=20_000, seed=0):
    """Scores whose log odds of being wrong are 2 s - 1."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(0, 1, count)
    return scores, rng.random(count) < 1 / (1 + np.exp(1 - 2 * scores))


@pytest.mark.parametrize(("count", "size"), [(1000, 100), (1003, 57), (25, 24), (9, 5), (5, 50), (100, 1), (14, 13)])
def test_a_sample_has_the_size_asked_for_spread_over_the_scores_and_stands_for_all(count, size):
    scores = np.random.default_rng(0).normal(size=count)
    sample = draw_sample(scores, size, np.random.default_rng(1))
    assert len(sample.rows) == len(set(sample.rows.tolist())) == min(size, count)
    assert sample.weights.sum() == pytest.approx(count)
    per_tenth = np.bincount(strata_by_score(scores, min(10, size, count))[sample.rows])
    assert per_tenth.min() >= 1 and per_tenth.max() - per_tenth.min() <= 2
    assert (np.diff(scores[sample.rows]) < 0).any() or size < 6, "in an order that does not give the score away"


def test_a_sample_of_none_is_empty():
    assert not len(draw_sample(np.arange(5.0), 0, np.random.default_rng(0)).rows)


def test_the_weighted_mean_of_samples_is_right_on_average():
    scores, wrong = pairs(2003)
    rng = np.random.default_rng(0)
    samples = [draw_sample(scores, 37, rng) for _ in range(500)]
    means = [np.average(wrong[sample.rows], weights=sample.weights) for sample in samples]
    assert np.mean(means) == pytest.approx(wrong.mean(), abs=4 * np.std(means) / np.sqrt(500))


def test_the_seed_decides_the_sample():
    scores, _ = pairs(500)
    one, again, other = (draw_sample(scores, 40, np.random.default_rng(seed)).rows.tolist() for seed in (1, 1, 2))
    assert one == again != other


def test_strata_are_of_equal_size_and_ordered_by_score():
    scores = np.random.default_rng(0).normal(size=103)
    stratum = strata_by_score(scores, 10)
    assert set(np.bincount(stratum).tolist()) == {10, 11}
    assert (np.diff(stratum[np.argsort(scores)]) >= 0).all()


def test_judgements_give_threshold_probabilities_and_rate_back():
    scores, wrong = pairs()
    rows = draw_sample(scores, 2000, np.random.default_rng(3)).rows
    found = recalibrate(scores, rows, wrong[rows])
    assert found.threshold == pytest.approx(0.5, abs=0.12)  # 2 s - 1 = 0
    assert found.low <= wrong.mean() <= found.high and found.high - found.low < 0.05
    at = np.array([-1.0, 0.0, 1.0])
    np.testing.assert_allclose(found.p_wrong(at), 1 / (1 + np.exp(1 - 2 * at)), atol=0.06)
    assert found.p_wrong(np.array([found.threshold]))[0] == pytest.approx(0.5)


def test_a_stricter_threshold_flags_at_a_lower_score():
    scores, wrong = pairs(2000)
    rows = np.arange(400)
    loose, even, strict = (recalibrate(scores, rows, wrong[rows], threshold) for threshold in (0.2, 0.5, 0.8))
    assert strict.threshold < even.threshold < loose.threshold
    assert strict.p_wrong(np.array([strict.threshold]))[0] == pytest.approx(0.2)
    assert recalibrate(scores, rows, wrong[rows], 0.0).threshold == np.inf


def test_judging_only_suspects_does_not_inflate_the_rate():
    scores, wrong = pairs(20_000)
    by_score = np.argsort(scores)
    rows = np.concatenate([by_score[-400:], np.random.default_rng(0).choice(20_000, 200, replace=False)])
    rows = np.unique(rows)
    assert wrong[rows].mean() > 0.6 > wrong.mean()
    found = recalibrate(scores, rows, wrong[rows])
    assert found.rate == pytest.approx(wrong.mean(), abs=0.08)


def test_a_handful_of_judgements_is_enough_to_answer():
    found = recalibrate(np.arange(100.0), [5, 20, 80], np.array([False, False, True]))
    assert 20 < found.threshold < 80 and found.low < found.rate < found.high


@pytest.mark.parametrize(("verdict", "kind"), [(True, "wrong"), (False, "clean")])
def test_judgements_of_one_kind_are_refused(verdict, kind):
    with pytest.raises(DataError, match=f"all 4 judged pairs are {kind}"):
        recalibrate(np.arange(10.0), np.arange(4), np.full(4, verdict))


@pytest.mark.parametrize("scores", [np.arange(100.0), np.ones(100)])
def test_judgements_that_contradict_the_scores_are_refused(scores):
    with pytest.raises(DataError, match="do not score higher"):
        recalibrate(scores, np.arange(0, 100, 5), np.arange(20) < 10)
