"""The losses of distillation in numbers, and beside what three popular code bases compute of the same tensors."""

from math import exp, inf, log, nan

import numpy as np
import pytest
import torch
from sentence_transformers.sentence_transformer.losses import DistillKLDivLoss, MarginMSELoss
from torch.nn import functional

from noisyir.training.losses.distillation import UNDERFLOW, listwise_kl, lse_pair, margin_mse, too_good, underflowing
from noisyir.training.losses.dpr import pair_nll

STUDENT, TEACHER = [[2.0, 1.0, -1.0], [0.5, 0.0, 3.0]], [[1.0, 1.5, 0.0], [0.5, 2.0, -1.0]]
ALL, NONE = torch.ones(2, 3, dtype=torch.bool), torch.zeros(2, 3, dtype=torch.bool)


def softmax(scores, temperature=1.0):
    powers = [exp(score / temperature) for score in scores]
    return [power / sum(powers) for power in powers]


def divergence(p, q):
    return sum(a * log(a / b) for a, b in zip(p, q, strict=True) if a > 0)


@pytest.mark.parametrize(("student_at", "teacher_at"), [(1.0, 1.0), (0.05, 0.3), (2.0, 0.25)])
def test_the_listwise_loss_is_the_divergence_of_two_softmaxes_each_at_its_temperature(student_at, teacher_at):
    found = listwise_kl(
        torch.tensor(STUDENT),
        torch.tensor(TEACHER),
        ALL,
        student_temperature=student_at,
        teacher_temperature=teacher_at,
    )
    by_hand = [
        divergence(softmax(t, teacher_at), softmax(s, student_at)) for s, t in zip(STUDENT, TEACHER, strict=True)
    ]
    assert found.tolist() == pytest.approx(by_hand, rel=1e-5)


@pytest.mark.parametrize("unknown", [nan, inf, -1e30])
def test_what_the_teacher_did_not_score_is_in_neither_softmax(unknown):
    student = torch.tensor(STUDENT, requires_grad=True)
    teacher = torch.tensor([[1.0, unknown, 0.0], [unknown, 2.0, unknown]])
    listed = torch.tensor([[True, False, True], [False, True, False]])
    found = listwise_kl(student, teacher, listed)
    assert found.tolist() == pytest.approx([divergence(softmax([1.0, 0.0]), softmax([2.0, -1.0])), 0.0], abs=1e-6)
    margins = margin_mse(student, teacher, listed)
    assert margins.tolist() == pytest.approx([(3.0 - 1.0) ** 2, 0.0])
    (gradient,) = torch.autograd.grad((found + margins).sum(), student)
    assert gradient.isfinite().all() and not gradient[1].any() and gradient[0, 1] == 0.0


def test_the_gradient_is_the_difference_of_the_softmaxes_and_the_teacher_gets_none():
    student, teacher = (torch.tensor(scores, requires_grad=True) for scores in (STUDENT, TEACHER))
    listwise_kl(student, teacher, ALL, student_temperature=0.5).sum().backward()
    for row in range(2):
        by_hand = np.subtract(softmax(STUDENT[row], 0.5), softmax(TEACHER[row])) / 0.5
        np.testing.assert_allclose(student.grad[row], by_hand, atol=1e-6)
    assert teacher.grad is None


# Three code bases on the same tensors -----------------------------------------------------------------------


@pytest.fixture
def tensors():
    """Vectors of 5 queries and their 7 documents, similarities, and a teacher's logits."""
    rng = torch.Generator().manual_seed(0)
    queries, documents = torch.randn(5, 8, generator=rng), torch.randn(7, 5, 8, generator=rng)
    queries, documents = functional.normalize(queries, dim=-1), functional.normalize(documents, dim=-1)
    return queries, documents, torch.einsum("qd,pqd->qp", queries, documents), 4 * torch.randn(5, 7, generator=rng)


@pytest.mark.parametrize(("student_at", "teacher_at"), [(1.0, 1.0), (0.05, 1.5), (0.25, 2.0)])
def test_sentence_transformers_multiplies_by_the_students_temperature_squared(tensors, student_at, teacher_at):
    queries, documents, student, teacher = tensors
    theirs = DistillKLDivLoss(
        torch.nn.Identity(), student_temperature=student_at, teacher_temperature=teacher_at
    ).compute_loss_from_embeddings([queries, *documents], teacher)
    ours = listwise_kl(
        student, teacher, torch.ones_like(teacher, dtype=torch.bool),
        student_temperature=student_at, teacher_temperature=teacher_at,
    ).mean()  # fmt: skip
    torch.testing.assert_close(ours * student_at**2, theirs, atol=1e-6, rtol=1e-5)


