"""Detection by NPC's mixture (Zhang et al., Findings of EMNLP 2023, Eq. 4 and 5), and what stands beside it."""

from functools import partial

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.mixture import GaussianMixture

from noisyir.base.errors import DataError
from noisyir.detection.combine import Scores, combined, learnt_weights, robust_z, weights_of
from noisyir.detection.mixture import Mixture, beta_parameters, fit_mixture
from noisyir.detection.null import rank_shares, wrong_by_null
from noisyir.detection.rate import rate_by_null
from tests.refusals import refuses

fit_gaussians, fit_betas = (partial(fit_mixture, family=family) for family in ("gaussian", "beta"))
FITS = [fit_gaussians, fit_betas]


def two_gaussians(count=20_000, noisy=0.4, seed=0):
    rng = np.random.default_rng(seed)
    wrong = rng.random(count) < noisy
    return np.where(wrong, rng.normal(6, 0.8, count), rng.normal(2, 0.5, count)), wrong


def test_the_mixture_is_scikit_learns_on_two_clear_gaussians():
    scores, _ = two_gaussians()
    ours = fit_gaussians(scores, clip=1.0)
    width = ours.high - ours.low
    theirs = GaussianMixture(2, random_state=0, reg_covar=5e-4, max_iter=100).fit(
        ((scores - ours.low) / width)[:, None]
    )
    order = np.argsort(theirs.means_[:, 0])
    np.testing.assert_allclose(ours.weights, theirs.weights_[order], atol=2e-3)
    np.testing.assert_allclose(ours.means, theirs.means_[order, 0], atol=1e-3)
    np.testing.assert_allclose(ours.stds, np.sqrt(theirs.covariances_[order, 0, 0]), atol=1e-3)
    between = scores[(scores > 2) & (scores < 6)]  # outside, monotonicity makes ours differ
    posterior = theirs.predict_proba(((between - ours.low) / width)[:, None])[:, order[0]]
    np.testing.assert_allclose(ours.p_clean(between), posterior, atol=0.01)


def test_the_posterior_is_equation_5():
    mixture = Mixture("gaussian", np.array([0.7, 0.3]), np.array([0.2, 0.6]), np.array([0.1, 0.1]), 10.0, 20.0)
    clean = 0.7 * np.exp(-(((0.35 - 0.2) / 0.1) ** 2) / 2)
    noisy = 0.3 * np.exp(-(((0.35 - 0.6) / 0.1) ** 2) / 2)
    assert mixture.p_clean(np.array([13.5]))[0] == pytest.approx(clean / (clean + noisy))


def test_a_wide_clean_component_does_not_win_the_far_right_again():
    mixture = Mixture("gaussian", np.array([0.5, 0.5]), np.array([0.2, 0.5]), np.array([0.2, 0.02]), 0.0, 1.0)
    raw = stats.norm(0.2, 0.2).pdf(0.9) / (stats.norm(0.2, 0.2).pdf(0.9) + stats.norm(0.5, 0.02).pdf(0.9))
    assert raw > 0.99, "Bayes' rule alone would call the largest losses clean"
    # (s - 0.2) / 0.2^2 = (s - 0.5) / 0.02^2 where the log odds turn
    turn = (0.5 / 0.02**2 - 0.2 / 0.2**2) / (1 / 0.02**2 - 1 / 0.2**2)
    at_turn = stats.norm(0.2, 0.2).pdf(turn) / (stats.norm(0.2, 0.2).pdf(turn) + stats.norm(0.5, 0.02).pdf(turn))
    np.testing.assert_allclose(mixture.p_clean(np.array([turn, 0.6, 0.9, 1.0])), at_turn, rtol=1e-6)


def test_a_wide_noisy_component_does_not_win_the_far_left():
    mixture = Mixture("gaussian", np.array([0.3, 0.7]), np.array([0.4, 0.6]), np.array([0.02, 0.3]), 0.0, 1.0)
    raw = 0.3 * stats.norm(0.4, 0.02).pdf(0.1) / (0.7 * stats.norm(0.6, 0.3).pdf(0.1))
    assert raw < 1e-9
    assert mixture.p_clean(np.array([0.0, 0.1, 0.4])).min() > 0.8


