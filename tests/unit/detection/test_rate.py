"""The noise rate from made-up documents and from judgements, and its intervals."""

import numpy as np
import pytest
from scipy import stats

from noisyir.base.errors import ConfigError
from noisyir.detection.null import RankShares
from noisyir.detection.rate import RateByNull, best_fit, pairs_to_judge, rate_by_null, rate_from_judgements, rate_range


def shares(values, counts, draws=9):
    """So many pairs of each share."""
    low = np.repeat(values, counts)
    return RankShares(low - 1e-9, low + 1e-9, draws)


def test_the_interval_holds_the_counts_of_wrong_pairs_that_explain_what_was_seen():
    found = rate_by_null(shares([0.1, 0.6, 0.9], [800, 100, 100]))
    assert found.rate == 0.4 and found.counted == 200 and found.tail == 0.5 and found.fit == 1.0
    for end in (0.95 * found.low + 0.05, found.high):  # |X - W / 2| = z sqrt(W) / 2; low is less 5 % of right pairs
        assert abs(200 - 1000 * end / 2) == pytest.approx(1.959964 * np.sqrt(1000 * end) / 2)


def test_more_right_pairs_look_like_neighbours_than_like_random_documents():
    values = shares([0.1, 0.6, 0.9], [800, 100, 100])
    random, near = (rate_by_null(values, null=null) for null in ("random", "near"))
    assert 0.8 * near.low + 0.2 == pytest.approx(0.95 * random.low + 0.05)
    assert (near.rate, near.high) == (random.rate, random.high)


def test_the_check_is_the_binomial_test_of_the_upper_quarter():
    found = rate_by_null(shares([0.1, 0.6, 0.9], [800, 120, 80]))
    assert found.tail == 0.4 and found.fit == pytest.approx(2 * stats.norm.sf(40 / np.sqrt(200)))
    assert found.z == pytest.approx(-40 / np.sqrt(200))
    assert np.isnan(rate_by_null(shares([0.1, 0.6, 0.9], [800, 120, 80], draws=1)).fit)


def test_of_no_pair_nothing_is_said():
    assert rate_by_null(shares([0.1], [0])) is None


def test_the_half_that_fits_best_is_told_from_made_up_pairs_without_the_rate():
    rng = np.random.default_rng(0)
    noise, strong = rng.random(4000), np.concatenate([rng.random(2000), 0.02 * rng.random(2000)])
    far = [rate_by_null(shares(values, 1, draws=10**6)).trusted for values in (noise, strong)]
    assert far[0] == pytest.approx(0.75, abs=0.01) and far[1] > 0.98
    assert far[0] < 1 - np.sort(noise)[:2000].mean(), "a lower limit"


def test_the_crowd_is_how_dense_pairs_lie_below_the_half():
    value, low, high = rate_by_null(shares([0.1, 0.3, 0.6, 0.9], [600, 100, 100, 100])).crowd
    assert value == pytest.approx(1.0) and low < 1 < high
    assert rate_by_null(shares([0.1], [100])).crowd == (np.inf, 0.0, np.inf)


def said(rate=0.2, low=0.18, high=0.22, pairs=2000.0, counted=200.0, tail=0.5, fit=1.0, beside=100.0, auroc=0.88,
         trusted=0.99):  # fmt: skip
    return RateByNull(rate, low, high, pairs, counted, tail, fit, beside, auroc, trusted)


def test_how_far_a_null_may_be_believed():
    assert said().reading == "agrees" and said().supported
    assert said(auroc=0.52).reading == "blind" and said(auroc=0.53).reading == "agrees"  # 3.3 / sqrt(12 * 2000) = .021
    assert said(tail=0.6, fit=0.01).reading == "at_most"
    assert said(tail=0.4, fit=0.01).reading == "too_easy"
    assert said(tail=0.515, fit=0.001).reading == "agrees"  # of so many pairs that a trifle shows
    assert said(trusted=0.97).reading == "weak" and not said(auroc=0.8).supported
    assert said(counted=19.0).reading == "unchecked" and said(rate=0.04).reading == "few"  # so many may be right ones
    assert said(fit=np.nan).reading == "unchecked"
    assert said(beside=118.0).reading == "agrees" and said(beside=160.0).reading == "too_easy"
    assert said(beside=145.0).reading == "weak"  # neither is ruled out
    assert said(counted=24.0, beside=19.0).reading == "weak"  # of so few it may be chance


def test_wrong_pairs_that_look_half_right_are_not_taken_for_the_few_that_do_not():
    """Half of the wrong ones lie anywhere below 3/4 of their ranking, which the check of the upper half cannot see."""
    rng = np.random.default_rng(1)
    values = np.concatenate([0.1 * rng.random(2000), 0.1 + 0.55 * rng.random(600) ** 2, rng.random(60)])
    found = rate_by_null(shares(values, 1))
    assert found.rate < 0.12 and found.crowd[1] > 1.5 and found.reading == "too_easy"


def test_of_nulls_that_agree_the_highest_rate_fits_best_as_an_easy_one_counts_easy_pairs():
    nulls = {"random": said(rate=0.12), "near": said(rate=0.26, fit=0.2, tail=0.53), "lexical": said(counted=3.0)}
    assert best_fit(nulls) == "near"


def test_else_the_null_fits_best_that_is_least_off_among_those_that_can_be_checked():
    nulls = {
        "random": said(tail=0.4, fit=0.01),
        "near": said(tail=0.45, fit=0.03),
        "lexical": said(tail=0.6, fit=0.0),
        "source": said(rate=0.01, counted=3.0),
    }
    assert best_fit(nulls) == "near"
    assert best_fit({"near": said(counted=3.0), "random": said(counted=3.0)}) == "random"
    assert best_fit({"near": said(fit=np.nan)}) == "near"


def test_the_range_is_over_what_the_nulls_allow():
    near = said(rate=0.45, low=0.42, high=0.48, tail=0.9, fit=0.0)
    easy = said(rate=0.01, low=0.0, high=0.02, tail=0.1, fit=0.0)
    assert rate_range({"random": said()}) == (0.18, 0.22)
    assert rate_range({"random": said(), "near": near}) == (0.0, 0.48)
    assert rate_range({"random": easy, "near": said()}) == (0.18, 0.22)
    assert rate_range({"random": said(), "near": said(auroc=0.5)}) == (0.0, 1.0), "nothing is told from near ones"
    assert rate_range({"random": easy}) == rate_range({}) == (0.0, 1.0)


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
