"""The loss of RocketQA's cross-encoder in numbers: each passage of a list by itself, yes or no."""

from math import exp, log

import pytest
import torch

from noisyir.training.losses.dpr import pointwise_loss

# two queries; the right passage is in column 0
RANKER = [[2.0, 1.0, -0.5, 2.5, 0.0], [-1.0, 0.5, 0.0, 0.25, -3.0]]


def sigmoid(score):
    return 1 / (1 + exp(-score))


def by_hand(scores):
    return -(log(sigmoid(scores[0])) + sum(log(1 - sigmoid(score)) for score in scores[1:])) / len(scores)


def test_the_loss_is_the_mean_binary_cross_entropy_of_the_list():
    assert pointwise_loss(torch.tensor(RANKER)).tolist() == pytest.approx([by_hand(s) for s in RANKER], rel=1e-6)
    # at scores of 0, every passage costs log 2, however many there are
    assert pointwise_loss(torch.zeros(1, 5)).item() == pytest.approx(log(2)) == by_hand([0.0] * 5)


def test_it_is_the_two_class_cross_entropy_of_the_official_code():
    """A classifier of two labels has the difference of its logits as log odds."""
    logits = torch.tensor([[0.3, 2.3], [-1.0, 0.0], [0.5, 0.0], [-1.25, 1.25], [4.0, 4.0]])
    labels = torch.tensor([1, 0, 0, 0, 0])
    expected = torch.nn.functional.cross_entropy(logits, labels)
    found = pointwise_loss((logits[:, 1] - logits[:, 0])[None])
    assert found.item() == pytest.approx(expected.item(), rel=1e-6) == pytest.approx(by_hand(RANKER[0]), rel=1e-6)


def test_its_gradient_is_probability_minus_label():
    scores = torch.tensor(RANKER, requires_grad=True)
    pointwise_loss(scores).sum().backward()
    for row, given in enumerate(RANKER):
        labels = [1.0, 0.0, 0.0, 0.0, 0.0]
        wanted = [(sigmoid(score) - label) / 5 for score, label in zip(given, labels, strict=True)]
        assert scores.grad[row].tolist() == pytest.approx(wanted, abs=1e-6)


def test_its_minimum_is_the_share_of_relevant_passages_whatever_is_added_to_all_scores_before():
    """One relevant passage to four others that score alike: log odds of 1 to 4, wherever the descent starts."""
    for start in (-3.0, 5.0):
        score = torch.tensor(start, requires_grad=True)
        optimiser = torch.optim.LBFGS([score], line_search_fn="strong_wolfe", max_iter=50)

        def closure(score=score, optimiser=optimiser):
            optimiser.zero_grad()
            loss = pointwise_loss(score.expand(1, 5)).sum()
            loss.backward()
            return loss

        optimiser.step(closure)
        assert score.item() == pytest.approx(log(1 / 4), abs=1e-3)


def test_scores_far_apart_stay_finite_and_half_precision_is_not_kept():
    far = torch.tensor([[-400.0, 400.0]], requires_grad=True)
    loss = pointwise_loss(far)
    assert loss.item() == pytest.approx(400.0)
    loss.sum().backward()
    assert far.grad.tolist() == [[-0.5, 0.5]]
    assert pointwise_loss(torch.ones(1, 2, dtype=torch.bfloat16)).dtype == torch.float32
