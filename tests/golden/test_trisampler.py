"""TriSampler (Yang et al., arXiv:2402.11855): its equations, written out by hand, and what it does without mass."""

import numpy as np
import pytest
import torch

from noisyir.mining.candidates import Candidates
from noisyir.mining.draw import draw, shares
from noisyir.mining.filters import angle
from noisyir.mining.samplers import TriSampler, by_deviation, in_triangle, near_positive
from noisyir.training.losses.dpr import pair_nll

SCORES = np.array([9.0, 8.0, 6.0, 3.0])
POSITIVE = np.full(4, 8.0)


def candidates(score, positive, similarity, norms=(1.0, 1.0, 1.0)):
    """One query's candidates in rank order; norms of q, d+ and d-."""
    count = len(score)
    columns = (np.broadcast_to(np.asarray(column, float), count) for column in (score, positive, similarity, *norms))
    return Candidates(np.zeros(count, np.int64), np.arange(count), np.arange(1, count + 1), *columns)


def weights_of(found, **settings):
    """The shares that the sampler's own tier gives to all candidates."""
    settings = {"draw": "one_shot"} | settings
    weights = TriSampler(**settings).with_fallbacks(found, 2, np.random.default_rng(0))
    return shares(weights["trisampler"], found.query)


def test_equation_3_a_negatives_gradient_is_its_softmax_weight_and_the_positives_saturates_at_minus_1():
    nobody = torch.zeros(1, 3, dtype=torch.bool)
    score = torch.tensor([[2.0, 1.0, 3.0]], requires_grad=True)
    pair_nll(score, torch.tensor([0]), nobody).sum().backward()
    total = np.exp(2) + np.exp(1) + np.exp(3)
    expected = [-(np.exp(1) + np.exp(3)) / total, np.exp(1) / total, np.exp(3) / total]
    np.testing.assert_allclose(score.grad[0].numpy(), expected, rtol=1e-5)
    hard = torch.tensor([[2.0, 1.0, 30.0]], requires_grad=True)
    pair_nll(hard, torch.tensor([0]), nobody).sum().backward()
    assert hard.grad[0, 0].item() == pytest.approx(-1)


def test_equation_4_is_the_difference_of_two_angles():
    found = candidates([0.5, -1.0, 2.0], 1.0, 0.0, norms=(2.0, 1.0, 1.0))  # cosines 0.25, -0.5, 1; 0.5 of the positive
    expected = [np.degrees(np.arccos(0.25)) - 60, 120 - 60, 60 - 0]
    np.testing.assert_allclose(angle(found), expected)


def test_equation_5():
    weights = np.exp(near_positive(SCORES, POSITIVE))
    np.testing.assert_allclose(weights, [np.exp(-((9 - 8) ** 2) / 4), 1, np.exp(-((6 - 8) ** 2) / 4), np.exp(-25 / 4)])
    np.testing.assert_allclose(near_positive(SCORES / 20, POSITIVE / 20, 20.0), np.log(weights))


def test_equation_5_in_standard_deviations_of_the_querys_candidates():
    query = np.array([0, 0, 0, 1, 1])
    score = np.array([1.0, 2.0, 3.0, 5.0, 5.0])
    deviation = np.sqrt(((1 - 2) ** 2 + 0 + (3 - 2) ** 2) / 3)
    np.testing.assert_allclose(by_deviation(query, score), [1 / deviation] * 3 + [1, 1])


def test_equation_6():
    log_weights = in_triangle(np.array([9.5, 8.0, 9.0, 1.0]), SCORES)
    np.testing.assert_allclose(np.exp(log_weights), [9.5 - 9, 0, 9 - 6, 0])


def test_one_shot_is_equation_5_times_equation_6():
    found = candidates([9, 8, 6, 3], 8, [9.5, 8.0, 9.0, 1.0])
    by_hand = np.array([np.exp(-1 / 4) * 0.5, 0, np.exp(-4 / 4) * 3, 0])
    np.testing.assert_allclose(weights_of(found), by_hand / by_hand.sum())


