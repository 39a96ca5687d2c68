"""A tower with its pooling and normalisation on padded ids, for runtimes other than torch."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from noisyir.models.bi_encoder import BiEncoder
from noisyir.models.layout import INPUTS, OUTPUT
from noisyir.models.static_tower import StaticTower
from noisyir.models.text_tokenizer import Side, Tokens
from noisyir.models.transformer_tower import last_of

Padded = Mapping[str, np.ndarray]


class Portable(nn.Module):
    """One tower with its pooling and norm, on padded ids: what `BiEncoder.embed` computes."""

    def __init__(self, encoder: BiEncoder, side: Side) -> None:
        super().__init__()
        tower = encoder.query_tower if side == "query" else encoder.passage_tower
        self.of_tokens = _rows_of(tower) if isinstance(tower, StaticTower) else tower.encoder
        self.static, self.cosine = isinstance(tower, StaticTower), encoder.similarity == "cosine"
        self.pooling = "mean" if self.static else encoder.shape.pooling
        self.once = {} if isinstance(tower, StaticTower) else tower.once

    def forward(
        self, input_ids: Int[Tensor, "text token"], attention_mask: Int[Tensor, "text token"]
    ) -> Float[Tensor, "text dim"]:
        """The vectors; a text of padding alone has the zero vector."""
        if self.static:
            states = self.of_tokens(input_ids)
        else:
            states = self.of_tokens(input_ids=input_ids, attention_mask=attention_mask, **self.once).last_hidden_state
        if self.pooling == "cls":
            vectors = states[:, 0]
        elif self.pooling == "last":
            vectors = last_of(states, attention_mask.bool())
        else:
            mask = attention_mask.unsqueeze(-1).to(states.dtype)
            vectors = (states * mask).sum(1) / mask.sum(1).clamp(min=1.0)
        return functional.normalize(vectors, dim=1) if self.cosine else vectors


def _rows_of(tower: StaticTower) -> nn.Embedding:
    rows, dim = tower.weight.shape
    return nn.Embedding(rows, dim, _weight=tower.weight.detach())


def write_onnx(encoder: BiEncoder, side: Side, path: Path) -> None:
    """Write a side as ONNX, for any number of texts and tokens."""
    sizes = {0: torch.export.Dim("text"), 1: torch.export.Dim("token")}
    ids = torch.arange(14).reshape(2, 7)
    with torch.no_grad():
        torch.onnx.export(
            Portable(encoder, side).eval(),
            (ids, torch.ones_like(ids)),
            path,
            input_names=list(INPUTS),
            output_names=[OUTPUT],
            dynamo=True,
            external_data=False,
            verbose=False,
            dynamic_shapes={name: sizes for name in INPUTS},
        )


def padded(tokens: Tokens, never: int = 0) -> Padded:
    """Token ids and mask of texts as rectangles, padded on the right, as graphs take them.

    At least one column; one more than is needed where that is the number `never`.
    """
    width = max(1, int(tokens.lengths.max(initial=0)))
    ids, mask = tokens.rectangle(width + (width == never))
    return {INPUTS[0]: ids, INPUTS[1]: mask.astype(np.int64)}
