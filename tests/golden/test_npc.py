"""Noisy pair correction (Zhang et al., Findings of EMNLP 2023), Eq. 3 and 5 to 9, in numbers."""

from math import exp, log

import numpy as np
import pytest
import torch

from noisyir.detection.combine import Scores
from noisyir.detection.in_batch import InBatch, log_rank, score_in_batch
from noisyir.detection.mixture import fit_mixture
from noisyir.detection.settings import DetectParams
from noisyir.detection.verdicts import detect
from noisyir.training.batches import Ragged, TrainingPairs
from noisyir.training.losses.dpr import masked_log_probs, pair_nll
from noisyir.training.losses.npc import consistency, move_average, npc_loss
from tests.tiny_models import static_encoder

NOTHING = torch.zeros(2, 3, dtype=torch.bool)
STUDENT, TEACHER = [[2.0, 1.0, -1.0], [0.5, 0.0, 3.0]], [[1.0, 1.5, 0.0], [0.5, 2.0, -1.0]]
DIRECTIONS = ["teacher_student", "student_teacher"]


def softmax(scores):
    return [exp(score) / sum(map(exp, scores)) for score in scores]


def divergence(p, q):
    """KL(p || q), in nats."""
    return sum(a * log(a / b) for a, b in zip(p, q, strict=True) if a > 0)


def of_rows(first, second):
    """The divergence of each row's softmax, of the scores in `first` from those in `second`."""
    return [divergence(softmax(a), softmax(b)) for a, b in zip(first, second, strict=True)]


def corrected(student, teacher, is_clean, ignored=NOTHING, weight=1.0, direction="teacher_student"):
    student, teacher = torch.tensor(student), torch.tensor(teacher)
    positive, trust = torch.tensor([0, 2]), torch.tensor(is_clean, dtype=torch.float32)
    return npc_loss(student, teacher, positive, ignored, trust, weight=weight, direction=direction)


# Eq. 3: the pair loss ---------------------------------------------------------------------------------------

# w0 and w1 are at 0.6, w1 and w2 at 0.8, w0 and w2 at 0
WORDS = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])


def scored(query, passage, statistic, **how):
    """Scores of pairs of one-word texts, all in one batch, at scale 2."""
    encoder = static_encoder(WORDS)
    texts = ["w0", "w1", "w2"]
    asked, given = np.array(query), np.array(passage)
    pairs = TrainingPairs(
        asked, given, np.arange(3), Ragged.grouped(asked, given, 3), Ragged.grouped(asked, (given + 1) % 3, 3),
        encoder.tokenize(texts, "query"), encoder.tokenize(texts, "passage"),
    )  # fmt: skip
    settings = InBatch(size=len(query), shuffles=2, scale=2.0, statistic=statistic, **how)
    return score_in_batch(encoder, pairs, np.arange(len(query)), settings, np.random.default_rng(0))[0].tolist()


# e^(2 f) of the similarities f that there are
ZERO, SIX, EIGHT, ONE = (exp(2 * similarity) for similarity in (0.0, 0.6, 0.8, 1.0))


def test_the_pair_loss_is_equation_3_with_the_other_pairs_passages_as_negatives():
    found = scored([0, 1, 2], [0, 2, 1], pair_nll)
    by_hand = [-log(ONE / (ONE + SIX + ZERO)), -log(EIGHT / (EIGHT + SIX + ONE)), -log(EIGHT / (EIGHT + ZERO + ONE))]
    assert found == pytest.approx(by_hand, rel=1e-6)


def test_a_copy_of_the_pairs_own_passage_is_no_negative():
    found = scored([0, 1, 2], [0, 1, 0], pair_nll)
    by_hand = [-log(ONE / (ONE + SIX)), -log(ONE / (ONE + 2 * SIX)), -log(ZERO / (ZERO + EIGHT))]
    assert found == pytest.approx(by_hand, rel=1e-6)


def test_mined_negatives_stand_beside_the_others_where_they_are_asked_for():
    found = scored([0, 2], [0, 2], pair_nll, hard=1)  # w1 and w0; the latter is the first pair's own passage
    by_hand = [-log(ONE / (ONE + ZERO + SIX)), -log(ONE / (ONE + 2 * ZERO + EIGHT))]
    assert found == pytest.approx(by_hand, rel=1e-6)


def test_the_rank_in_the_batch_counts_ties_against_the_pair():
    assert scored([0, 1, 2], [1, 2, 0], log_rank) == pytest.approx([log(2), log(2), log(3)])
    scores = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 2.0]])
    ignored = torch.tensor([[False, False, False], [False, True, True]])
    assert log_rank(scores, torch.tensor([0, 0]), ignored).tolist() == pytest.approx([log(2), 0.0])


# Eq. 5: the flag --------------------------------------------------------------------------------------------


def test_a_pair_is_clean_where_the_lower_components_posterior_is_one_half_or_more():
    rng = np.random.default_rng(0)
    losses = np.concatenate([rng.normal(1, 0.3, 600), rng.normal(4, 0.6, 400)])
    scores = Scores(losses, {"random": rng.normal(4, 0.6, (1000, 1))})
    found = detect(scores, DetectParams(method="gmm", assume="best"))
    mixture = fit_mixture(losses, "gaussian").in_score_unit()
    assert (mixture["clean_mean"], mixture["noisy_mean"]) == (pytest.approx(1, abs=0.1), pytest.approx(4, abs=0.1))
    between = (losses > mixture["clean_mean"]) & (losses < mixture["noisy_mean"])
    clean, noisy = (
        mixture[f"{name}_weight"]
        / mixture[f"{name}_std"]
        * np.exp(-(((losses - mixture[f"{name}_mean"]) / mixture[f"{name}_std"]) ** 2) / 2)
        for name in ("clean", "noisy")
    )
    np.testing.assert_allclose(found.p_clean[between], (clean / (clean + noisy))[between], atol=1e-6)
    np.testing.assert_array_equal(found.is_clean, np.where(between, clean >= noisy, losses < 2.5))


