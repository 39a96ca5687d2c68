"""Instances of a question that contradict each other (Bian et al., Findings of EMNLP 2023, Eq. 2)."""

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


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
