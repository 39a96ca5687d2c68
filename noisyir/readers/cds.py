"""Equations of contrastive distant supervision (CDS).

An instance is a question, a passage, and a span that matches the answer; its `confidence` w is the belief that the
label is correct. Confidences are constants: no gradient reaches them. Vectors are compared by cosine over a
temperature, because raw products of mean states saturate every softmax; the paper does not define the similarity.

Arrays run over instances; `question` holds each instance's question number, from 0, ascending. The confidences of a
question sum to 1, initially and after every update.

Source: Bian et al., Findings of EMNLP 2023, Eq. 2 and 4 to 14.
"""

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from noisyir.readers.settings import Confidence

Values = Float[np.ndarray, " instance"]
Questions = Int[np.ndarray, " instance"]


def debias(
    questions: Float[Tensor, "instance dim"],
    answers: Float[Tensor, "instance dim"],
    counterfactual: Bool[Tensor, "instance instance"],
    confidence: Float[Tensor, " instance"],
    temperature: float,
) -> Float[Tensor, " instance"]:
    """Debias loss, in nats (Eq. 5): -w log of the own answer's share against its counterfactual answers.

    Args:
        counterfactual: Row x marks the instances with answers competing against x's.

    Returns:
        The loss by instance; exactly 0 for instances without counterfactual ones.
    """
    return contrast(questions, answers, answers, counterfactual, confidence, temperature)


def contrast(
    questions: Float[Tensor, "instance dim"],
    own: Float[Tensor, "instance dim"],
    others: Float[Tensor, "other dim"],
    competes: Bool[Tensor, "instance other"],
    weight: Float[Tensor, " instance"],
    temperature: float,
) -> Float[Tensor, " instance"]:
    """Contrastive loss, in nats: -w log of the own vector's share against its competitors; 0 without any.

    Over passages, with and without an answer, it is the paper's third ablation (section 5.4, without a formula).
    """
    questions, own = _unit(questions), _unit(own)
    mine = (questions * own).sum(dim=1, keepdim=True) / temperature
    against = (questions @ _unit(others).T / temperature).masked_fill(~competes, float("-inf"))
    loss = torch.cat([mine, against], dim=1).logsumexp(dim=1) - mine[:, 0]
    return weight.detach() * torch.where(competes.any(dim=1), loss, 0.0)