@pytest.mark.parametrize("noisy", [0.95, 0.05])
def test_below_the_clean_mean_nothing_is_noisy_and_above_the_noisy_mean_nothing_is_clean(noisy):
    weights = np.array([1 - noisy, noisy])
    mixture = Mixture("gaussian", weights, np.array([0.4, 0.55]), np.array([0.15, 0.15]), 0.0, 1.0)
    p_clean = mixture.p_clean(np.array([0.1, 0.4, 0.55, 1.0])).astype(np.float32)
    assert (p_clean >= 0.5).tolist() == [True, True, False, False]


def test_a_mixture_of_betas_is_found_again():  # Arazo et al., ICML 2019
    rng = np.random.default_rng(1)
    wrong = rng.random(50_000) < 0.3
    scores = np.where(wrong, rng.beta(8, 3, wrong.size), rng.beta(2, 10, wrong.size))
    found = fit_betas(scores, clip=1.0)
    np.testing.assert_allclose(found.weights, [0.7, 0.3], atol=0.02)
    np.testing.assert_allclose(found.in_score_unit()["clean_mean"], 2 / 12, atol=0.01)
    np.testing.assert_allclose(found.in_score_unit()["noisy_mean"], 8 / 11, atol=0.01)
    assert ((found.p_clean(scores) < 0.5) == wrong).mean() > 0.97


def test_moments_give_a_betas_parameters_back():
    a, b = beta_parameters(np.array(stats.beta(2, 5).mean()), np.array(stats.beta(2, 5).std()))
    assert (a, b) == (pytest.approx(2), pytest.approx(5))