def test_sentence_transformers_margins_are_ours_at_temperatures_of_one(tensors):
    queries, documents, student, teacher = tensors
    theirs = MarginMSELoss(torch.nn.Identity()).compute_loss_from_embeddings([queries, *documents], teacher)
    ours = margin_mse(student, teacher, torch.ones_like(teacher, dtype=torch.bool)).mean()
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-5)


def test_tevatron_has_one_temperature_and_no_factor(tensors):
    """Its distillation trainer: KLDivLoss(batchmean) of log_softmax(student / T) and softmax(teacher / T)."""
    _, _, student, teacher = tensors
    theirs = functional.kl_div(
        (student / 0.3).log_softmax(dim=1), (teacher / 0.3).softmax(dim=1), reduction="batchmean"
    )
    ours = listwise_kl(
        student, teacher, torch.ones_like(teacher, dtype=torch.bool), student_temperature=0.3, teacher_temperature=0.3
    )
    torch.testing.assert_close(ours.mean(), theirs, atol=1e-6, rtol=1e-5)


def test_flag_embedding_has_a_soft_cross_entropy_whose_gradient_is_ours(tensors):
    """Its `distill_loss`: -mean over queries of sum(teacher's softmax * log_softmax of the student / 0.02)."""
    _, _, student, teacher = tensors
    student = student.clone().requires_grad_()
    targets = teacher.softmax(dim=-1)
    theirs = -torch.mean(torch.sum(torch.log_softmax(student / 0.02, dim=-1) * targets, dim=-1))
    ours = listwise_kl(student, teacher, torch.ones_like(teacher, dtype=torch.bool), student_temperature=0.02).mean()
    entropy = -(targets * targets.log()).sum(dim=-1).mean()
    torch.testing.assert_close(ours + entropy, theirs, atol=1e-5, rtol=1e-5)
    gradients = [torch.autograd.grad(loss, student, retain_graph=True)[0] for loss in (ours, theirs)]
    torch.testing.assert_close(*gradients, atol=1e-6, rtol=1e-5)


# Several positives, masks, spread ---------------------------------------------------------------------------


def test_lse_pair_sums_over_every_pair_of_a_positive_and_a_negative():
    scores = torch.tensor([[2.0, 1.0, -1.0, 0.5, 9.0]])
    is_positive = torch.tensor([[True, True, False, False, False]])
    ignored = torch.tensor([[False, False, False, False, True]])
    by_hand = log(1 + sum(exp(n - p) for p in (2.0, 1.0) for n in (-1.0, 0.5)))
    assert lse_pair(scores, is_positive, ignored).tolist() == pytest.approx([by_hand], rel=1e-6)


def test_lse_pair_of_one_positive_is_the_contrastive_loss_and_without_negatives_nothing():
    scores, positive = torch.tensor(STUDENT), torch.tensor([0, 2])
    one = functional.one_hot(positive, 3).bool()
    torch.testing.assert_close(lse_pair(scores, one, NONE), pair_nll(scores, positive, NONE))
    torch.testing.assert_close(lse_pair(scores, one, ~one), torch.zeros(2))


def test_a_mask_by_the_share_of_the_top_spares_the_positive_and_what_was_not_scored():
    teacher = torch.tensor([[0.5, 0.61, 1.0, 0.6, nan], [1.0, 0.59, 0.2, 0.7, nan]])
    found = too_good(teacher, torch.tensor([0, 0]), share_of_top=0.6)
    assert found.tolist() == [[False, True, True, False, False], [False, False, False, True, False]]


def test_a_mask_over_the_positive_wants_more_than_the_margin():
    scores = torch.tensor([[0.5, 0.59, 0.61, nan], [nan, 0.9, 0.1, 0.2]])
    found = too_good(scores, torch.tensor([0, 0]), over_positive=0.1)
    assert found.tolist() == [[False, False, True, False], [False] * 4]  # of an unscored positive nothing is known
    assert not too_good(scores, torch.tensor([0, 0])).any()


def test_past_the_limit_of_spread_over_temperature_a_softmax_has_zeros():
    near, far = torch.tensor([0.0, UNDERFLOW - 20]), torch.tensor([0.0, UNDERFLOW + 10])
    assert not (near.softmax(0) == 0).any() and (far.softmax(0) == 0).any()
    assert underflowing(np.array([UNDERFLOW - 20, UNDERFLOW + 10]), 1.0) == 0.5
    assert underflowing(np.array([UNDERFLOW - 20, UNDERFLOW + 10]), 2.0) == 0.0
