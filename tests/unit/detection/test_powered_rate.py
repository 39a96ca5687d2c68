"""The rate from a random sample that a model helps: never led astray, narrower where the model knows something."""

import math

import numpy as np
import pytest
from scipy.special import expit

from noisyir.base.errors import DataError
from noisyir.detection.calibration.fit import judge_all
from noisyir.detection.calibration.logistic import JudgedPairs
from noisyir.detection.rate import half_width, powered_rate, wilson

PAIRS = 3000


def answered(wrong, said, judged, rng, confidence=0.95):
    rows = rng.choice(len(wrong), judged, replace=False)
    everywhere = np.full(judged, said.mean())
    return powered_rate(wrong[rows], np.ones(judged), said[rows], everywhere, len(wrong), confidence)


def test_a_model_that_says_nothing_leaves_wilsons_interval_of_the_share():
    found = powered_rate(np.arange(100) < 30, np.ones(100), np.full(100, 0.7), np.full(100, 0.7), 10**9)
    assert found.value == pytest.approx(0.3)
    assert (found.low, found.high) == pytest.approx(wilson(0.3, 100, 0.95), abs=1e-6)


def test_a_model_that_knows_all_gives_the_rate_of_all():
    wrong = np.random.default_rng(0).random(PAIRS) < 0.3
    found = answered(wrong, wrong.astype(float), 100, np.random.default_rng(1))
    assert found.value == pytest.approx(wrong.mean()) and found.high - found.low < 0.03


@pytest.mark.parametrize("truth", [0.02, 0.3, 0.8])
@pytest.mark.parametrize("strength", [0.0, 1.0, 3.0])
def test_the_interval_covers_whatever_the_model_is_worth(truth, strength):
    rng = np.random.default_rng(0)
    wrong = rng.random(PAIRS) < truth
    said = np.clip(expit(rng.normal(size=PAIRS) + strength * (wrong - truth)) ** 2, 0, 1)  # ill calibrated, too
    found = [answered(wrong, said, 100, rng) for _ in range(500)]
    inside = np.mean([rate.low <= wrong.mean() <= rate.high for rate in found])
    assert inside >= 0.93
    assert np.mean([rate.value for rate in found]) == pytest.approx(wrong.mean(), abs=0.012)


def test_a_model_makes_the_interval_narrower_and_what_it_would_take_without_is_said():
    rng = np.random.default_rng(3)
    wrong = rng.random(PAIRS) < 0.4
    blind, seeing = (answered(wrong, expit(rng.normal(size=PAIRS) + s * wrong), 200, rng) for s in (0, 4))
    assert seeing.high - seeing.low < 0.8 * (blind.high - blind.low)
    assert seeing.size > 1.5 * blind.size > 200


@pytest.mark.parametrize("wrong", [0, 40])
def test_all_of_one_kind_leaves_an_interval(wrong):
    said = np.random.default_rng(0).random(40)
    found = powered_rate(np.arange(40) < wrong, np.ones(40), said, np.full(40, said.mean()), PAIRS)
    assert found.value == wrong / 40 and 0.05 < found.high - found.low < 0.2


def test_with_every_pair_judged_nothing_is_open():
    wrong = np.arange(20) < 5
    found = powered_rate(wrong, np.ones(20), np.full(20, 0.5), np.full(20, 0.5), 20)
    assert (found.low, found.high) == (found.value, found.value) == (0.25, 0.25)


def test_pairs_that_stand_for_many_count_for_many():
    wrong, weights = np.array([True] * 10 + [False] * 10), np.array([1.0] * 10 + [3.0] * 10)
    assert powered_rate(wrong, weights, np.full(20, 0.5), np.full(20, 0.5), PAIRS).value == pytest.approx(0.25)


def test_no_judgement_is_refused():
    with pytest.raises(DataError, match="drawn at random"):
        powered_rate(np.empty(0, bool), np.empty(0), np.empty(0), np.empty(0), 10)


def test_more_judgements_narrow_the_interval_by_the_root_of_their_number():
    found = powered_rate(np.arange(100) < 40, np.ones(100), np.full(100, 0.5), np.full(100, 0.5), 10**9)
    now, later = half_width(found, 100, 0, 10**9), half_width(found, 100, 300, 10**9)
    assert now == pytest.approx((found.high - found.low) / 2)
    assert later == pytest.approx(now / 2, rel=0.05)
    assert wilson(0.3, math.inf, 0.95) == (0.3, 0.3)


def test_the_rate_that_judgements_teach_covers_at_its_level():
    """End to end: the model is learnt from the very sample that the rate comes from, cross-fitted."""
    rng = np.random.default_rng(0)
    scores, features = rng.normal(size=1500), rng.normal(0, 0.3, size=(1500, 20))
    wrong, query = rng.random(1500) < expit(-0.3 + scores + 4 * features[:, 0]), np.arange(1500) // 2
    inside = []
    for _ in range(200):
        rows = rng.choice(1500, 100, replace=False)
        told = judge_all(scores, features, query, JudgedPairs(rows, wrong[rows], np.ones(100)))
        inside.append(told.rate.low <= wrong.mean() <= told.rate.high)
    assert np.mean(inside) >= 0.92
