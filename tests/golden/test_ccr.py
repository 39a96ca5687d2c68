"""The contrastive confidence regulariser (Wang et al., AAAI 2024): Eq. 2, 6 and 8 by hand, and its gradient."""

from math import exp, inf, log

import pytest
import torch

from noisyir.training.losses.dpr import ccr, masked_log_probs, pair_nll, robust_loss

NOBODY = torch.zeros(1, 4, dtype=torch.bool)
FIRST = torch.tensor([0])


def robust(scores, beta, positive=FIRST, ignored=NOBODY):
    """Eq. 8 of every query."""
    regulariser = ccr(masked_log_probs(scores, ignored), ignored)
    return robust_loss(pair_nll(scores, positive, ignored), regulariser, beta)


def test_equations_2_6_and_8_in_small_numbers():
    """Scores ln 4, ln 2, ln 1, ln 1 of the positive and three negatives: f = 1/2, 1/4, 1/8, 1/8."""
    scores = torch.tensor([[4.0, 2.0, 1.0, 1.0]]).log()
    nce = log(2)
    regulariser = (log(2) + log(4) + log(8) + log(8)) / 4  # (1 + 2 + 3 + 3) / 4 ln 2
    assert regulariser == pytest.approx(9 / 4 * log(2))
    assert ccr(scores.log_softmax(1), NOBODY).tolist() == pytest.approx([regulariser])
    for beta in (0.0, 1e-3, 0.5, 1.0, 6.0):
        assert robust(scores, beta).item() == pytest.approx(nce - beta * regulariser, abs=1e-6)


def test_equation_8_is_of_each_query_and_so_of_their_mean():
    scores = torch.tensor([[2.0, 1.0, -1.0], [0.5, 0.0, 3.0]])
    nobody = torch.zeros(2, 3, dtype=torch.bool)
    by_hand = []
    for row, positive in ([2.0, 1.0, -1.0], 0), ([0.5, 0.0, 3.0], 2):
        losses = [-log(exp(score) / sum(map(exp, row))) for score in row]  # Eq. 6
        by_hand.append(losses[positive] - 0.5 * sum(losses) / 3)
    found = robust(scores, 0.5, torch.tensor([0, 2]), nobody)
    assert found.tolist() == pytest.approx(by_hand, rel=1e-5)
    log_probs = masked_log_probs(scores, nobody)
    nce = pair_nll(scores, torch.tensor([0, 2]), nobody).mean()
    assert robust_loss(nce, ccr(log_probs, nobody).mean(), 0.5).item() == pytest.approx(sum(by_hand) / 2, rel=1e-5)


def test_it_is_one_term_more_on_the_log_softmax():
    """As the README of the authors' code has it: nll - beta * (-mean of the log-softmax), over the passages."""
    scores = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    positive = torch.tensor([4, 0, 2])
    log_probs = scores.log_softmax(dim=1)
    expected = torch.nn.functional.nll_loss(log_probs, positive, reduction="none") + 0.5 * log_probs.mean(dim=1)
    torch.testing.assert_close(robust(scores, 0.5, positive, torch.zeros(3, 5, dtype=torch.bool)), expected)


def test_beta_0_is_nce():
    scores = torch.tensor([[0.3, -0.2, 1.7, 0.0]], requires_grad=True)
    robust(scores, 0.0).sum().backward()
    plain = scores.detach().clone().requires_grad_()
    nce = pair_nll(plain, FIRST, NOBODY)
    nce.sum().backward()
    assert robust(scores, 0.0).item() == nce.item()
    assert torch.equal(scores.grad, plain.grad)


@pytest.mark.parametrize("beta", [0.0, 1e-4, 0.5, 1.0, 3.0])
def test_its_gradient_is_minus_1_at_the_positive_plus_1_less_beta_times_f_plus_beta_by_the_pools_size(beta):
    values = [1.5, -0.5, 2.0, 0.1]
    scores = torch.tensor([values], requires_grad=True)
    robust(scores, beta).sum().backward()
    share = [exp(value) / sum(map(exp, values)) for value in values]
    by_hand = [-(j == 0) + (1 - beta) * share[j] + beta / 4 for j in range(4)]
    assert scores.grad[0].tolist() == pytest.approx(by_hand, abs=1e-6)


def test_beta_1_removes_the_softmax():
    scores = torch.tensor([[1.5, -0.5, 2.0, 0.1]])
    assert robust(scores, 1.0).item() == pytest.approx((1.5 - 0.5 + 2.0 + 0.1) / 4 - 1.5, rel=1e-5)


def test_up_to_1_no_negative_is_pulled_and_above_a_likely_one_is():
    scores = torch.tensor([[0.0, 4.0, 0.0, 0.0]], requires_grad=True)  # the second is all but certain
    for beta, pulled in (0.5, False), (1.0, False), (6.0, True):
        (gradient,) = torch.autograd.grad(robust(scores, beta).sum(), scores)
        assert (gradient[0, 1].item() < 0) is pulled
        share = exp(4) / (exp(4) + 3)
        assert pulled is (beta > 1 and share > beta / 4 / (beta - 1))
        assert (gradient[0, 2:] > 0).all()


def test_with_dot_products_there_is_no_lower_bound():
    """One positive and five negatives sent to -1000: each lowers the loss by beta / 6 for every unit it is away."""
    far, nobody = torch.tensor([[0.0] + [-1000.0] * 5]), torch.zeros(1, 6, dtype=torch.bool)
    for beta in 1e-3, 0.5:
        assert robust(far, beta, FIRST, nobody).item() == pytest.approx(-beta * 5000 / 6)


def test_ignored_passages_count_neither_in_the_sum_nor_in_the_number():
    ignored = torch.tensor([[False, True, False, True]])
    scores = torch.tensor([[2.0, 9.0, -1.0, -9.0]], requires_grad=True)
    log_probs = masked_log_probs(scores, ignored)
    assert log_probs[0, 1].item() == -inf
    total = exp(2.0) + exp(-1.0)
    by_hand = -(log(exp(2.0) / total) + log(exp(-1.0) / total)) / 2
    found = ccr(log_probs, ignored)
    assert found.item() == pytest.approx(by_hand, rel=1e-6)
    found.sum().backward()
    # d/ds_j of lse - mean(s) over the two that count
    expected = [exp(2.0) / total - 1 / 2, 0.0, exp(-1.0) / total - 1 / 2, 0.0]
    assert scores.grad[0].tolist() == pytest.approx(expected, abs=1e-6)


def test_a_query_whose_positive_alone_counts_has_none():
    alone = torch.tensor([[False, True, True, True]])
    scores = torch.tensor([[2.0, 9.0, -1.0, -9.0]], requires_grad=True)
    loss = robust(scores, 0.5, FIRST, alone)
    loss.sum().backward()
    assert loss.item() == 0.0 and not scores.grad.any()


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_half_precision_is_summed_in_float32(kind):
    size = 4096
    scores, nobody = torch.zeros(1, size, dtype=kind), torch.zeros(1, size, dtype=torch.bool)
    for log_probs in masked_log_probs(scores, nobody), torch.full((1, size), -8.0, dtype=kind):
        found = ccr(log_probs, nobody)
        assert found.dtype == torch.float32
        assert found.item() == pytest.approx(-log_probs[0, 0].item(), rel=1e-6)
    large = torch.tensor([[6e4, -6e4]], dtype=torch.float16)  # near the ends of half precision
    assert robust(large, 0.5, FIRST, torch.zeros(1, 2, dtype=torch.bool)).item() == pytest.approx(
        -0.25 * 1.2e5, rel=1e-2
    )
