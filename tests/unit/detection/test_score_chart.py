"""The distribution of scores as a picture."""

import re

import numpy as np
import pytest

from noisyir.detection.score_chart import bin_scores, border, component, histogram


def test_every_pair_is_in_one_bin():
    scores = np.random.default_rng(0).normal(size=5000)
    flagged = scores >= 1
    bars = bin_scores(scores, flagged)
    assert (sum(bars.clean), sum(bars.wrong)) == ((~flagged).sum(), flagged.sum())
    assert bars.wrong[-1] >= 5, "scores above the last edge are in the last bin"
    assert not any(count for edge, count in zip(bars.edges, bars.clean, strict=False) if edge > 1)


def test_the_border_lies_between_the_verdicts():
    scores = np.array([0.0, 1.0, 4.0, 6.0])
    assert border(scores, scores > 3) == 2.5
    assert border(scores, np.array([True, False, True, False])) is None
    assert border(scores, scores < 9) is None and border(scores, scores < 0) is None


def test_a_component_is_a_weighted_gaussian():
    at = np.linspace(-10, 10, 4001)
    density = component({"clean_weight": 0.3, "clean_mean": 1.0, "clean_std": 0.5}, "clean", at)
    assert np.trapezoid(density, at) == pytest.approx(0.3, abs=1e-6)
    assert at[density.argmax()] == pytest.approx(1.0)
    assert component({}, "noisy", at) is None


@pytest.mark.parametrize("scores", [np.full(5, 2.0), np.array([1.0]), np.array([-3.0, -1.0, 1e6])])
def test_few_or_equal_scores_still_make_a_picture(scores):
    svg = histogram(scores, np.zeros(len(scores), bool), {}, None)
    assert "nan" not in svg and "inf" not in svg and svg.count("bin clean") >= 1 and "limit" not in svg


def test_the_picture_has_bars_of_both_kinds_two_curves_and_the_border():
    rng = np.random.default_rng(0)
    scores = np.concatenate([rng.normal(1, 0.5, 700), rng.normal(6, 0.5, 300)])
    estimate = {"clean_weight": 0.7, "clean_mean": 1.0, "clean_std": 0.5}
    estimate |= {"noisy_weight": 0.3, "noisy_mean": 6.0, "noisy_std": 0.5}
    svg = histogram(scores, scores > 3.5, estimate, 3.5)
    assert [svg.count(kind) for kind in ("component clean", "component noisy", '"limit"')] == [1, 1, 1]
    assert 'aria-label="scores of 1,000 pairs' in svg and "700 not flagged and 300 flagged, parted at 3.5" in svg
    heights = [float(y) for y in re.findall(r'class="bin \w+"[^>]* y="([\d.]+)"', svg)]
    assert min(heights) >= 0