def test_equation_6_between_cosines_and_with_the_positive_at_the_querys_length():
    norms = (2.0, 4.0, 0.5)  # of q, d+ and d-
    found = candidates([0.5, 0.8], 0.65, [1.6, 1.2], norms)
    near = np.exp(-(0.15**2) / 4)
    cosine = near * np.array([1.6 / (4 * 0.5) - 0.5 / (2 * 0.5), max(0, 1.2 / 2 - 0.8 / 1)])
    np.testing.assert_allclose(weights_of(found, doc_sim="cosine"), cosine / cosine.sum())
    assert weights_of(found, doc_sim="cosine")[1] == 0
    matched = near * np.array([1.6 * 2 / 4 - 0.5, max(0, 1.2 * 2 / 4 - 0.8)])
    np.testing.assert_allclose(weights_of(found, doc_sim="norm_matched"), matched / matched.sum())
    dot = near * np.array([1.6 - 0.5, 1.2 - 0.8])
    np.testing.assert_allclose(weights_of(found, doc_sim="dot"), dot / dot.sum())


def test_for_unit_vectors_equation_6_is_the_triangle_with_60_degrees_at_the_query():
    rng = np.random.default_rng(0)
    query = np.array([1.0, 0.0, 0.0])
    turn, around = rng.uniform(0.2, 1.2), rng.uniform(0, 2 * np.pi, (2, 50))
    # both documents at one angle from the query, so that s- = s+
    positive, other = (
        np.stack([np.full(50, np.cos(turn)), np.sin(turn) * np.cos(a), np.sin(turn) * np.sin(a)], 1) for a in around
    )
    log_weights = in_triangle((positive * other).sum(1), other @ query)
    to_positive, to_other = positive - query, other - query
    cosine = (to_positive * to_other).sum(1) / np.linalg.norm(to_positive, axis=1) / np.linalg.norm(to_other, axis=1)
    inside = np.degrees(np.arccos(np.clip(cosine, -1, 1))) < 60
    assert 0 < inside.sum() < 50
    np.testing.assert_array_equal(log_weights > -np.inf, inside)


def drawn_by_tier(found, rng=0, **settings):
    generator = np.random.default_rng(rng)
    weights = TriSampler(**settings).with_fallbacks(found, 3, generator)
    drawn = draw(list(weights.values()), found.query, found.document, 3, generator)
    names = list(weights)
    return [(int(row), names[tier]) for row, tier in zip(drawn.rows, drawn.tier, strict=True)]


def test_transitional_negatives_are_drawn_by_equation_5_and_the_final_ones_among_them():
    found = candidates([8.0] * 4 + [-90.0] * 4, 8.0, 100.0)
    for seed in range(20):
        assert {row for row, _ in drawn_by_tier(found, seed, transitional=4)} < {0, 1, 2, 3}


def test_four_transitional_negatives_for_each_final_one_unless_told_otherwise():
    found = candidates(np.full(50, 8.0), 8.0, 9.0)
    for given, size in ({}, 12), ({"transitional": 7}, 7), ({"transitional": 80}, 50):
        weights = TriSampler(**given).with_fallbacks(found, 3, np.random.default_rng(0))
        assert (weights["trisampler"] > -np.inf).sum() == (weights["eq_5"] > -np.inf).sum() == size
        assert (weights["rank"] > -np.inf).all()


def test_where_equation_6_leaves_too_few_equation_5_fills_up_and_then_the_rank():
    one_inside = candidates([8.0] * 4 + [-90.0] * 4, 8.0, [0, 0, 9, 0, 0, 0, 0, 0])
    for seed in range(20):
        (first, *rest) = drawn_by_tier(one_inside, seed, transitional=4)
        assert first == (2, "trisampler")
        assert {row for row, _ in rest} < {0, 1, 3} and {tier for _, tier in rest} == {"eq_5"}
    assert drawn_by_tier(candidates([8, -90, -95], 8, 9), transitional=1) == [
        (0, "trisampler"), (1, "rank"), (2, "rank")
    ]  # fmt: skip


@pytest.mark.parametrize("how", ["two_stage", "one_shot"])
def test_no_mass_at_all_is_no_failure(how):
    nothing = candidates(np.full(6, -1e8), 1e8, -1e9)  # every w1 underflows, and every w2 is 0
    drawn = drawn_by_tier(nothing, draw=how)
    assert len(drawn) == 3 and {tier for _, tier in drawn} == {"eq_5"}
