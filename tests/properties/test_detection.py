"""What verdicts keep to, whatever the scores."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from noisyir.detection.combine import Scores
from noisyir.detection.mixture import Mixture
from noisyir.detection.settings import DetectParams
from noisyir.detection.verdicts import detect
from noisyir.evaluation.detection import detection_quality

METHODS = ["gmm", "beta", "null"]
methods = st.sampled_from(METHODS)
few = hnp.arrays(float, st.tuples(st.just(2), st.integers(1, 60)), elements=st.floats(-100, 100, width=16))
unit = st.floats(0.02, 0.98)


def bimodal(seed, count=800):
    """A score and a null score for each pair, some of the pairs wrong."""
    rng = np.random.default_rng(seed)
    wrong = rng.random(count) < rng.uniform(0.1, 0.8)
    gap = rng.uniform(2, 8)
    return np.where(wrong, gap, 0) + rng.gamma(2, 0.7, count), gap + rng.gamma(2, 0.7, count)


def judged(scores, null, method, **params):
    pairs = Scores(scores, {"random": null[:, None]})
    return detect(pairs, DetectParams(method=method, assume="best", **params))


seeds = st.integers(0, 2**32)


@given(few, methods, unit, st.floats(0, 1))
@settings(max_examples=200)
def test_verdicts_are_monotone_in_the_score_and_agree_with_the_probabilities(both, method, threshold, min_rate):
    scores, null = both
    found = judged(scores, null, method, threshold=threshold, min_rate=min_rate)
    order = np.argsort(scores, kind="stable")
    assert (np.diff(found.p_clean[order]) <= 1e-6).all()
    assert (np.diff(found.is_clean[order].astype(int)) <= 0).all()
    assert ((found.p_clean >= 0) & (found.p_clean <= 1)).all()
    flagged = found.p_clean < np.float32(threshold)
    np.testing.assert_array_equal(~found.is_clean, flagged & (found.estimate["rate"] >= min_rate))
    assert found.estimate["rate_low"] <= found.estimate["rate_high"]
    assert found.is_clean.all() or found.estimate["rate"] >= min_rate


@given(seeds, methods, st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_the_order_of_the_pairs_changes_no_verdict_and_no_estimate(seed, method, random):
    scores, null = bimodal(seed)
    order = np.array(random.sample(range(len(scores)), len(scores)))
    straight, shuffled = judged(scores, null, method), judged(scores[order], null[order], method)
    np.testing.assert_array_equal(shuffled.is_clean, straight.is_clean[order])
    np.testing.assert_allclose(shuffled.p_clean, straight.p_clean[order], atol=1e-5)
    assert shuffled.estimate == pytest.approx(straight.estimate, abs=1e-6)


@given(seeds, methods, st.floats(0.01, 100), st.floats(-100, 100))
@settings(max_examples=60)
def test_another_unit_of_the_scores_changes_no_verdict(seed, method, factor, shift):
    scores, null = bimodal(seed)
    one, other = judged(scores, null, method), judged(scores * factor + shift, null * factor + shift, method)
    np.testing.assert_allclose(other.p_clean, one.p_clean, atol=1e-4)
    clear = np.abs(one.p_clean - 0.5) > 1e-4
    np.testing.assert_array_equal(other.is_clean[clear], one.is_clean[clear])


@given(seeds, st.sampled_from([np.exp, np.cbrt, lambda s: s**3 + s, np.arctan]))
@settings(max_examples=60)
def test_by_the_null_only_the_ranks_matter(seed, increasing):
    scores, null = (np.round(values - 3, 2) for values in bimodal(seed))
    one, other = judged(scores, null, "null"), judged(increasing(scores), increasing(null), "null")
    np.testing.assert_array_equal(other.p_clean, one.p_clean)
    names = ("rate", "rate_low", "rate_high", "flagged")
    assert [one.estimate[name] for name in names] == [other.estimate[name] for name in names]


@given(st.sampled_from(["gaussian", "beta"]), unit, unit, unit, unit, unit)
@settings(max_examples=300)
def test_a_mixtures_posterior_never_rises_and_respects_the_means(family, weight, one, other, spread, other_spread):
    clean, noisy = sorted((one, other))
    if noisy - clean < 1e-3:
        return
    means = np.array([clean, noisy])
    # a Beta's standard deviation is below the root of mean (1 - mean)
    stds = np.sqrt(means * (1 - means)) * np.array([spread, other_spread]) * 0.95
    mixture = Mixture(family, np.array([1 - weight, weight]), means, stds, 0.0, 1.0)
    p_clean = mixture.p_clean(np.array([*np.linspace(-0.5, 1.5, 401), clean, noisy]))
    grid, (at_clean, at_noisy) = p_clean[:-2], p_clean[-2:]
    assert (np.diff(grid) <= 1e-9).all()
    assert at_clean >= 0.5 > at_noisy


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.booleans()), min_size=1, max_size=40))
def test_quality_of_detection_is_that_of_counting(rows):
    scores, is_clean, is_wrong = (np.array(column) for column in zip(*rows, strict=True))
    found = detection_quality(scores.astype(float), is_clean, is_wrong)
    tp, fp = (~is_clean & is_wrong).sum(), (~is_clean & ~is_wrong).sum()
    assert found["accuracy"] == pytest.approx((~is_clean == is_wrong).mean())
    assert ("precision" in found) is bool((~is_clean).any()) and ("recall" in found) is bool(is_wrong.any())
    assert ("f1" in found) is bool(is_wrong.any()), "of nothing to be found there is no F1"
    if tp + fp:
        assert found["precision"] == pytest.approx(tp / (tp + fp))
    if "precision" in found and "recall" in found and tp:
        p, r = found["precision"], found["recall"]
        assert found["f1"] == pytest.approx(2 * p * r / (p + r))
    wins = [(w > c) + (w == c) / 2 for w in scores[is_wrong] for c in scores[~is_wrong]]
    assert ("auroc" in found) is bool(wins)
    if wins:
        assert found["auroc"] == pytest.approx(np.mean(wins))
