"""The bi-encoder before training: towers of the wanted shape, cut from existing weights."""

import copy
from pathlib import Path
from typing import Any

from noisyir.errors import DataError
from noisyir.models.bi_encoder import BiEncoder
from noisyir.models.layout import Shape, read_layout
from noisyir.models.settings import InitModelParams
from noisyir.models.static_tower import StaticTower, load_static
from noisyir.models.transformer_tower import TransformerTower, read_encoder, read_tokenizer, set_dropout


def initial_bi_encoder(folder: Path, params: InitModelParams) -> BiEncoder:
    """The model that `params` describe, from the weights in `folder`.

    static: a StaticEmbedding's matrix, or the word embeddings of a transformer, bare of positions and layers.
    transformer: the encoder, with the first `params.layers` of its layers.
    DataError when the folder cannot give that.
    """
    tower = _static_tower(folder, params) if params.backbone == "static" else _transformer_tower(folder, params)
    query = tower if params.shared else copy.deepcopy(tower)
    return BiEncoder(query, tower, _shape(params))


def _shape(params: InitModelParams) -> Shape:
    # sentence-transformers truncates all texts of one StaticEmbedding alike
    one_length = params.backbone == "static" and params.shared
    return Shape(
        backbone=params.backbone,
        shared=params.shared,
        pooling=params.pooling,
        similarity=params.similarity,
        query_prefix=params.query_prefix,
        passage_prefix=params.passage_prefix,
        query_max_len=params.passage_max_len if one_length else params.query_max_len,
        passage_max_len=params.passage_max_len,
    )


def _static_tower(folder: Path, params: InitModelParams) -> StaticTower:
    layout = read_layout(folder)
    source = layout.towers["passage"]
    if layout.shape.backbone == "static":
        return load_static(source)
    encoder = read_encoder(source)
    weight = encoder.get_input_embeddings().weight.detach().clone()
    return StaticTower(weight, read_tokenizer(source)["tokenizer.json"])


def _transformer_tower(folder: Path, params: InitModelParams) -> TransformerTower:
    layout = read_layout(folder)
    source = layout.towers["passage"]
    if layout.shape.backbone == "static":
        raise DataError(f"{folder} is a static model, not a transformer: set model.backbone=static")
    encoder = read_encoder(source)
    longest = max(params.query_max_len, params.passage_max_len)
    if longest > (limit := getattr(encoder.config, "max_position_embeddings", longest)):
        raise DataError(f"{folder} reads at most {limit} tokens; model.*_max_len asks for {longest}")
    if params.layers is not None:
        _cut_layers(encoder, params.layers, folder)
    set_dropout(encoder, params.dropout, folder)
    return TransformerTower(encoder, params.pooling, read_tokenizer(source))


def _cut_layers(encoder: Any, layers: int, folder: Path) -> None:
    """Keep the first `layers` layers of an encoder whose layers are the items of one module list."""
    stack = getattr(encoder, "encoder", None) or getattr(encoder, "transformer", None) or encoder
    name = next((name for name in ("layer", "layers") if hasattr(stack, name)), None)
    if name is None:
        raise DataError(f"{folder}: model.layers cannot cut a {type(encoder).__name__}; set it to null")
    if layers > (found := len(getattr(stack, name))):
        raise DataError(f"{folder} has {found} layers; model.layers asks for {layers}")
    setattr(stack, name, getattr(stack, name)[:layers])
    encoder.config.num_hidden_layers = layers
