"""Hard-EM for spans of which one is thought right (Min et al., EMNLP 2019)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def span_set_loss(
    loss: Float[Tensor, " span"], group: Int[Tensor, " span"], groups: int, *, hard: bool
) -> Float[Tensor, " group"]:
    """Of each group of spans the least loss (hard), or -log of the sum of their likelihoods, in nats.

    loss: -log P of each span; group: its number in 0..groups - 1, each of which has a span.
    """
    member = group == torch.arange(groups, device=group.device)[:, None]
    losses = loss.expand(groups, -1).masked_fill(~member, float("inf"))
    return losses.min(dim=1).values if hard else -(-losses).logsumexp(dim=1)
