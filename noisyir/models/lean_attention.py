"""Attention with dropout for training on a CPU: its probabilities are computed twice, and kept only as bits.

torch's attention with dropout keeps three numbers of float32 for each pair of positions, and draws each bit at seven
times the cost.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

NAME = "lean"
_DRAWN = 1 << 16  # values of a drawn number: the rate of dropout is exact to 1e-5


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:
        query, key, value, hidden, dropout, scaling = given
        kept, rate = _bits(query.shape[:-1] + key.shape[-2:-1], dropout)
        ctx.save_for_backward(query, key, value, hidden, kept)
        ctx.scaling, ctx.share = scaling, 1.0 / (1.0 - rate)
        found: Tensor = _probabilities(query, key, hidden, scaling).mul_(kept) @ value
        return found.mul_(ctx.share)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        query, key, value, hidden, kept = ctx.saved_tensors
        probabilities, gradient = _probabilities(query, key, hidden, ctx.scaling), gradients[0] * ctx.share
        of_value = (probabilities * kept).transpose(-1, -2) @ gradient
        of_each = (gradient @ value.transpose(-1, -2)).mul_(kept)
        of_score = torch._softmax_backward_data(of_each, probabilities, -1, query.dtype).mul_(ctx.scaling)
        return of_score @ key, of_score.transpose(-1, -2) @ query, of_value, None, None, None


def _probabilities(
    query: Float[Tensor, "text head position part"], key: Float[Tensor, "text head position part"],
    hidden: Bool[Tensor, "text 1 position position"] | None, scaling: float,
) -> Float[Tensor, "text head position position"]:  # fmt: skip
    scores = (query * scaling) @ key.transpose(-1, -2)
    return (scores if hidden is None else scores.masked_fill_(hidden, torch.finfo(scores.dtype).min)).softmax(-1)


def _bits(shape: torch.Size, dropout: float) -> tuple[Bool[Tensor, "text head position position"], float]:
    """Draw which probabilities stay, and return the rate of the others."""
    many = shape.numel()
    drawn = torch.empty(-(-many // 4), dtype=torch.int64).random_(-(1 << 63), None).view(torch.int16)[:many]
    dropped = round(dropout * _DRAWN)
    return (drawn >= dropped - _DRAWN // 2).view(shape), dropped / _DRAWN


def attend(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **more: Any) -> Any:
    """Attend as Hugging Face's models ask for it; in all other cases than dropout in training as torch does."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    dropout, scaling = more.get("dropout", 0.0), more.get("scaling") or query.shape[-1] ** -0.5
    plain = mask is None or mask.dtype == torch.bool
    decodes = getattr(module, "is_causal", False) or key.shape[1] != query.shape[1] or "position_bias" in more
    if not (dropout and query.requires_grad and plain) or decodes:
        return sdpa_attention_forward(module, query, key, value, mask, **more)
    hidden = None if mask is None else ~mask
    found: Tensor = _Attention.apply(query, key, value, hidden, dropout, scaling)  # type: ignore[no-untyped-call]
    return found.transpose(1, 2).contiguous(), None
