"""SimANS (Zhou et al., EMNLP 2022 industry track, section 4.1), written out by hand, and the other rules beside it."""

import numpy as np
import pytest

from noisyir.mining.draw import draw, shares
from noisyir.mining.filters import AbsoluteMargin, MaxScore, below_share
from noisyir.mining.samplers import Debiased, Simans, Softmax, near_positive
from tests.scored import scored

ONE_QUERY = np.zeros(3, np.int64)
SCORES, POSITIVE = np.array([5.0, 4.0, 1.0]), np.full(3, 4.0)


def simans(**settings):
    return Simans(**settings).weights(scored(SCORES, POSITIVE))


def test_the_distribution_of_the_paper():
    by_hand = np.array([np.exp(-0.5 * (5 - 4) ** 2), np.exp(-0.5 * 0**2), np.exp(-0.5 * (1 - 4) ** 2)])
    np.testing.assert_allclose(shares(simans(), ONE_QUERY), by_hand / by_hand.sum())


def test_b_moves_the_peak_above_the_positive_and_in_the_code_below_it():
    paper = [-0.5 * (5 - 4 - 1) ** 2, -0.5 * (4 - 4 - 1) ** 2, -0.5 * (1 - 4 - 1) ** 2]
    code = [-0.5 * (5 - 4 + 1) ** 2, -0.5 * (4 - 4 + 1) ** 2, -0.5 * (1 - 4 + 1) ** 2]
    np.testing.assert_allclose(simans(b=1.0), paper)
    np.testing.assert_allclose(simans(b=1.0, sign="code"), code)


def test_a_scale_turns_cosines_into_what_a_and_b_are_made_for():
    scaled = Simans(b=1.0, scale=20.0).weights(scored(SCORES / 20, POSITIVE / 20))
    np.testing.assert_allclose(scaled, simans(b=1.0), atol=1e-12)


def test_it_is_equation_5_of_trisampler_at_a_quarter():
    np.testing.assert_allclose(simans(a=0.25), near_positive(SCORES, POSITIVE))


def test_where_every_weight_underflows_the_nearest_are_still_drawn_first():
    score = np.array([-300.0, -100.0, -200.0])
    log_weights = Simans(a=1.0).weights(scored(score, np.full(3, 50.0)))
    assert (np.exp(log_weights) == 0).all()
    drawn = draw(log_weights[None], ONE_QUERY, np.arange(3), 2, np.random.default_rng(0))
    assert drawn.rows.tolist() == [1, 2]


def test_softmax_and_debiased_weights():
    found = scored(SCORES, POSITIVE)
    np.testing.assert_allclose(np.exp(Softmax(temperature=2.0).weights(found)), [np.exp(2.5), np.exp(2), np.exp(0.5)])
    np.testing.assert_allclose(np.exp(Debiased(temperature=2.0).weights(found)), [np.exp(-1 / 2), 1, np.exp(-3 / 2)])


@pytest.mark.parametrize("positive", [0.8, -0.8, 0.0])
def test_margin_filters_are_those_of_sentence_transformers(positive):
    """Its code drops: scores + absolute_margin > positive; scores > positive - abs(positive) * relative_margin."""
    score = np.linspace(-1, 1, 41).astype(np.float32)
    positives = np.full(41, positive, np.float32)
    one = np.float32(positive).astype(np.float64)
    assert (MaxScore(bound=0.5).keeps(scored(score, positives)) == ~(score > 0.5)).all()
    assert (AbsoluteMargin(margin=0.1).keeps(scored(score, positives)) == ~(score.astype(float) + 0.1 > one)).all()
    assert (below_share(score, positives, 0.05) == ~(score > one - abs(one) * 0.05)).all()


def test_percpos_95_keeps_what_scores_at_most_0_95_of_the_positive():
    score = np.array([0.77, 0.759, 0.761, 0.1])
    assert below_share(score, np.full(4, 0.8), 0.05).tolist() == [False, True, False, True]
    assert below_share(np.array([-0.8, -0.83, -0.85]), np.full(3, -0.8), 0.05).tolist() == [False, False, True]