def denoise(
    contexts: Float[Tensor, "instance dim"],
    confusing: Float[Tensor, "passage dim"],
    attracts: Bool[Tensor, "instance passage"],
    repels: Bool[Tensor, "instance instance"],
    confidence: Float[Tensor, " instance"],
    temperature: float,
) -> Float[Tensor, " instance"]:
    """Denoise loss, in nats (Eq. 6): -(1 - w) log of the confusing passages' share against other instances.

    Args:
        attracts: Each instance's confusing passages.
        repels: The other instances of its question, weighted by confidence (log w in the exponent). Excludes the
            instance itself, because its term would dominate all others.

    Returns:
        The loss by instance; exactly 0 without confusing passages, or if all other instances have confidence 0.
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
    """Weighted cross-entropy of the labelled span, in nats: -w (log P_start + log P_end) (Eq. 7)."""
    return -weight.detach() * (log_start + log_end)


def _log_sum_exp(scores: Float[Tensor, "row column"], present: Bool[Tensor, "row column"]) -> Float[Tensor, " row"]:
    """Log-sum-exp over the present columns; 0, without gradient, for rows with none."""
    empty = ~present.any(dim=1, keepdim=True)
    if not scores.shape[1]:
        return scores.new_zeros(len(scores))
    # a row of only -inf would have NaN gradients
    return scores.masked_fill(~present, float("-inf")).masked_fill(empty, 0.0).logsumexp(dim=1) * ~empty[:, 0]


def _unit(vectors: Float[Tensor, "row dim"]) -> Float[Tensor, "row dim"]:
    return functional.normalize(vectors.float(), dim=1, eps=1e-6)


def span_set_loss(
    loss: Float[Tensor, " span"], group: Int[Tensor, " span"], groups: int, *, hard: bool
) -> Float[Tensor, " group"]:
    """Per group of spans: the smallest loss (hard), or -log of the summed likelihoods, in nats.

    Args:
        loss: -log P of each span.
        group: Group number of each span, in 0..groups - 1; every group has a span.
    """
    member = group == torch.arange(groups, device=group.device)[:, None]
    losses = loss.expand(groups, -1).masked_fill(~member, float("inf"))
    return losses.min(dim=1).values if hard else -(-losses).logsumexp(dim=1)


def initial(scores: Values, question: Questions) -> Values:
    """Each passage's retrieval score as a share of its question's total (Eq. 8); equal shares if the sum is 0.

    Negative scores count as 0.
    """
    return shares(np.maximum(scores, 0.0), question)


def shares(values: Values, question: Questions) -> Values:
    """Values divided by the sum over their question; equal shares if it is 0."""
    values = values.astype(np.float64)
    total, count = _sums(values, question), np.bincount(question).astype(np.float64)
    divisor = np.where(total > 0, total, 1.0)
    found: Values = np.where(total[question] > 0, values / divisor[question], 1.0 / count[question])
    return found


def updated(confidence: Values, evidence: Values, decay: float) -> Values:
    """Decay * w + (1 - decay) * z (Eq. 9; the paper's decay is 0.8)."""
    return decay * confidence + (1.0 - decay) * evidence


def evidence(
    kind: Confidence, chance: Values, matched: Bool[np.ndarray, " instance"], confidence: Values, question: Questions
) -> Values:
    """The model's belief z in each instance (Eq. 10 to 14); preserves each question's total confidence.

    Unread instances keep their confidence; the others share the remainder. Questions without a match (positive_average;
    Eq. 14 would divide by 0), or with all chances 0, also keep theirs.

    Args:
        chance: P_start * P_end of the labelled span (Eq. 10); NaN if the model has not read the instance yet.
        matched: Whether the model's own start and end agree with the label.
    """
    read = ~np.isnan(chance)
    known = np.where(read, chance, 0.0)
    marks = {
        "soft": known,
        "hard_max": _first_largest(np.where(read, chance, -1.0), question) & read,
        "positive_average": matched & read,
        "none": np.zeros(len(chance)),
    }[kind].astype(np.float64)
    total = _sums(marks, question)[question]
    left = _sums(np.where(read, confidence, 0.0), question)[question]
    divided = marks / np.where(total > 0, total, 1.0) * left
    return np.where(read & (total > 0), divided, confidence)


def _first_largest(values: Values, question: Questions) -> Bool[np.ndarray, " instance"]:
    """Mark the first of each question's largest values."""
    order = np.lexsort((np.arange(len(values)), -values, question))
    _, first = np.unique(question[order], return_index=True)
    found = np.zeros(len(values), bool)
    found[order[first]] = True
    return found


def _sums(values: Values, question: Questions) -> Float[np.ndarray, " question"]:
    return np.bincount(question, weights=values)


def counterfactual(chance: Float[np.ndarray, " instance"]) -> Bool[np.ndarray, "instance other"]:
    """For each instance x of one question, mark s if P(s) < P(x) - m; m = max P - median P (Eq. 2).

    The median of an even count is the mean of the middle two. If all chances are equal, nothing is marked.
    """
    margin = chance.max() - np.median(chance)
    found: Bool[np.ndarray, "instance other"] = chance[None, :] < chance[:, None] - margin
    return found


def span_scores(
    start: Float[Tensor, "window token"], end: Float[Tensor, "window token"], max_answer_len: int
) -> Float[Tensor, "window token length"]:
    """Start + end logit of every span, by first token and length - 1; -inf if it leaves the window."""
    longest = min(max_answer_len, end.shape[1])
    ends = torch.nn.functional.pad(end, (0, longest - 1), value=float("-inf")).unfold(1, longest, 1)
    return start.unsqueeze(2) + ends


def n_best_chance(
    start: Float[Tensor, "window token"],
    end: Float[Tensor, "window token"],
    window: Int[Tensor, " instance"],
    first: Int[Tensor, " instance"],
    last: Int[Tensor, " instance"],
    *,
    n_best: int,
    max_answer_len: int,
) -> Float[Tensor, " instance"]:
    """P(x) of Eq. 2: the labelled span's softmax share among the window's n best spans.

    A labelled span that is longer than `max_answer_len` tokens, or not among the n best, is added to them.

    Args:
        start: Start logits, -inf at tokens outside the passage.
        end: End logits, likewise.
        first: First token of the labelled span.
        last: Last token, inclusive.
        max_answer_len: Longest span among the n best, in tokens.
    """
    spans = span_scores(start.float(), end.float(), max_answer_len).flatten(1)
    best = spans.topk(min(n_best, spans.shape[1]), dim=1).values
    own = start[window, first].float() + end[window, last].float()
    listed = (last - first < max_answer_len) & (own >= best[window, -1])
    total = best.logsumexp(dim=1)[window]
    return (own - torch.where(listed, total, torch.logaddexp(total, own))).exp()
