"""Labels split between a judge's two errors, how near they bring a rate, and her calibration."""

import math

import numpy as np
import pytest

from noisyir.detection.calibration.judge_error import (
    JudgeError,
    calibration,
    calibration_split,
    rate_behind,
    reach_of_error,
    reach_of_sample,
)
from noisyir.detection.rate import wilson

SEEDS = 2000


def interval_as_published(p, q0, q1, n, m0, m1, z=1.959963984540054):
    """Lee et al., arXiv:2511.21140, Eq. 4 to 7, in their words: q1 is of the kind whose share is told."""
    theta_hat = (p + q0 - 1) / (q0 + q1 - 1)
    p_, q0_, q1_ = (n * p + z**2 / 2) / (n + z**2), (m0 * q0 + 1) / (m0 + 2), (m1 * q1 + 1) / (m1 + 2)
    theta = (p_ + q0_ - 1) / (q0_ + q1_ - 1)
    v0, v1 = q0_ * (1 - q0_) / (m0 + 2), q1_ * (1 - q1_) / (m1 + 2)
    shift = 2 * z**2 * (-(1 - theta) * v0 + theta * v1)
    error = math.sqrt(p_ * (1 - p_) / (n + z**2) + (1 - theta) ** 2 * v0 + theta**2 * v1) / (q0_ + q1_ - 1)
    return [min(max(value, 0), 1) for value in (theta_hat, theta + shift - z * error, theta + shift + z * error)]


@pytest.mark.parametrize(
    "found", [(0.4, 0.7, 0.9, 1000, 200, 200), (0.1, 0.95, 0.6, 300, 40, 12), (0.8, 0.8, 0.9, 50, 10, 30)]
)
def test_the_interval_is_the_published_one(found):
    p, q0, q1, n, m0, m1 = found
    assert rate_behind(p, n, JudgeError(q1, m1, q0, m0)) == pytest.approx(interval_as_published(*found))


@pytest.mark.parametrize(
    ("labels", "p", "sensitivity", "specificity", "expected"),
    [
        (200, 0.5, 0.9, 0.9, 100),  # equal errors, equal shares
        (200, 0.4, 0.9, 0.7, round(200 / (1 + 1.5 * math.sqrt(((10 * 0.3 + 1) / 12) / ((10 * 0.1 + 1) / 12))))),
        (200, 0.0, 0.9, 0.9, 10),
        (200, 1.0, 0.9, 0.9, 190),
    ],
)
def test_labels_are_split_as_the_algorithm_says(labels, p, sensitivity, specificity, expected):
    wrong, clean = calibration_split(labels, p, JudgeError(sensitivity, 10, specificity, 10), 10)
    assert (wrong, clean) == (expected, labels - expected)
    with pytest.raises(ValueError, match="do not hold"):
        calibration_split(19, p, JudgeError(sensitivity, 10, specificity, 10), 10)


@pytest.mark.parametrize(
    ("rate", "sensitivity", "specificity", "narrower"),
    [(0.1, 0.8, 0.9, True), (0.3, 0.9, 0.7, True), (0.5, 0.85, 0.85, False), (0.15, 0.95, 0.7, True)],
)
def test_split_labels_keep_the_interval_s_promise_and_make_it_narrower(rate, sensitivity, specificity, narrower):
    """A pilot of ten labels of either kind, then 100 in all: the pilot's errors decide, and count again."""
    rng, labels, asked = np.random.default_rng(0), 100, 2000
    said = rng.binomial(asked, rate * sensitivity + (1 - rate) * (1 - specificity), SEEDS) / asked
    found, passed = rng.binomial(10, sensitivity, SEEDS), rng.binomial(10, specificity, SEEDS)
    held, widths, even = 0, [], []
    for share, hits, passes in zip(said.tolist(), found.tolist(), passed.tolist(), strict=True):
        wrong, clean = calibration_split(labels, share, JudgeError(hits / 10, 10, passes / 10, 10), 10)
        more = hits + rng.binomial(wrong - 10, sensitivity), passes + rng.binomial(clean - 10, specificity)
        error = JudgeError(more[0] / wrong, wrong, more[1] / clean, clean)
        other = JudgeError(rng.binomial(50, sensitivity) / 50, 50, rng.binomial(50, specificity) / 50, 50)
        if min(error.sensitivity + error.specificity, other.sensitivity + other.specificity) <= 1:
            continue
        interval, half = rate_behind(share, asked, error), rate_behind(share, asked, other)
        held += interval.low <= rate <= interval.high
        widths.append(interval.high - interval.low)
        even.append(half.high - half.low)
    assert held / len(widths) >= 0.94
    assert np.mean(widths) < (0.97 if narrower else 1.02) * np.mean(even)


