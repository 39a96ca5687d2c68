"""The losses of distillation: a retriever learns a teacher's scores of a query's list of documents.

Scores and temperatures share a unit on each side: a softmax is of score / temperature.  `listed` marks documents that
the teacher scored; others do not count.  A list's loss is 0 if fewer than two are listed.

Conventions differ (docs/how-to/teachers.md): Tevatron's loss is the mean of `listwise_kl` over lists,
sentence-transformers' DistillKLDivLoss is that times the student's temperature squared, FlagEmbedding's is that plus
the entropy of the teacher's softmax, a constant for the student.
"""

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

UNDERFLOW = 100.0  # a list's spread over the temperature, above which its softmax has exact zeros


def listwise_kl(
    student: Float[Tensor, "query passage"],
    teacher: Float[Tensor, "query passage"],
    listed: Bool[Tensor, "query passage"],
    *,
    student_temperature: float = 1.0,
    teacher_temperature: float = 1.0,
) -> Float[Tensor, " query"]:
    """KL(teacher || student) of each query's list, in nats, without gradient to the teacher.

    Source: Lin, Yang and Lin, 2020 (arXiv:2010.11386); two temperatures as in arXiv:2607.27178.
    """
    shut, empty = ~listed, listed.sum(dim=1) < 2
    shut = shut & ~empty.unsqueeze(1)  # a softmax over nothing is no number
    asked = (teacher.detach().float() / teacher_temperature).masked_fill(~listed, 0.0)
    wanted = asked.masked_fill(shut, float("-inf")).log_softmax(dim=1)
    found = (student.float() / student_temperature).masked_fill(shut, float("-inf")).log_softmax(dim=1)
    difference = (wanted - found).masked_fill(shut, 0.0)  # -inf - -inf is no number
    return (wanted.exp() * difference).sum(dim=1).masked_fill(empty, 0.0)


def margin_mse(
    student: Float[Tensor, "query passage"],
    teacher: Float[Tensor, "query passage"],
    listed: Bool[Tensor, "query passage"],
    *,
    student_temperature: float = 1.0,
    teacher_temperature: float = 1.0,
) -> Float[Tensor, " query"]:
    """Mean squared difference of both sides' margins, score in column 0 less another's; 0 if column 0 is unlisted.

    Source: Hofstätter et al., 2020 (arXiv:2010.02666, section 3.2), with temperatures of 1.
    """
    apart = student.float() / student_temperature - teacher.detach().float() / teacher_temperature
    apart = apart.masked_fill(~listed, 0.0)
    counted = listed[:, 1:] & listed[:, :1]
    squares = (apart[:, :1] - apart[:, 1:]).square().masked_fill(~counted, 0.0)
    return squares.sum(dim=1) / counted.sum(dim=1).clamp(min=1)


def lse_pair(
    scores: Float[Tensor, "query passage"],
    is_positive: Bool[Tensor, "query passage"],
    ignored: Bool[Tensor, "query passage"],
) -> Float[Tensor, " query"]:
    """ln(1 + sum over positives p and negatives n of exp(s_n - s_p)), in nats; with one positive -log softmax.

    Passages that are `ignored` are neither.  Low-scoring positives get the gradient, so a wrong one does bounded harm.
    Source: LSEPair of arXiv:2602.12727, after Li, Song and Luo, CVPR 2017 (LSEP).
    """
    scores = scores.float()
    over = scores.masked_fill(ignored | is_positive, float("-inf")).logsumexp(dim=1)
    under = (-scores).masked_fill(~is_positive, float("-inf")).logsumexp(dim=1)
    return functional.softplus(over + under)


def too_good(
    scores: Float[Tensor, "query passage"],
    positive: Int[Tensor, " query"],
    *,
    share_of_top: float | None = None,
    over_positive: float | None = None,
) -> Bool[Tensor, "query passage"]:
    """Mark passages, never the positive, that a judge scores so high that they may be relevant; NaN never is.

    share_of_top: Above this share of the row's greatest score (CADET's code: 0.6, of a teacher's scores from 0 to 1).
    over_positive: Above the positive's score by more than this (ms-swift: 0.1, of the student's own cosines).
    """
    known = scores.float().masked_fill(scores.isnan(), float("-inf"))
    found = torch.zeros_like(known, dtype=torch.bool)
    if share_of_top is not None:
        found |= known > share_of_top * known.amax(dim=1, keepdim=True)
    if over_positive is not None:
        found |= known > known.gather(1, positive.unsqueeze(1)).nan_to_num(neginf=float("inf")) + over_positive
    return found.scatter(1, positive.unsqueeze(1), False)


def underflowing(spreads: Float[np.ndarray, " list"], temperature: float) -> float:
    """Share of lists with exact zeros in their softmax, which drop out of the loss.

    `spreads` are each list's greatest score less the least, in the unit of the temperature.
    """
    return float((spreads / temperature > UNDERFLOW).mean())
