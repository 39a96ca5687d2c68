"""Drawing by weight: chances, numbering and edge cases."""

import numpy as np

from noisyir.mining.draw import draw, uniform_weights


def test_first_draws_follow_the_weights():
    weights = np.array([1.0, 2.0, 0.0, 5.0])
    many = 20_000
    drawn, numbers = draw(np.tile(weights, many), np.repeat(np.arange(many), 4), 1, np.random.default_rng(0))
    assert (numbers == 0).all()
    shares = np.bincount(drawn % 4, minlength=4) / many
    np.testing.assert_allclose(shares, weights / weights.sum(), atol=4 * np.sqrt(0.25 / many))


def test_uniform_weights_give_every_pair_of_candidates_the_same_chance():
    many = 20_000
    eligible = np.tile([True, True, False, True], many)
    drawn, _ = draw(uniform_weights(eligible), np.repeat(np.arange(many), 4), 2, np.random.default_rng(0))
    left_out = 0 + 1 + 3 - (drawn % 4).reshape(many, 2).sum(axis=1)
    shares = np.bincount(left_out, minlength=4)[[0, 1, 3]] / many
    np.testing.assert_allclose(shares, 1 / 3, atol=4 * np.sqrt(0.25 / many))


def test_no_candidates_give_no_draws():
    drawn, numbers = draw(np.zeros(3), np.array([0, 0, 1]), 5, np.random.default_rng(0))
    assert len(drawn) == len(numbers) == 0
