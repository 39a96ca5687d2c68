"""What wrong pairs seem to be made of: random documents, or near neighbours of the right ones."""

import numpy as np
import pytest

from noisyir.noise.null import blended, near_share
from noisyir.noise.rate import noise_rate

PAIRS = 20_000


def simulated(seed, rate, share, gap=1.5, pairs=PAIRS):
    """Scores of pairs of which `rate` are wrong, `share` of these by near neighbours; and both kinds made up."""
    rng = np.random.default_rng(seed)
    near, wrong = rng.random(pairs) < share, rng.random(pairs) < rate
    right = rng.normal(-6, 1, pairs)
    synthetic = {kind: rng.normal(level, 1, pairs) for kind, level in (("random", gap), ("near", 0.0))}
    observed = np.where(near, rng.normal(0.0, 1, pairs), rng.normal(gap, 1, pairs))
    return np.where(wrong, observed, right), synthetic["random"], synthetic["near"]


@pytest.mark.parametrize("rate", [0.2, 0.5])
@pytest.mark.parametrize("seed", range(5))
def test_noise_of_one_kind_is_recognised(seed, rate):
    assert near_share(*simulated(seed, rate, 0.0)) <= 0.1
    assert near_share(*simulated(seed, rate, 1.0)) >= 0.9


def test_where_most_of_the_noise_is_near_the_rate_is_right():
    for seed in range(5):
        scores, random, near = simulated(seed, 0.5, 0.8)
        found = near_share(scores, random, near)
        assert found == pytest.approx(0.8, abs=0.1)
        assert noise_rate(scores, blended(random, near, found)) == pytest.approx(0.5, abs=0.05)
        assert noise_rate(scores, random) < 0.2, "by random documents alone most of it is missed"


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_of_mixed_noise_the_least_share_that_explains_it_is_taken(share):
    """Near misses that score far below random documents may pass for right pairs: the share is too low, never high."""
    for gap in (0.7, 1.5):
        found = [near_share(*simulated(seed, 0.5, share, gap)) for seed in range(6)]
        assert share - 0.3 < np.mean(found) <= share


def test_where_both_kinds_score_alike_none_is_needed():
    assert near_share(*simulated(0, 0.4, 0.5, gap=0.0)) == 0.0


def test_without_noise_the_share_is_one_of_those_tried():
    scores, random, near = simulated(0, 0.0, 0.0)
    assert near_share(scores, random, near) in np.linspace(0, 1, 21)


@pytest.mark.parametrize("values", [[1.0], [2.0] * 7, [1.0, 2.0, 3.0, 4.0, 5.0]])
def test_a_handful_of_pairs_or_equal_scores_are_no_trouble(values):
    scores = np.array(values)
    assert near_share(scores, scores, scores) == 0.0


def test_the_share_depends_on_ranks_alone():
    scores, random, near = (np.round(values, 3) for values in simulated(3, 0.4, 0.6))
    assert near_share(np.exp(scores), np.exp(random), np.exp(near)) == near_share(scores, random, near)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.31, 0.5, 0.95, 1.0])
@pytest.mark.parametrize("pairs", [1, 7, 100])
def test_a_blend_is_as_large_as_the_sample_and_has_the_share_asked_for(share, pairs):
    random, near = np.arange(pairs) + 1.0, -1.0 - np.arange(pairs)
    found = blended(random, near, share)
    assert len(found) == pairs
    assert (found < 0).sum() == round(share * pairs)
    assert set(found) <= {*random, *near}


def test_the_parts_of_a_blend_are_spread_like_the_samples_they_come_from():
    rng = np.random.default_rng(0)
    random, near = rng.uniform(5, 6, 10_000), rng.uniform(-6, -5, 10_000)
    found = blended(random, near, 0.3)
    levels = np.linspace(0, 1, 50)
    np.testing.assert_allclose(np.quantile(found[found > 0], levels), np.quantile(random, levels), atol=5e-3)
    np.testing.assert_allclose(np.quantile(found[found < 0], levels), np.quantile(near, levels), atol=5e-3)


def test_a_part_of_one_is_the_middle_of_its_sample():
    assert sorted(blended(np.arange(5.0), np.arange(-5.0, 0.0), 0.2)) == [-3.0, 0.0, 1.0, 3.0, 4.0]