def test_a_sample_s_reach_is_the_interval_s_and_shrinks_with_labels():
    rng = np.random.default_rng(0)
    wrong = rng.random(200) < 0.3
    says = np.where(wrong, rng.random(200) < 0.9, rng.random(200) > 0.9).astype(float)
    found = reach_of_sample(wrong, says)
    low, high = wilson(float(wrong.mean()), 200, 0.95)
    assert found.alone == pytest.approx((high - low) / 2) and found.limit < 0.8 * found.alone
    assert reach_of_sample(wrong, np.full(200, 0.5)).limit == pytest.approx(found.alone, rel=0.02)
    assert reach_of_sample(wrong, says, labels=800).limit == pytest.approx(found.limit / 2, rel=0.03)


def test_the_reach_of_an_error_is_what_the_judge_s_own_sample_leaves():
    error = JudgeError(0.8, 50, 0.9, 50)
    interval = rate_behind(0.3, 10**7, error)
    assert reach_of_error(0.3, error).limit == pytest.approx((interval.high - interval.low) / 2, abs=1e-3)


def drawn(rng, size, slope=1.0, level=0.0):
    odds = rng.normal(0, 1.5, size)
    return 1 / (1 + np.exp(-odds)), rng.random(size) < 1 / (1 + np.exp(-level - slope * odds))


@pytest.mark.parametrize("size", [30, 100, 400])
def test_a_perfect_judge_is_rejected_as_often_as_the_test_says_and_its_error_is_chance_s(size):
    rng = np.random.default_rng(0)
    found = [calibration(*drawn(rng, size)) for _ in range(300)]
    assert np.mean([one.p < 0.05 for one in found]) < 0.085
    assert np.mean([one.error for one in found]) == pytest.approx(np.mean([one.by_chance for one in found]), rel=0.15)
    assert all(sum(group.pairs for group in one.groups) == size and len(one.groups) <= 5 for one in found)


@pytest.mark.parametrize(("slope", "level"), [(0.4, 0.0), (1.0, 1.0), (2.5, 0.0)])
def test_a_judge_that_is_too_sure_not_sure_enough_or_biased_is_found_out(slope, level):
    rng = np.random.default_rng(0)
    found = [calibration(*drawn(rng, 300, slope, level)) for _ in range(100)]
    assert np.mean([one.p < 0.05 for one in found]) > 0.9
    assert np.mean([one.error - one.by_chance for one in found]) > 0.03


def test_groups_are_counted_by_hand():
    said = np.array([0.1] * 10 + [0.8] * 10)
    wrong = np.array([True] * 2 + [False] * 8 + [True] * 6 + [False] * 4)
    found = calibration(said, wrong)
    assert [(group.pairs, group.says, group.wrong) for group in found.groups] == [
        (10, pytest.approx(0.1), 0.2), (10, pytest.approx(0.8), 0.6)
    ]  # fmt: skip
    assert found.error == pytest.approx((0.1 + 0.2) / 2)


def test_a_judge_that_is_always_sure_and_right_is_calibrated():
    found = calibration(np.array([0.0, 1.0] * 20), np.array([False, True] * 20))
    assert found.error == 0 and found.p > 0.9
    assert calibration(np.array([0.0, 1.0] * 20), np.array([True, False] * 20)).p < 1e-6
