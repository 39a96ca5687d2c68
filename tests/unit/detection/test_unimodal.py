"""The dip: its value by hand and against a slow oracle, its level under skewed one-peaked data, and its power."""

from functools import partial

import numpy as np
import pytest
from scipy.optimize import linprog

from noisyir.detection.combine import Scores
from noisyir.detection.mixture import Mixture, dip, fit_mixture, is_unimodal
from noisyir.detection.settings import DetectParams
from noisyir.detection.verdicts import detect

fit_gaussians, fit_betas = (partial(fit_mixture, family=family) for family in ("gaussian", "beta"))
ONE_PEAK = {
    "uniform": lambda rng, n: rng.random(n),
    "normal": lambda rng, n: rng.normal(size=n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "gamma 1/2": lambda rng, n: rng.gamma(0.5, size=n),
    "gamma 3": lambda rng, n: rng.gamma(3, size=n),
    "lognormal": lambda rng, n: rng.lognormal(size=n),
    "lognormal 1/4": lambda rng, n: rng.lognormal(sigma=0.25, size=n),
    "many zeros": lambda rng, n: rng.exponential(size=n) * (rng.random(n) < 0.4),
}
SKEWED = ["exponential", "gamma 1/2", "gamma 3", "lognormal", "lognormal 1/4", "many zeros"]


def losses(rng, pairs, wrong, gap=5.0):
    """Like those of a model after an epoch: clean pairs' exponential, wrong ones' normal around `gap`."""
    count = round(wrong * pairs)
    return np.concatenate([rng.exponential(0.7, pairs - count), rng.normal(gap, 1.2, count)])


def closest(x, cdf, peak):
    """Half the dip's definition by linear programming: the distance to what is convex before `peak`, concave after."""
    slopes = len(x) - 1
    width = np.diff(x)
    cumulated = np.tril(np.ones((len(x), slopes)), -1) * width  # the candidate's rise up to each point
    above = np.hstack([cumulated, np.ones((len(x), 1)), -np.ones((len(x), 1))])  # rise + level - distance <= cdf
    below = np.hstack([-cumulated, -np.ones((len(x), 1)), -np.ones((len(x), 1))])
    order = np.zeros((slopes - 1, slopes + 2))
    for row in range(slopes - 1):
        sign = 1.0 if row + 1 < peak else -1.0
        order[row, row], order[row, row + 1] = sign, -sign
    free = np.delete(order, peak - 1, axis=0) if 0 < peak < slopes else order  # at the peak itself the slope may jump
    found = linprog(
        [0.0] * (slopes + 1) + [1.0],
        A_ub=np.vstack([above, below, free]),
        b_ub=np.concatenate([cdf, -cdf, np.zeros(len(free))]),
        bounds=[(0, None)] * slopes + [(None, None), (0, None)],
    )
    return found.fun


def test_the_dip_of_two_heaps_by_hand():
    # mass 1/2 in [0, 1], none in [1, 3], 1/2 in [3, 4].  A line from 1/2 - d at 1 to 1/2 + d at 3 has slope d; up to 1
    # what is convex rises from d at 0 with slope 1/2 - 2 d at most: no more than d, hence d = 1/6
    x, cdf = np.array([0.0, 1.0, 3.0, 4.0]), np.array([0.0, 0.5, 0.5, 1.0])
    assert dip(x, cdf) == pytest.approx(min(closest(x, cdf, peak) for peak in range(4)), abs=1e-9)
    assert dip(x, cdf) == pytest.approx(1 / 6)


def test_one_peak_has_no_dip():
    x = np.linspace(0, 1, 11)
    assert dip(x, x) == 0.0
    assert dip(x, np.where(x < 0.5, 2 * x**2, 1 - 2 * (1 - x) ** 2)) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_the_dip_is_the_distance_to_the_closest_one_peaked_distribution(seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 6, 9) + 1e-3
    x = np.cumsum(rng.random(10) + 0.1)
    cdf = np.concatenate([[0.0], np.cumsum(counts) / counts.sum()])
    assert dip(x, cdf) == pytest.approx(min(closest(x, cdf, peak) for peak in range(len(x))), abs=1e-7)


@pytest.mark.parametrize(("pairs", "draws", "most"), [(1000, 30, 5), (10_000, 15, 3)])
@pytest.mark.parametrize("family", ONE_PEAK)
def test_one_peaked_scores_are_rarely_called_two(family, pairs, draws, most):
    """At most 5 % whatever the family; none for skewed ones, so that a run of many epochs flags nothing."""
    rng = np.random.default_rng(0)
    called = sum(not is_unimodal(ONE_PEAK[family](rng, pairs)) for _ in range(draws))
    assert called <= (0 if family in SKEWED else most)  # more at 5 % has a chance of 1 % at most


@pytest.mark.parametrize("fit", [fit_gaussians, fit_betas])
@pytest.mark.parametrize("family", SKEWED)
def test_no_mixture_is_believed_where_all_pairs_are_of_one_kind(fit, family):
    for seed in range(5):
        scores = ONE_PEAK[family](np.random.default_rng(seed), 10_000)
        assert fit(scores, least_weight=0.0) is None


def test_without_the_dip_clean_exponential_losses_are_taken_for_two_kinds():
    scores = np.random.default_rng(0).exponential(size=10_000)
    flagged = (fit_gaussians(scores, least_weight=0.0, components="bic").p_clean(scores) < 0.5).mean()
    assert 0.1 < flagged < 0.4


@pytest.mark.parametrize(("pairs", "wrong"), [(1000, 0.3), (1000, 0.5), (10_000, 0.15), (10_000, 0.8), (80_000, 0.08)])
def test_two_kinds_that_a_model_tells_apart_are_seen(pairs, wrong):
    for seed in range(3):
        scores = losses(np.random.default_rng(seed), pairs, wrong)
        assert not is_unimodal(scores)
        found = fit_gaussians(scores, least_weight=0.0)
        assert found.weights[1] == pytest.approx(wrong, abs=0.15)


def test_a_few_far_scores_and_equal_scores_change_nothing():
    scores = np.random.default_rng(0).exponential(size=5000)
    assert is_unimodal(np.append(scores, [1e6] * 5))
    assert is_unimodal(np.full(100, 2.0)) and is_unimodal(np.array([1.0]))


# The paper's equations read literally ----------------------------------------------------------------------


def test_equation_4_literally_always_has_two_components():
    rng = np.random.default_rng(0)
    one = rng.normal(size=5000)
    assert fit_gaussians(one) is None and fit_gaussians(one, components="bic") is None
    two = fit_gaussians(one, components="two")
    assert two.weights.sum() == pytest.approx(1) and two.means[0] < two.means[1]
    assert fit_gaussians(np.full(10, 1.0), components="two") is None


def test_equation_5_literally_is_bayes_rule_and_may_call_the_largest_losses_clean():
    rng = np.random.default_rng(0)
    scores = np.concatenate([rng.normal(2, 1.5, 8000), rng.normal(4, 0.3, 2000)])
    found = fit_gaussians(scores, clip=1.0, components="two")
    assert found.stds[0] > found.stds[1]
    largest = np.array([scores.max()])
    assert found.posterior(largest, "bayes")[0] > 0.9 > 0.5 > found.posterior(largest, "monotone")[0]
    between = np.linspace(2.5, 3.6, 20)
    inside = (between - found.low) / (found.high - found.low)
    clean, noisy = (
        w / s * np.exp(-(((inside - m) / s) ** 2) / 2)
        for w, m, s in zip(found.weights, found.means, found.stds, strict=True)
    )
    np.testing.assert_allclose(found.posterior(between, "bayes"), clean / (clean + noisy), rtol=1e-9)


# Made-up pairs as a second witness ------------------------------------------------------------------------


def judged(observed, made_up, components="made_up"):
    params = DetectParams(method="gmm", min_rate=0.0, components=components, assume="best")
    return detect(Scores(observed, {"random": made_up[:, None]}), params).is_clean


def test_wrong_pairs_without_a_peak_of_their_own_are_believed_where_they_lie_towards_made_up_ones():
    """A fifth of the pairs learnt in part: their losses spread from the clean ones' to those of random documents."""
    rng = np.random.default_rng(0)
    wrong = rng.random(20_000) < 0.2
    learnt = np.where(wrong, rng.gamma(3, 1.1, wrong.size), rng.exponential(0.3, wrong.size))
    made_up = rng.normal(7.9, 1.2, wrong.size)
    assert is_unimodal(learnt) and judged(learnt, made_up, "dip").all()
    assert (judged(learnt, made_up) == ~wrong).mean() > 0.9
    far = made_up + 10  # the same losses say less where random documents are further away
    assert judged(learnt, far).all()


def test_a_long_tail_near_the_clean_pairs_is_no_second_kind():
    rng = np.random.default_rng(0)
    losses = rng.exponential(0.4, 20_000)
    assert not judged(losses, rng.normal(9, 1, 20_000), "bic").all()
    assert judged(losses, rng.normal(9, 1, 20_000)).all()


def test_likeness_is_the_upper_means_place_between_clean_and_made_up():
    found = Mixture("gaussian", np.array([0.7, 0.3]), np.array([0.1, 0.4]), np.array([0.1, 0.1]), 0.0, 10.0)
    assert found.likeness(np.array([6.0, 8.0])) == pytest.approx((4 - 1) / (7 - 1))
    assert found.likeness(np.array([0.5])) == 0.0
