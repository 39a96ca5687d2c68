"""The rate by a judge that errs: exact where the error is known, and as sure as it says by simulation."""

import numpy as np
import pytest

from noisyir.detection.calibration.judge_error import JudgeError, judge_error, rate_behind
from noisyir.detection.rate import powered_rate, wilson

SEEDS = 2000


def test_the_error_is_counted_by_people():
    says = np.array([1, 1, 0, 0, 0, 1, 0], bool)
    wrong = np.array([1, 1, 1, 0, 0, 0, 0], bool)
    assert judge_error(says, wrong) == JudgeError(2 / 3, 3, 3 / 4, 4)
    nobody = judge_error(says[:0], wrong[:0])
    assert nobody.wrong == nobody.clean == 0 and np.isnan(nobody.sensitivity) and not nobody.can_be_corrected_for


@pytest.mark.parametrize(
    ("error", "can"),
    [
        (JudgeError(0.9, 10, 0.9, 10), True),
        (JudgeError(0.9, 9, 0.9, 200), False),
        (JudgeError(0.9, 200, 0.9, 9), False),
        (JudgeError(0.5, 50, 0.5, 50), False),
        (JudgeError(0.2, 50, 0.7, 50), False),
    ],
)
def test_a_judge_is_corrected_for_where_enough_is_known_of_her(error, can):
    assert error.can_be_corrected_for is can


@pytest.mark.parametrize("true", [0.0, 0.05, 0.3, 0.9, 1.0])
def test_a_known_error_is_taken_out_exactly(true):
    error = JudgeError(0.8, 10**6, 0.9, 10**6)
    found = rate_behind(0.8 * true + 0.1 * (1 - true), 10**7, error)
    assert found.value == pytest.approx(true) and found.low <= true + 1e-3 and found.high >= true - 1e-3
    assert found.high - found.low < 0.01


def test_a_perfect_judge_leaves_the_rate():
    low, high = wilson(0.3, 500, 0.95)
    found = rate_behind(0.3, 500, JudgeError(1.0, 10**9, 1.0, 10**9))
    assert found.value == pytest.approx(0.3)
    assert (found.low, found.high) == (pytest.approx(low, abs=2e-3), pytest.approx(high, abs=2e-3))


def test_rates_stay_shares_and_coins_are_refused():
    assert rate_behind(0.0, 100, JudgeError(0.8, 50, 0.9, 50)).value == 0
    assert rate_behind(1.0, 100, JudgeError(0.8, 50, 0.9, 50)).value == 1
    with pytest.raises(ValueError, match="no better than a coin"):
        rate_behind(0.3, 100, JudgeError(0.4, 50, 0.6, 50))
    barely = rate_behind(0.5, 100, JudgeError(0.6, 5, 0.45, 11))
    assert barely.low == 0 and barely.high == 1


@pytest.mark.parametrize(
    ("rate", "sensitivity", "specificity", "asked", "judged"),
    [(0.3, 0.8, 0.9, 500, 200), (0.1, 0.8, 0.9, 500, 200), (0.5, 0.95, 0.95, 100, 60)],
)
def test_the_interval_behind_a_judge_holds_the_rate_as_often_as_it_says(rate, sensitivity, specificity, asked, judged):
    rng = np.random.default_rng(0)
    said = rng.binomial(asked, rate * sensitivity + (1 - rate) * (1 - specificity), SEEDS) / asked
    wrong = np.clip(rng.binomial(judged, rate, SEEDS), 10, judged - 10)
    found, passed = rng.binomial(wrong, sensitivity), rng.binomial(judged - wrong, specificity)
    held = 0
    for share, bad, hits, passes in zip(said, wrong.tolist(), found.tolist(), passed.tolist(), strict=True):
        good = judged - bad
        interval = rate_behind(float(share), asked, JudgeError(hits / bad, bad, passes / good, good))
        held += interval.low <= rate <= interval.high
    assert 0.93 <= held / SEEDS <= 0.97


def drawn(rng, size, rate, sensitivity, specificity):
    wrong = rng.random(size) < rate
    return wrong, np.where(wrong, rng.random(size) < sensitivity, rng.random(size) > specificity).astype(float)


def helped(others, model, people):
    """People's rate on a sample, helped by a judge who was asked about them and about others drawn at random."""
    unsure = others.var() / len(others)
    everywhere = np.full(len(people), others.mean())
    return powered_rate(people, np.ones(len(people)), model, everywhere, np.inf, unsure=unsure)


def powered(seed, rate, sensitivity, specificity, judged, others):
    rng = np.random.default_rng(seed)
    people, model = drawn(rng, judged, rate, sensitivity, specificity)
    return helped(drawn(rng, others, rate, sensitivity, specificity)[1], model, people), people


@pytest.mark.parametrize(
    ("rate", "sensitivity", "specificity", "judged", "others"),
    [(0.3, 0.8, 0.9, 100, 1000), (0.1, 0.8, 0.9, 200, 2000), (0.4, 0.5, 0.5, 50, 500), (0.43, 0.97, 0.97, 100, 300)],
)
def test_the_prediction_powered_interval_holds_the_rate_as_often_as_it_says(
    rate, sensitivity, specificity, judged, others
):
    """Also with a judge that only guesses; and a useful one narrows it."""
    found = [powered(seed, rate, sensitivity, specificity, judged, others) for seed in range(SEEDS)]
    assert 0.93 <= np.mean([one.low <= rate <= one.high for one, _ in found]) <= 0.97
    assert abs(np.mean([one.value for one, _ in found]) - rate) < 0.005
    alone = np.mean([np.diff(wilson(people.mean(), judged, 0.95)) for _, people in found])
    width = np.mean([one.high - one.low for one, _ in found])
    assert width < 0.9 * alone if sensitivity > 0.5 else width == pytest.approx(alone, rel=0.02)


def test_a_model_that_tells_nothing_leaves_what_people_say():
    people = np.arange(60) % 3 == 0
    for says in (0.0, 0.5, 1.0):
        found = helped(np.full(500, says), np.full(60, says), people)
        assert found[:3] == (pytest.approx(1 / 3), *map(pytest.approx, wilson(1 / 3, 60, 0.95)))
    contrary = helped(np.arange(500) % 2.0, 1.0 - people, people)  # one that says the opposite
    assert contrary.value == pytest.approx(1 / 3)


def test_agreement_of_all_is_no_certainty():
    found = helped(np.zeros(1000), np.zeros(40), np.zeros(40, bool))
    assert found.value == 0 and found.high == pytest.approx(wilson(0, 40, 0.95)[1])


def test_the_simulation_by_hand():
    """Written another way: the two means, the part of least variance, by a search over parts."""
    rng = np.random.default_rng(3)
    people, model = drawn(rng, 80, 0.3, 0.85, 0.9)
    _, others = drawn(rng, 900, 0.3, 0.85, 0.9)
    parts = np.linspace(0, 1, 100_001)
    y, f = people.astype(float), model
    cov = np.mean(y * f) - y.mean() * f.mean()
    variance = parts**2 * (others.var() / 900 + f.var() / 80) - 2 * parts * cov / 80
    best = parts[np.argmin(variance)]
    expected = best * others.mean() + np.mean(y - best * f)
    assert 0.3 < best < 1
    assert helped(others, model, people).value == pytest.approx(expected, abs=1e-5)
