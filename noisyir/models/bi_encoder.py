"""The bi-encoder: one interface to both backbones, whichever towers lie behind it."""

from collections.abc import Sequence
from pathlib import Path

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from noisyir.models.layout import Shape, read_layout, write_layout
from noisyir.models.static_tower import StaticTower
from noisyir.models.tokens import Side, TextTokenizer, Tokens
from noisyir.models.transformer_tower import TransformerTower

Tower = StaticTower | TransformerTower


class BiEncoder(nn.Module):
    """Maps queries and passages to vectors whose inner product is their score.

    With `shape.shared` both sides go through one tower.
    """

    def __init__(self, query: Tower, passage: Tower, shape: Shape) -> None:
        super().__init__()
        self.query_tower, self.passage_tower, self.shape = query, passage, shape
        self._tokenizers = {
            "query": _tokenizer(query, shape.query_prefix, shape.query_max_len),
            "passage": _tokenizer(passage, shape.passage_prefix, shape.passage_max_len),
        }

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self.query_tower.dim

    @property
    def similarity(self) -> str:
        """`cosine`: vectors have norm 1; `dot`: any norm.  The score is their inner product in either case."""
        return self.shape.similarity

    def tokenize(self, texts: Sequence[str], side: Side) -> Tokens:
        """Token ids with prefix, special tokens and truncation applied."""
        return self._tokenizers[side](texts)

    def embed(self, tokens: Tokens, side: Side) -> Float[Tensor, "text dim"]:
        """Vectors of texts, float32, differentiable; under cosine a text without tokens has the zero vector."""
        tower = self.query_tower if side == "query" else self.passage_tower
        vectors = tower(tokens).float()
        return F.normalize(vectors, dim=1) if self.similarity == "cosine" else vectors

    def save(self, folder: Path) -> None:
        """Write a folder that `load_bi_encoder` and `SentenceTransformer` read; equal weights give equal bytes."""
        paths = write_layout(folder, self.shape)
        self.passage_tower.save(paths["passage"])
        if not self.shape.shared:
            self.query_tower.save(paths["query"])


def load_bi_encoder(folder: Path, device: str = "auto") -> BiEncoder:
    """A saved model, in evaluation mode, on `device` (auto: a GPU when there is one).

    DataError when the folder is not a bi-encoder in sentence-transformers' layout.
    """
    ...


def _tokenizer(tower: Tower, prefix: str, max_len: int) -> TextTokenizer:
    static = isinstance(tower, StaticTower)
    return TextTokenizer.from_json(
        tower.tokenizer_json, prefix=prefix, max_len=max_len, special_tokens=not static, as_shares=static
    )