def test_a_betas_posterior_is_bayes_rule_between_the_means():
    mean, std = np.array([2 / 7, 0.7]), np.array([stats.beta(2, 5).std(), stats.beta(7, 3).std()])
    mixture = Mixture("beta", np.array([0.6, 0.4]), mean, std, 0.0, 1.0)
    at = np.array([0.3, 0.5, 0.65])
    clean, noisy = 0.6 * stats.beta(2, 5).pdf(at), 0.4 * stats.beta(7, 3).pdf(at)
    np.testing.assert_allclose(mixture.p_clean(at), clean / (clean + noisy), rtol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_one_gaussian_is_not_two(seed):
    assert fit_gaussians(np.random.default_rng(seed).normal(3, 1, 10_000)) is None


def test_one_beta_is_not_two():
    assert fit_betas(np.random.default_rng(0).beta(2, 6, 10_000)) is None


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("scores", [np.full(100, 3.0), np.array([1.0]), np.append(np.zeros(10_000), 5.0)])
def test_equal_scores_have_no_noisy_component(fit, scores):
    assert fit(scores) is None


@pytest.mark.parametrize("fit", FITS)
def test_a_noisy_component_of_too_few_pairs_does_not_count(fit):
    scores, _ = two_gaussians(noisy=0.04)
    assert fit_gaussians(scores, least_weight=0.02) is not None
    assert fit(scores, least_weight=0.06) is None


@pytest.mark.parametrize("fit", FITS)
def test_scores_that_are_not_numbers_are_counted_in_the_error(fit):
    with refuses(DataError, "detection.values_nan_infinite_detectors", bad=3, n_values=10):
        fit(np.array([0.0] * 7 + [np.nan, np.inf, -np.inf]))


@pytest.mark.parametrize("fit", FITS)
def test_scores_above_the_clip_do_not_stretch_the_scale(fit):
    scores, wrong = two_gaussians()
    outliers = np.append(scores, [1e4] * 5)
    assert ((fit(outliers).p_clean(scores) < 0.5) == wrong).mean() > 0.98


def test_the_noise_rate_is_storeys_by_hand():  # Storey, JRSS B 2002, lambda = 1/2
    # of three draws one is less suspect than the first pair's document, all than the second's, none than the others'
    draws = np.tile([1.0, 2.0, 3.0], (4, 1))
    shares = rank_shares(np.array([1.5, 4.0, 0.0, 0.5]), draws)
    assert shares.low.tolist() == [1 / 4, 3 / 4, 0.0, 0.0] and shares.high.tolist() == [1 / 2, 1.0, 1 / 4, 1 / 4]
    assert rate_by_null(shares).rate == pytest.approx(2 * 1 / 4)
    assert [rate_by_null(rank_shares(np.full(4, own), draws)).rate for own in (0.0, 9.0)] == [0.0, 1.0]


def test_the_null_posterior_is_the_rate_times_the_ratio_of_densities_by_hand():
    scores, null = np.array([0.0, 1, 2, 3, 4, 6, 7, 8]), np.array([3.5, 5.0, 6.5, 9.0])
    #  0 1 2 3 | 3.5: null, 4: not -> pooled 1/2 | 5: null, 6: not, 6.5: null, 7, 8: not -> pooled 2/5 < 1/2: one block
    #  of 3 nulls and 4 observed in 3.5..8, hence (3/4) / (4/8) = 1.5 times as many nulls; above all, 9
    expected = [0, 0, 0, 0, 0.3 * 1.5, 0.3 * 1.5, 0.3 * 1.5, 0.3 * 1.5]
    np.testing.assert_allclose(wrong_by_null(scores, null, 0.3), expected)
    # 5, 6: null, 9: not -> one block of 2 nulls and 1 of 2 observed, twice as many nulls: more than certain
    assert wrong_by_null(np.array([1.0, 9.0]), np.array([5.0, 6.0]), 0.9).tolist() == [0.0, 1.0]


def test_detectors_are_put_on_one_scale_by_median_and_quartiles():
    one, other = np.array([0.0, 1, 2, 3, 4]), np.array([40.0, 30, 20, 10, 0])
    assert robust_z(np.array([2.0, 6.0]), one).tolist() == [0.0, 2.0]  # quartiles 1 and 3
    z = np.column_stack([robust_z(one, one), robust_z(other, other)])
    null = np.column_stack([robust_z(one + 2, one), robust_z(other, other)])
    np.testing.assert_allclose(z.sum(axis=1), 0, atol=1e-12)
    found = combined([scores_of(one, one + 2), scores_of(other, other)])
    np.testing.assert_allclose(found.observed, z.sum(axis=1), atol=1e-12)
    np.testing.assert_allclose(found.nulls["random"], null.sum(axis=1)[:, None])
    assert set(found.nulls) == {"random"}


def test_one_detector_is_left_in_its_own_unit():
    alone = scores_of(np.array([1.0, 5.0]), np.array([7.0, 9.0]), np.array([2.0, 3.0]))
    assert combined([alone]) is alone


def scores_of(observed, random, near=None):
    """One draw of each null."""
    return Scores(observed, {"random": random[:, None]} | ({} if near is None else {"near": near[:, None]}))


def columns(detectors):
    """(pair, detector) of the observed scores and of the random draw."""
    return (
        np.column_stack([d.observed for d in detectors]),
        np.column_stack([d.nulls["random"][:, 0] for d in detectors]),
    )


def three_detectors(pairs=2000, near=False, seed=0):
    """Two that know something, the second less, and one that guesses; 40 % of the pairs wrong."""
    rng = np.random.default_rng(seed)
    wrong = rng.random(pairs) < 0.4

    def scores(gap):
        return rng.normal(0, 1, pairs) + gap * wrong, rng.normal(gap, 1, pairs), rng.normal(gap, 1, pairs)

    return [scores_of(a, b, c if near else None) for a, b, c in map(scores, (3.0, 1.5, 0.0))], wrong


def test_the_weights_are_those_of_logistic_regression():  # Elkan and Noto, KDD 2008
    detectors, _ = three_detectors()
    observed, null = columns(detectors)
    features = np.column_stack([np.concatenate([observed, null]), np.ones(4000)])
    theirs = LogisticRegression(C=1 / (1e-4 * 4000), fit_intercept=False, tol=1e-8, max_iter=1000)
    theirs.fit(features, np.arange(4000) >= 2000)
    np.testing.assert_allclose(learnt_weights(observed, null), np.maximum(theirs.coef_[0, :3], 0), atol=0.02)


def test_a_detector_that_points_the_wrong_way_has_no_weight():
    detectors, _ = three_detectors()
    observed, null = columns(detectors[:2])
    weights = learnt_weights(observed * [1, -1], null * [1, -1])
    assert weights[0] > 0.5 and weights[1] == 0
    assert learnt_weights(-observed, -null).tolist() == [1, 1]  # where all do, they weigh alike


def test_together_detectors_tell_more_than_the_best_of_them():
    detectors, wrong = three_detectors()
    observed, null = columns(detectors)
    quality = [roc_auc_score(wrong, scores) for scores in (*observed.T, observed @ learnt_weights(observed, null))]
    assert quality[3] > max(quality[:3]) + 0.005
    ideal = roc_auc_score(wrong, 3.0 * detectors[0].observed + 1.5 * detectors[1].observed)  # Fisher's discriminant
    assert quality[3] == pytest.approx(ideal, abs=0.003)


def told_apart(wrong, gap, random_gap, near_gap, seed):
    """A detector whose scores of wrong pairs, random and near documents lie so far above those of right pairs."""
    rng = np.random.default_rng(seed)
    count = len(wrong)
    nulls = {"random": rng.normal(random_gap, 1, (count, 9)), "near": rng.normal(near_gap, 1, (count, 9))}
    return Scores(rng.normal(gap * wrong), nulls)


def test_the_weights_are_learnt_against_the_wrong_pairs_that_there_are():
    wrong = np.random.default_rng(0).random(4000) < 0.4
    # the wrong documents are near neighbours, to which the first detector, good at random ones, is blind
    detectors = [told_apart(wrong, 0.0, 9.0, 0.0, 1), told_apart(wrong, 9.0, 9.0, 9.0, 2)]
    quality = [roc_auc_score(wrong, scores.observed) for scores in (combined(detectors), detectors[1])]
    assert quality[0] == pytest.approx(quality[1], abs=0.001)
    plain = sum(robust_z(of.observed, of.observed) for of in detectors)
    assert quality[0] > roc_auc_score(wrong, plain) + 0.002


def test_weights_rest_on_no_made_up_pairs_that_the_scores_speak_against():
    wrong = np.random.default_rng(0).random(4000) < 0.4
    # random documents are far easier than the wrong ones, and by the detector that knows less of these
    detectors = [told_apart(wrong, 2.0, 9.0, 1.0, 1), told_apart(wrong, 4.0, 4.0, 3.0, 2)]
    plain = sum(robust_z(of.observed, of.observed) for of in detectors)
    np.testing.assert_allclose(combined(detectors).observed, plain)
    weights = weights_of(detectors, assumed="near")  # whoever knows better says so
    assert weights[1] > 2 * weights[0]
    quality = [roc_auc_score(wrong, scores) for scores in (combined(detectors, "near").observed, plain)]
    assert quality[0] > quality[1] + 0.002


def test_where_right_pairs_are_hardly_told_from_made_up_ones_detectors_weigh_alike():
    wrong = np.random.default_rng(0).random(4000) < 0.4
    detectors = [told_apart(wrong, 0.3, 0.3, 0.3, 1), told_apart(wrong, 0.9, 0.9, 0.9, 2)]
    plain = sum(robust_z(of.observed, of.observed) for of in detectors)
    np.testing.assert_allclose(combined(detectors).observed, plain)


def test_a_detector_without_neighbours_leaves_them_out_for_all():
    detectors, _ = three_detectors(near=True)
    blind = Scores(detectors[1].observed, {"random": detectors[1].nulls["random"]})
    assert set(combined([detectors[0], blind]).nulls) == {"random"}
    assert set(combined(detectors[:2]).nulls) == {"random", "near"}


def test_of_detectors_that_drew_more_or_fewer_documents_the_first_ones_are_added():
    rng = np.random.default_rng(0)
    observed, draws = rng.normal(0, 1, 50), rng.normal(2, 1, (50, 4))
    found = combined([Scores(observed, {"random": draws}), Scores(observed, {"random": draws[:, :2]})])
    z, made_up = robust_z(observed, observed), robust_z(draws[:, :2], observed)
    np.testing.assert_allclose(found.nulls["random"] / made_up, (found.observed / z)[:, None] * np.ones((50, 2)))


def test_a_detector_that_scores_everything_alike_says_nothing():
    one, other = np.array([0.0, 1, 2, 3, 4]), np.full(5, 7.0)
    found = combined([scores_of(one, one + 1), scores_of(other, np.full(5, 9.0))])
    scale = found.observed[-1] / robust_z(one, one)[-1]
    assert scale > 0
    np.testing.assert_allclose(found.observed, scale * robust_z(one, one))
    np.testing.assert_allclose(found.nulls["random"][:, 0], scale * robust_z(one + 1, one))
