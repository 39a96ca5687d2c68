"""The equations of contrastive distant supervision (Bian et al., Findings of EMNLP 2023, Eq. 2 and 4 to 14).

An instance is a question, a passage, and a span that matches the answer; `confidence` is how far it is believed to be
labelled rightly.  Confidences are constants: no gradient reaches them.  Vectors are compared by cosine over a
temperature, as raw products of mean states saturate every softmax; the paper does not define them.

Arrays run over instances; `question` numbers each one's question, from 0, in ascending order.  The confidences of a
question add up to 1, at the start and after every update.
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


def initial(scores: Values, question: Questions) -> Values:
    """Each passage's retrieval score as a share of its question's (Eq. 8); equal shares where the sum is 0.

    A score below 0 counts as 0.
    """
    return shares(np.maximum(scores, 0.0), question)


def shares(values: Values, question: Questions) -> Values:
    """Values over the sum of their question's; equal shares where that is 0."""
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
    """The model's belief in each instance, z (Eq. 10 to 14); a question's values add up to those of `confidence`.

    chance: P_start * P_end of the labelled span (Eq. 10), NaN where the model has not read the instance yet; matched:
    whether both ends are where the model's own lie.  Instances that are not read yet keep their confidence, and the
    others share out what is left.  So does a question of which none is matched (positive_average; Eq. 14 divides by
    0), or all chances are 0.
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
    """The first of each question's largest values."""
    order = np.lexsort((np.arange(len(values)), -values, question))
    _, first = np.unique(question[order], return_index=True)
    found = np.zeros(len(values), bool)
    found[order[first]] = True
    return found


def _sums(values: Values, question: Questions) -> Float[np.ndarray, " question"]:
    return np.bincount(question, weights=values)


def counterfactual(chance: Float[np.ndarray, " instance"]) -> Bool[np.ndarray, "instance other"]:
    """For each instance x of one question, the s with P(s) < P(x) - m, where m = max P - median P (Eq. 2).

    The median of an even number is the mean of the middle two.  No instance has any where all chances are equal.
    """
    margin = chance.max() - np.median(chance)
    found: Bool[np.ndarray, "instance other"] = chance[None, :] < chance[:, None] - margin
    return found


def span_scores(
    start: Float[Tensor, "window token"], end: Float[Tensor, "window token"], max_answer_len: int
) -> Float[Tensor, "window token length"]:
    """Start + end logit of every span by its first token and its length less 1; -inf where it leaves the window."""
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
    """P(x) of Eq. 2: the labelled span's part in a softmax over the window's n best spans and itself.

    start, end: logits, -inf at tokens that are no part of the passage; first, last: the span's ends, inclusive.  A
    labelled span of more tokens than `max_answer_len`, or not among the n best, is added to them.
    """
    spans = span_scores(start.float(), end.float(), max_answer_len).flatten(1)
    best = spans.topk(min(n_best, spans.shape[1]), dim=1).values
    own = start[window, first].float() + end[window, last].float()
    listed = (last - first < max_answer_len) & (own >= best[window, -1])
    total = best.logsumexp(dim=1)[window]
    return (own - torch.where(listed, total, torch.logaddexp(total, own))).exp()
