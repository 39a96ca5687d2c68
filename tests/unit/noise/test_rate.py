"""The noise rate from random documents and from judgements, and its intervals."""

import numpy as np
import pytest
from scipy import stats

from noisyir.errors import ConfigError
from noisyir.noise.rate import noise_rate, noise_rate_interval, pairs_to_judge, rate_from_judgements


def simulated(count, rate, seed):
    rng = np.random.default_rng(seed)
    query = rng.normal(0, 0.5, count)  # a query's difficulty is shared by its score and its null score
    wrong = rng.random(count) < rate
    return np.where(wrong, 8, 0) + rng.normal(0, 1, count) + query, 8 + rng.normal(0, 1, count) + query


@pytest.mark.parametrize("rate", [0.05, 0.5, 0.8])
def test_the_interval_covers_the_rate_as_often_as_it_says(rate):
    covered = 0
    for seed in range(100):
        scores, null = simulated(1500, rate, seed)
        low, high = noise_rate_interval(scores, null, 0.9, 300, np.random.default_rng(seed))
        covered += low <= rate <= high
    assert 82 <= covered <= 98  # 90, and three standard deviations or so


@pytest.mark.parametrize("null_quantile", [0.1, 0.5, 0.9])
def test_the_binned_bootstrap_is_the_plain_one(null_quantile):
    scores, null = simulated(400, 0.4, 0)
    rng = np.random.default_rng(1)
    draws = (rng.integers(0, 400, 400) for _ in range(4000))
    plain = np.quantile([noise_rate(scores[rows], null[rows], null_quantile) for rows in draws], [0.025, 0.975])
    binned = noise_rate_interval(scores, null, 0.95, 4000, np.random.default_rng(2), null_quantile=null_quantile)
    assert binned == pytest.approx(plain, abs=0.015)


def test_many_pairs_of_one_score_are_one_bin_in_the_bootstrap():
    scores, null = np.repeat([0.0, 1.0], [70, 30]), np.ones(100)
    low, high = noise_rate_interval(scores, null, 0.95, 4000, np.random.default_rng(0))
    assert noise_rate(scores, null) == pytest.approx(0.3)
    assert (low, high) == pytest.approx(stats.binom(100, 0.3).ppf([0.025, 0.975]) / 100, abs=0.01)


def test_a_lower_quantile_sees_wrong_pairs_that_the_model_has_half_learnt():
    rng = np.random.default_rng(0)
    null = rng.normal(8, 1, 5000)
    scores = np.append(rng.normal(0, 1, 4000), rng.normal(7, 1, 1000))
    assert noise_rate(scores, null) < 0.08
    assert 0.12 < noise_rate(scores, null, 0.05) <= 0.2


def test_how_many_to_judge_is_cochrans_formula():
    assert pairs_to_judge(0.5, 0.05) == 385  # 1.96^2 / 4 / 0.05^2 = 384.1
    assert pairs_to_judge(0.2, 0.03) == 683  # 1.96^2 * 0.16 / 0.03^2 = 682.9
    assert pairs_to_judge(0.5, 0.05, pairs=1000) == 278  # 384.1 / (1 + 383.1 / 1000) = 277.7
    assert pairs_to_judge(0.5, 0.05, 0.99) == 664  # 2.576^2 / 4 / 0.05^2


def test_never_more_pairs_are_asked_for_than_there_are_and_never_none():
    assert pairs_to_judge(0.5, 0.01, pairs=5) == 5
    assert pairs_to_judge(0.0, 0.05) == pairs_to_judge(0.05, 0.05) == 73
    assert pairs_to_judge(0.5, 0.999) == 1


@pytest.mark.parametrize("error", [0, 1, -0.1])
def test_an_error_outside_zero_and_one_is_refused(error):
    with pytest.raises(ConfigError, match="between 0 and 1"):
        pairs_to_judge(0.5, error)


def test_one_stratum_gives_wilsons_interval():
    is_wrong = np.arange(50) < 12
    many = np.array([10**12])
    rate, low, high = rate_from_judgements(is_wrong, np.zeros(50, int), many)
    theirs = stats.binomtest(12, 50).proportion_ci(0.95, method="wilson")
    assert (rate, low, high) == pytest.approx((0.24, theirs.low, theirs.high), abs=1e-6)


def test_strata_count_by_their_size():
    is_wrong = np.array([True, True, False, False, False, False])
    stratum = np.array([0, 0, 1, 1, 1, 1])
    rate, low, high = rate_from_judgements(is_wrong, stratum, np.array([100, 900]))
    assert rate == pytest.approx(0.1)
    assert 0 <= low < 0.1 < high <= 1


def test_judging_every_pair_leaves_no_doubt():
    is_wrong = np.array([True, False, False, True])
    assert rate_from_judgements(is_wrong, np.array([0, 0, 1, 1]), np.array([2, 2])) == (0.5, 0.5, 0.5)


@pytest.mark.parametrize("shift", [0.0, 0.35])
def test_the_stratified_interval_covers_and_is_shorter_where_strata_differ(shift):
    """Ten strata of shares around 0.5, the same or from 0.15 to 0.85."""
    rng = np.random.default_rng(5)
    shares = np.linspace(0.5 - shift, 0.5 + shift, 10)
    stratum = np.repeat(np.arange(10), 20)
    covered, widths = 0, []
    for _ in range(400):
        _, low, high = rate_from_judgements(rng.random(200) < shares[stratum], stratum, np.full(10, 10**6))
        covered += low <= 0.5 <= high
        widths.append(high - low)
    assert covered >= 400 * 0.93
    simple = rate_from_judgements(np.arange(200) < 100, np.zeros(200, int), np.array([10**7]))
    ratio = np.mean(widths) / (simple[2] - simple[1])
    assert ratio < (0.95 if shift else 1.03)
