"""Dropout for training on a CPU, alone and in attention.  A byte says which numbers stay.

torch draws each bit at seven times the cost.  Its attention with dropout keeps three numbers of float32 for each pair
of positions; this one computes its probabilities twice.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int8
from torch import Tensor, nn

NAME = "lean"
_DRAWN = 1 << 16  # values of a drawn number: the rate of dropout is exact to 1e-5


class Dropout(nn.Dropout):
    """Drops numbers as torch's does."""

    def forward(self, given: Tensor) -> Tensor:
        """Drop numbers in training, and scale the others up."""
        if not (self.training and 0 < self.p < 1):
            return super().forward(given)
        found: Tensor = _Dropout.apply(given, self.p)  # type: ignore[no-untyped-call]
        return found


def replace_dropout(model: nn.Module) -> None:
    """Let a model's dropout be the one of this module."""
    for part in model.modules():
        if type(part) is nn.Dropout:
            part.__class__ = Dropout


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:
        values, dropout = given
        kept, rate = _bits(values.shape, dropout)
        ctx.save_for_backward(kept)
        ctx.share = 1.0 / (1.0 - rate)
        found: Tensor = (values * kept).mul_(ctx.share)
        return found

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (kept,) = ctx.saved_tensors
        return (gradients[0] * kept).mul_(ctx.share), None


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:
        query, key, value, bias, dropout, scaling = given
        kept, rate = _bits(query.shape[:-1] + key.shape[-2:-1], dropout)
        ctx.save_for_backward(query, key, value, bias, kept)
        ctx.scaling, ctx.share = scaling, 1.0 / (1.0 - rate)
        found: Tensor = _probabilities(query, key, bias, scaling).mul_(kept) @ value
        return found.mul_(ctx.share)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        query, key, value, bias, kept = ctx.saved_tensors
        probabilities, gradient = _probabilities(query, key, bias, ctx.scaling), gradients[0] * ctx.share
        of_value = (probabilities * kept).transpose(-1, -2) @ gradient
        of_each = (gradient @ value.transpose(-1, -2)).mul_(kept)
        of_score = torch._softmax_backward_data(of_each, probabilities, -1, query.dtype).mul_(ctx.scaling)
        return of_score @ key, of_score.transpose(-1, -2) @ query, of_value, None, None, None


def _probabilities(
    query: Float[Tensor, "text head position part"], key: Float[Tensor, "text head position part"],
    bias: Float[Tensor, "text 1 position position"] | None, scaling: float,
) -> Float[Tensor, "text head position position"]:  # fmt: skip
    scores = (query * scaling) @ key.transpose(-1, -2)
    return (scores if bias is None else scores.add_(bias)).softmax(-1)


def _bias(
    mask: Bool[Tensor, "text 1 position position"] | None, dtype: torch.dtype
) -> Float[Tensor, "text 1 position position"] | None:
    """Return 0 for positions that are read, and the lowest number for others: adding is quicker than filling."""
    return None if mask is None else torch.zeros_like(mask, dtype=dtype).masked_fill_(~mask, torch.finfo(dtype).min)


def _bits(shape: torch.Size, dropout: float) -> tuple[Int8[Tensor, "..."], float]:
    """Draw which numbers stay, as 1 and 0, and return the rate of the others; products with bools are slow."""
    many, dropped = shape.numel(), round(dropout * _DRAWN)
    drawn = torch.empty(-(-many // 4), dtype=torch.int64).random_(-(1 << 63), None).view(torch.int16)[:many]
    kept = torch.ge(drawn, dropped - _DRAWN // 2, out=torch.empty(many, dtype=torch.int8))
    return kept.view(shape), dropped / _DRAWN


def attend(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **more: Any) -> Any:
    """Attend as Hugging Face's models ask for it; in all other cases than dropout in training as torch does."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    dropout, scaling = more.get("dropout", 0.0), more.get("scaling") or query.shape[-1] ** -0.5
    plain = mask is None or mask.dtype == torch.bool
    decodes = getattr(module, "is_causal", False) or key.shape[1] != query.shape[1] or "position_bias" in more
    if not (dropout and query.requires_grad and plain) or decodes:
        return sdpa_attention_forward(module, query, key, value, mask, **more)
    bias = _bias(mask, query.dtype)
    found: Tensor = _Attention.apply(query, key, value, bias, dropout, scaling)  # type: ignore[no-untyped-call]
    return found.transpose(1, 2).contiguous(), None
