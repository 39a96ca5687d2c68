"""At most so many of what is kept are wrong: the level holds, at every place of the curve at once."""

import numpy as np
import pytest
from scipy.stats import beta

from noisyir.base.errors import DataError
from noisyir.detection.calibration.fit import judge_all
from noisyir.detection.calibration.logistic import JudgedPairs
from noisyir.detection.calibration.sample import draw_sample
from noisyir.detection.guarantee import guarantee, judgements_needed, upper_band

AUDITS = 1000


def audits(count=3000, seed=0):
    rng = np.random.default_rng(seed)
    suspicion = rng.random(count)
    return suspicion, rng.random(count) < 0.9 * suspicion**3, rng


def is_broken(found, suspicion, wrong):
    """Whether more is wrong than the bound says, anywhere."""
    truth = np.cumsum(wrong[np.argsort(suspicion)])[found.kept - 1] / found.kept
    return bool((truth > found.bound).any())


@pytest.mark.parametrize("judged", [30, 120])
def test_the_bound_is_broken_in_at_most_the_stated_share_of_audits(judged):
    suspicion, wrong, rng = audits()
    broken = 0
    for _ in range(AUDITS):
        rows = rng.choice(len(wrong), judged, replace=False)
        broken += is_broken(guarantee(suspicion, rows, wrong[rows]), suspicion, wrong)
    assert broken / AUDITS <= 0.1


def test_it_is_broken_no_more_often_with_a_sample_stratified_by_the_order():
    suspicion, wrong, rng = audits(seed=1)
    broken = 0
    for _ in range(AUDITS):
        rows = draw_sample(suspicion, 60, rng).rows
        broken += is_broken(guarantee(suspicion, rows, wrong[rows]), suspicion, wrong)
    assert broken / AUDITS <= 0.1


def test_it_holds_in_the_order_that_the_judgements_themselves_taught():
    rng = np.random.default_rng(2)
    count, broken, runs = 1200, 0, 150
    features, scores = rng.normal(0, 0.3, size=(count, 40)), rng.normal(size=count)
    wrong = rng.random(count) < 1 / (1 + np.exp(1.5 - scores - 6 * features[:, 0]))
    for _ in range(runs):
        rows = rng.choice(count, 80, replace=False)
        told = judge_all(scores, features, np.arange(count), JudgedPairs(rows, wrong[rows], np.ones(80)))
        broken += is_broken(told.guarantee, told.lesson.suspicion, wrong)
    assert broken / runs <= 0.1


@pytest.mark.parametrize("judged", [1, 7, 60])
def test_the_band_holds_all_of_the_uniform_numbers_at_exactly_its_level(judged):
    numbers = np.sort(np.random.default_rng(0).random((20_000, judged)), axis=1)
    held = (numbers <= upper_band(judged, 0.9)[:judged]).all(axis=1).mean()
    assert held == pytest.approx(0.9, abs=4 * np.sqrt(0.09 / 20_000))


def test_the_band_grows_with_the_count_and_lies_above_the_bound_of_one_place_alone():
    band = upper_band(50, 0.9)
    assert (np.diff(band) >= 0).all() and band[-1] == 1
    alone = beta.ppf(0.9, np.arange(50) + 1, 50 - np.arange(50))
    assert (band[:50] > alone).all() and band[0] < 1.5 * alone[0]


def test_more_judgements_allow_to_keep_more():
    suspicion, wrong, rng = audits()
    few, many = (guarantee(suspicion, rows, wrong[rows]) for rows in (rng.permutation(3000)[:n] for n in (60, 900)))
    assert many.most(0.1)[0] > few.most(0.1)[0]
    kept, bound = many.most(0.1)
    assert bound <= 0.1 and wrong[np.argsort(suspicion)[:kept]].mean() <= bound
    assert few.most(0.0) is None and many.most(1.0)[0] == 3000


def test_pairs_of_one_suspicion_are_kept_together():
    suspicion = np.repeat([0.0, 1.0], 50)
    found = guarantee(suspicion, np.arange(0, 100, 5), np.zeros(20, bool))
    assert found.kept.tolist() == [50, 100]


def test_how_many_judgements_would_be_needed_is_the_least_number():
    needed = judgements_needed(0.1, 0.5)
    assert upper_band(needed, 0.9)[0] <= 0.05 < upper_band(needed - 1, 0.9)[0]


def test_no_judgements_give_no_guarantee():
    with pytest.raises(DataError):
        guarantee(np.arange(5.0), np.empty(0, int), np.empty(0, bool))