# Eq. 6: the teacher -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.9, 0.999, 1.0])
def test_after_k_steps_the_teacher_is_the_decayed_sum_of_the_students(decay):
    start, students = 5.0, [1.0, -2.0, 4.0, 0.5, 3.0, 3.0, -1.0]
    teacher = torch.full((2, 3), start)
    for student in students:
        move_average(teacher, torch.full((2, 3), student), decay)
    k = len(students)
    expected = decay**k * start + sum((1 - decay) * decay ** (k - 1 - j) * s for j, s in enumerate(students))
    assert teacher.flatten().tolist() == pytest.approx([expected] * 6, rel=1e-5)


def test_towards_a_resting_student_the_distance_falls_by_decay_to_the_k():
    teacher, student = torch.tensor([5.0]), torch.tensor([1.0], requires_grad=True)
    for _ in range(100):
        move_average(teacher, student, 0.97)
    assert teacher.item() - 1.0 == pytest.approx(0.97**100 * 4.0, rel=1e-3)
    assert student.item() == 1.0 and not teacher.requires_grad


# Eq. 7 to 9: the losses -------------------------------------------------------------------------------------


def test_the_consistency_loss_is_equation_8_in_either_direction():
    student, teacher = (masked_log_probs(torch.tensor(scores), NOTHING) for scores in (STUDENT, TEACHER))
    to_student = consistency(student, teacher, NOTHING, "teacher_student").tolist()
    assert to_student == pytest.approx(of_rows(TEACHER, STUDENT), rel=1e-5), "KL(teacher || student)"
    literal = consistency(student, teacher, NOTHING, "student_teacher").tolist()
    assert literal == pytest.approx(of_rows(STUDENT, TEACHER), rel=1e-5), "KL(student || teacher)"
    assert to_student != pytest.approx(literal, rel=0.1)


@pytest.mark.parametrize("weight", [1.0, 0.25])
def test_the_loss_is_equation_9_a_flagged_pair_keeps_the_consistency_loss_alone(weight):
    first, second = (weight * value for value in of_rows(TEACHER, STUDENT))
    contrastive = [-log(softmax(STUDENT[0])[0]), -log(softmax(STUDENT[1])[2])]
    found = corrected(STUDENT, TEACHER, [True, False], weight=weight)
    assert found.tolist() == pytest.approx([contrastive[0] + first, second], rel=1e-5)
    found = corrected(STUDENT, TEACHER, [False, True], weight=weight)
    assert found.tolist() == pytest.approx([first, contrastive[1] + second], rel=1e-5)


def test_a_doubted_pair_keeps_its_share_of_the_contrastive_loss():
    first, second = of_rows(TEACHER, STUDENT)
    contrastive = [-log(softmax(STUDENT[0])[0]), -log(softmax(STUDENT[1])[2])]
    found = corrected(STUDENT, TEACHER, [0.25, 0.4])
    assert found.tolist() == pytest.approx([0.25 * contrastive[0] + first, 0.4 * contrastive[1] + second], rel=1e-5)


def test_without_a_weight_the_consistency_loss_is_gone():
    assert corrected(STUDENT, TEACHER, [True, False], weight=0.0).tolist() == pytest.approx(
        [-log(softmax(STUDENT[0])[0]), 0.0], rel=1e-6
    )


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_ignored_passages_are_in_neither_ranking(direction):
    ignored = torch.tensor([[False, True, False], [True, False, False]])
    found = corrected(STUDENT, TEACHER, [True, False], ignored, direction=direction)
    student, teacher = [[2.0, -1.0], [0.0, 3.0]], [[1.0, 0.0], [2.0, -1.0]]
    pulled = of_rows(teacher, student) if direction == "teacher_student" else of_rows(student, teacher)
    assert found.tolist() == pytest.approx([-log(softmax(student[0])[0]) + pulled[0], pulled[1]], rel=1e-5)


def test_towards_the_student_the_gradient_is_that_of_a_soft_label():
    student = torch.tensor(STUDENT, requires_grad=True)
    positive, flagged = torch.tensor([0, 2]), torch.zeros(2)
    loss = npc_loss(student, torch.tensor(TEACHER), positive, NOTHING, flagged, weight=1.0, direction="teacher_student")
    loss.sum().backward()
    for row in range(2):
        by_hand = np.subtract(softmax(STUDENT[row]), softmax(TEACHER[row]))
        np.testing.assert_allclose(student.grad[row], by_hand, atol=1e-6)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("ignored", [NOTHING, torch.tensor([[False, True, False], [True, True, False]])])
def test_a_teacher_equal_to_the_student_changes_nothing(direction, ignored):
    """The consistency loss is zero, and so is its gradient; none is lost to the infinities of ignored passages."""
    student = torch.tensor(STUDENT, requires_grad=True)
    positive, trust = torch.tensor([0, 2]), torch.tensor([0.0, 1.0])
    loss = npc_loss(student, torch.tensor(STUDENT), positive, ignored, trust, weight=1.0, direction=direction)
    contrastive = pair_nll(student, positive, ignored)
    torch.testing.assert_close(loss, trust * contrastive, atol=1e-7, rtol=0)
    (gradient,) = torch.autograd.grad(loss.sum(), student)
    (plain,) = torch.autograd.grad(contrastive[1], student)
    torch.testing.assert_close(gradient, plain, atol=1e-7, rtol=0)
