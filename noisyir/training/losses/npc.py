"""The losses of noisy pair correction (Zhang et al., Findings of EMNLP 2023, Eq. 5 to 9).

A teacher, the moving average of the student's weights, ranks the same passages; every pair is pulled towards that
ranking, and clean pairs towards their own passage as well.
"""

from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from noisyir.training.losses.dpr import masked_log_probs

Direction = Literal["teacher_student", "student_teacher"]


def consistency(
    student: Float[Tensor, "query passage"],
    teacher: Float[Tensor, "query passage"],
    ignored: Bool[Tensor, "query passage"],
    direction: Direction,
) -> Float[Tensor, " query"]:
    """KL divergence between two log-probability rankings of each query's passages, in nats (Eq. 7 and 8).

    `teacher_student` is KL(teacher || student), the soft-label cross-entropy less a constant; `student_teacher` is the
    paper's notation read literally.
    """
    left, right = (teacher, student) if direction == "teacher_student" else (student, teacher)
    difference = (left - right).masked_fill(ignored, 0.0)  # -inf - -inf is no number
    return (left.exp() * difference).sum(dim=1)


def npc_loss(
    student_scores: Float[Tensor, "query passage"],
    teacher_scores: Float[Tensor, "query passage"],
    positive: Int[Tensor, " query"],
    ignored: Bool[Tensor, "query passage"],
    trust: Float[Tensor, " query"],
    *,
    weight: float,
    direction: Direction,
) -> Float[Tensor, " query"]:
    """Trust * L_cont + weight * L_cons of every pair, in nats.

    Source: Eq. 9, with trust 1 for a clean pair and 0 for a flagged one, and weight 1.
    """
    student = masked_log_probs(student_scores, ignored)
    contrastive = -student.gather(1, positive.unsqueeze(1)).squeeze(1)
    loss = trust * contrastive
    if weight == 0.0:
        return loss
    return loss + weight * consistency(student, masked_log_probs(teacher_scores, ignored), ignored, direction)


@torch.no_grad()
def move_average(teacher: Tensor, student: Tensor, decay: float) -> None:
    """Teacher := decay * teacher + (1 - decay) * student, in place (Eq. 6)."""
    teacher.lerp_(student, 1.0 - decay)
