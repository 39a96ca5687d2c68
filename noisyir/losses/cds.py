"""The losses of contrastive distant supervision (Bian et al., Findings of EMNLP 2023, Eq. 4 to 7).

An instance is a question, a passage, and a span that matches the answer; `confidence` is how far it is believed to be
labelled rightly.  Confidences are constants: no gradient reaches them.  Vectors are compared by cosine over a
temperature, as raw products of mean states saturate every softmax; the paper does not define them.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional


def debias(
    questions: Float[Tensor, "instance dim"],
    answers: Float[Tensor, "instance dim"],
    counterfactual: Bool[Tensor, "instance instance"],
    confidence: Float[Tensor, " instance"],
    temperature: float,
) -> Float[Tensor, " instance"]:
    """-w log of the share that an instance's own answer has beside its counterfactual ones, in nats (Eq. 5).

    counterfactual: row x marks the instances whose answers compete with x's.  Exactly 0 for an instance without any.
    """
    questions, answers = _unit(questions), _unit(answers)
    own = (questions * answers).sum(dim=1, keepdim=True) / temperature
    others = (questions @ answers.T / temperature).masked_fill(~counterfactual, float("-inf"))
    loss = torch.cat([own, others], dim=1).logsumexp(dim=1) - own[:, 0]
    return confidence.detach() * torch.where(counterfactual.any(dim=1), loss, 0.0)


def denoise(
    contexts: Float[Tensor, "instance dim"],
    confusing: Float[Tensor, "passage dim"],
    attracts: Bool[Tensor, "instance passage"],
    repels: Bool[Tensor, "instance instance"],
    confidence: Float[Tensor, " instance"],
    temperature: float,
) -> Float[Tensor, " instance"]:
    """-(1 - w) log of the share that confusing passages have beside the question's other instances, in nats (Eq. 6).

    attracts: an instance's confusing passages; repels: the other instances of its question, without itself, whose
    term would drown all others.  These count by their confidences, as log w in the exponent.  Exactly 0 for an
    instance without confusing passages, or whose others all have confidence 0.
    """
    contexts, confusing, weights = _unit(contexts), _unit(confusing), confidence.detach()
    counts = repels & (weights > 0)
    applies = attracts.any(dim=1) & counts.any(dim=1)
    near = contexts @ confusing.T / temperature
    far = contexts @ contexts.T / temperature + weights.clamp(min=torch.finfo(weights.dtype).tiny).log()
    gap = _log_sum_exp(far, counts) - _log_sum_exp(near, attracts)
    return (1.0 - weights) * torch.where(applies, functional.softplus(gap), 0.0)


def cross_entropy(
    log_start: Float[Tensor, " instance"], log_end: Float[Tensor, " instance"], weight: Float[Tensor, " instance"]
) -> Float[Tensor, " instance"]:
    """-w (log P_start + log P_end) of the labelled span, in nats (Eq. 7)."""
    return -weight.detach() * (log_start + log_end)


def _log_sum_exp(scores: Float[Tensor, "row column"], present: Bool[Tensor, "row column"]) -> Float[Tensor, " row"]:
    """Over the columns that are present; 0, without gradient, for a row that has none."""
    empty = ~present.any(dim=1, keepdim=True)
    if not scores.shape[1]:
        return scores.new_zeros(len(scores))
    # a row of -inf alone would have the gradient NaN
    return scores.masked_fill(~present, float("-inf")).masked_fill(empty, 0.0).logsumexp(dim=1) * ~empty[:, 0]


def _unit(vectors: Float[Tensor, "row dim"]) -> Float[Tensor, "row dim"]:
    return functional.normalize(vectors.float(), dim=1, eps=1e-6)


def span_set_loss(
    loss: Float[Tensor, " span"], group: Int[Tensor, " span"], groups: int, *, hard: bool
) -> Float[Tensor, " group"]:
    """Of each group of spans the least loss (hard), or -log of the sum of their likelihoods, in nats.

    loss: -log P of each span; group: its number in 0..groups - 1, each of which has a span.
    """
    member = group == torch.arange(groups, device=group.device)[:, None]
    losses = loss.expand(groups, -1).masked_fill(~member, float("inf"))
    return losses.min(dim=1).values if hard else -(-losses).logsumexp(dim=1)
