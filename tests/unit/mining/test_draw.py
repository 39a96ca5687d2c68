"""Drawing by weight: numbering, fallbacks and edge cases; chances are tested in tests/properties/test_samplers.py."""

import numpy as np

from noisyir.mining.candidates import dot_rows
from noisyir.mining.draw import draw, shares
from noisyir.mining.samplers import Uniform, topk
from tests.scored import scored


def test_first_draws_follow_the_weights():
    weights, many = np.array([1.0, 2.0, 0.0, 5.0]), 20_000
    with np.errstate(divide="ignore"):
        tier = np.log(np.tile(weights, many))
    drawn = draw(tier[None], np.repeat(np.arange(many), 4), np.tile(np.arange(4), many), 1, np.random.default_rng(0))
    assert (drawn.draw == 0).all() and (drawn.tier == 0).all()
    chosen = np.bincount(drawn.rows % 4, minlength=4) / many
    np.testing.assert_allclose(chosen, weights / weights.sum(), atol=4 * np.sqrt(0.25 / many))


def test_uniform_weights_give_every_pair_of_candidates_the_same_chance():
    many = 20_000
    query, document = np.repeat(np.arange(many), 3), np.tile(np.arange(3), many)
    drawn = draw(Uniform().weights(scored(document, document))[None], query, document, 2, np.random.default_rng(0))
    left_out = 3 - document[drawn.rows].reshape(many, 2).sum(axis=1)
    np.testing.assert_allclose(np.bincount(left_out) / many, 1 / 3, atol=4 * np.sqrt(0.25 / many))


def test_a_query_that_is_large_is_drawn_whole_in_the_order_of_its_ranks():
    rng = np.random.default_rng(0)
    rank = rng.permutation(5000) + 1
    drawn = draw(topk(rank)[None], np.zeros(5000, np.int64), np.arange(5000), 5000, rng)
    assert rank[drawn.rows].tolist() == list(range(1, 5001))


def test_later_tiers_serve_only_once_the_earlier_ones_are_used_up():
    never = -np.inf
    fallbacks = np.array([[0.0, never, never, never], [9.0, 0.0, never, never], [9.0, 9.0, 0.0, never]])
    drawn = draw(fallbacks, np.zeros(4, np.int64), np.arange(4), 4, np.random.default_rng(0))
    assert drawn.rows.tolist() == drawn.tier.tolist() == drawn.draw.tolist() == [0, 1, 2]


def test_weights_far_from_zero_keep_their_differences():
    weights = np.array([-1e12, -1e12 + 50, -1e12 + 100])
    drawn = draw(weights[None], np.zeros(3, np.int64), np.arange(3), 3, np.random.default_rng(0))
    assert drawn.rows.tolist() == [2, 1, 0]
    np.testing.assert_allclose(shares(weights, np.zeros(3, np.int64)), [0, np.exp(-50), 1], atol=1e-12)


def test_no_candidates_give_no_draws():
    nobody = np.empty(0, np.int64)
    for weights, rows in ((np.empty((1, 0)), nobody), (np.full((2, 3), -np.inf), np.arange(3))):
        drawn = draw(weights, rows, rows, 5, np.random.default_rng(0))
        assert len(drawn.rows) == len(drawn.draw) == len(drawn.tier) == 0
    assert shares(np.full(2, -np.inf), np.array([0, 1])).tolist() == [0, 0]


def test_products_of_rows_do_not_depend_on_the_blocks():
    rng = np.random.default_rng(0)
    left, right = (rng.normal(size=(20, 24)).astype(np.float32) for _ in range(2))
    rows = rng.integers(20, size=(2, 101))
    one, many = (dot_rows(left, rows[0], right, rows[1], block) for block in (7, 1000))
    assert (one == many).all()
    np.testing.assert_allclose(one, (left @ right.T)[rows[0], rows[1]], rtol=1e-5, atol=1e-5)
