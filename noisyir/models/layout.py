"""The folder of a saved model: sentence-transformers' layout, with our settings in `noisyir.json` beside it.

One tower:   modules.json -> StaticEmbedding | Transformer + Pooling [+ Normalize under cosine]
Two towers:  modules.json -> Router(query: ..., document: ...)       [+ Normalize under cosine]

No file names a library version or a path, so equal models are equal bytes.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from noisyir.errors import DataError
from noisyir.models.tokens import Side

_TYPE = "sentence_transformers.models."
_ROUTE: Mapping[Side, str] = {"query": "query", "passage": "document"}  # ours -> sentence-transformers'


@dataclass(frozen=True)
class Shape:
    """Everything about a bi-encoder but its weights and tokenizer; lengths are in tokens, special ones included."""

    backbone: Literal["static", "transformer"]
    shared: bool
    pooling: Literal["mean", "cls"]
    similarity: Literal["cosine", "dot"]
    query_prefix: str
    passage_prefix: str
    query_max_len: int
    passage_max_len: int

    def max_len(self, side: Side) -> int:
        """Tokens of one side's texts that are read."""
        return self.query_max_len if side == "query" else self.passage_max_len


@dataclass(frozen=True)
class Layout:
    """What a model folder says about itself, and where each side's tower lies."""

    shape: Shape
    towers: Mapping[Side, Path]


def write_layout(folder: Path, shape: Shape) -> dict[Side, Path]:
    """Write every file but those of the towers; returns the folder that each tower's files belong in."""
    folder.mkdir(parents=True, exist_ok=True)
    prompts = {"query": shape.query_prefix, "document": shape.passage_prefix}
    described = {"default_prompt_name": None, "model_type": "SentenceTransformer", "prompts": prompts}
    _write(folder / "config_sentence_transformers.json", described | {"similarity_fn_name": shape.similarity})
    _write(folder / "noisyir.json", asdict(shape))
    first = "Router" if not shape.shared else _tower_type(shape)
    modules = [_module(0, "", first)]
    if shape.shared:
        towers: dict[Side, Path] = {"query": folder, "passage": folder}
        if shape.backbone == "transformer":
            modules.append(_module(1, "1_Pooling", "Pooling"))
            _write_transformer(folder, folder / "1_Pooling", shape, None)
    else:
        towers = _write_router(folder, shape)
    if shape.similarity == "cosine":
        name = f"{len(modules)}_Normalize"
        modules.append(_module(len(modules), name, "Normalize"))
        _write(folder / name / "config.json", {})
    _write(folder / "modules.json", modules)
    return towers


def write_pooling_width(folder: Path, shape: Shape, dim: int) -> None:
    """Complete the pooling files of `write_layout` with the width that only the towers know."""
    for path in sorted(folder.glob("**/*Pooling/config.json")):
        _write(path, {"word_embedding_dimension": dim} | json.loads(path.read_text()))
