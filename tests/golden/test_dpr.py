"""Karpukhin et al., EMNLP 2020, Eq. 2, in numbers."""

from math import exp, log

import pytest
import torch

from noisyir.training.losses.dpr import masked_log_probs, pair_nll

NONE = torch.zeros(2, 3, dtype=torch.bool)


def test_the_loss_is_equation_2():
    scores = torch.tensor([[2.0, 1.0, -1.0], [0.5, 0.0, 3.0]])
    found = pair_nll(scores, torch.tensor([0, 2]), NONE)
    first = -log(exp(2.0) / (exp(2.0) + exp(1.0) + exp(-1.0)))
    second = -log(exp(3.0) / (exp(0.5) + exp(0.0) + exp(3.0)))
    assert found.tolist() == pytest.approx([first, second], rel=1e-6)


def test_a_passage_known_to_be_right_is_neither_positive_nor_negative():
    scores = torch.tensor([[2.0, 1.0, -1.0], [0.5, 0.0, 3.0]])
    ignored = torch.tensor([[False, True, False], [True, True, False]])
    found = pair_nll(scores, torch.tensor([0, 2]), ignored)
    assert found.tolist() == pytest.approx([-log(exp(2.0) / (exp(2.0) + exp(-1.0))), 0.0], rel=1e-6)


def test_the_log_probabilities_are_of_the_passages_that_count():
    found = masked_log_probs(torch.tensor([[0.0, 0.0, 5.0]]), torch.tensor([[False, False, True]]))
    assert found[0, :2].tolist() == pytest.approx([log(1 / 2), log(1 / 2)])
    assert found[0, 2].item() == float("-inf")


def test_half_precision_scores_are_summed_in_float32():
    scores = torch.zeros(1, 4096, dtype=torch.bfloat16)
    found = pair_nll(scores, torch.tensor([0]), torch.zeros(1, 4096, dtype=torch.bool))
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(log(4096), rel=1e-6)


def test_an_ignored_passage_gets_no_gradient():
    scores = torch.tensor([[2.0, 1.0, -1.0]], requires_grad=True)
    pair_nll(scores, torch.tensor([0]), torch.tensor([[False, True, False]])).sum().backward()
    share = exp(-1.0) / (exp(2.0) + exp(-1.0))
    assert scores.grad[0].tolist() == pytest.approx([-share, 0.0, share], rel=1e-5)
