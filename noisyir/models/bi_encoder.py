"""The bi-encoder: one interface to static and transformer towers."""

import copy
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from noisyir.base.errors import ConfigError, DataError
from noisyir.models.at_once import Auto, inference_tokens
from noisyir.models.kept_states import KeptStates, digest_of
from noisyir.models.layout import Layout, Shape, read_layout, write_layout
from noisyir.models.settings import InitModelParams, LoraParams
from noisyir.models.soundness import opening, refuse_broken
from noisyir.models.static_tower import StaticTower, load_static
from noisyir.models.text_tokenizer import SIDES, Side, TextTokenizer, Tokens
from noisyir.models.trainable import add_adapters, freeze, layers_of
from noisyir.models.transformer_tower import (
    TransformerTower,
    load_transformer,
    read_encoder,
    read_tokenizer,
    read_word_embeddings,
    set_dropout,
)

Tower = StaticTower | TransformerTower


class BiEncoder(nn.Module):
    """Maps queries and passages to vectors, scored by their inner product.

    With `shape.shared` both sides share one tower.
    """

    at_once: int | None = None  # tokens that a training step pads together; None: by the device

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
    def device(self) -> torch.device:
        """Device of the weights."""
        return next(self.parameters()).device

    @property
    def transformers(self) -> list[Any]:
        """The Hugging Face models of the towers, each once; none for static models."""
        towers = dict.fromkeys((self.query_tower, self.passage_tower))
        return [tower.encoder for tower in towers if isinstance(tower, TransformerTower)]

    def limit(self, layers: int | None, lora: LoraParams, seed: int) -> None:
        """Train only upper layers, or adapters.

        Raises:
            ConfigError: If the model is static.
        """
        if layers is None and not lora.rank:
            return
        if not self.transformers:
            raise ConfigError("models.static_cannot_be_limited")
        for encoder in self.transformers:
            if layers is not None:
                freeze(encoder, layers)
            else:
                add_adapters(encoder, lora, seed)

    def read_kept(self, folder: Path) -> None:
        """Read the kept states in a folder from now on, in the place of tokens.

        Raises:
            DataError: If they are of other embeddings or lower layers than this model's.
        """
        kept = KeptStates(folder)
        if kept.model != digest_of(self.transformers, kept.layers):
            raise DataError("models.states_of_another_model")
        for tower in (self.query_tower, self.passage_tower):
            assert isinstance(tower, TransformerTower)
            tower.read_kept(kept)

    def _tower(self, side: Side) -> Tower:
        return self.query_tower if side == "query" else self.passage_tower

    @property
    def similarity(self) -> str:
        """`cosine` (vectors have norm 1) or `dot`; the score is the inner product in either case."""
        return self.shape.similarity

    def tokenize(self, texts: Sequence[str], side: Side) -> Tokens:
        """Tokenise with prefix, special tokens and truncation; with kept states tokens are the rows of these."""
        tokens, tower = self._tokenizers[side](texts), self._tower(side)
        return tokens if isinstance(tower, StaticTower) or tower.kept is None else tower.kept.find(tokens, side)

    def ids(self, texts: Sequence[str], side: Side) -> Tokens:
        """Like `tokenize`, but with tokens in their order, also for a static model, as other runtimes read a text."""
        return replace(self._tokenizers[side], as_shares=False)(texts)

    def embed(self, tokens: Tokens, side: Side) -> Float[Tensor, "text dim"]:
        """Embed texts, float32, differentiable; under cosine a text without tokens has the zero vector."""
        tower: Any = self._tower(side)
        return self._scored(tower(tokens))

    def embed_both(
        self, queries: Tokens, passages: Tokens
    ) -> tuple[Float[Tensor, "query dim"], Float[Tensor, "passage dim"]]:
        """Embed both sides; a shared static tower reads them as one bag and gets a single gradient."""
        if self.shape.shared and self.shape.backbone == "static":
            vectors = self._scored(self.passage_tower(queries + passages))
            query_vectors, passage_vectors = torch.split(vectors, [len(queries), len(passages)])
            return query_vectors, passage_vectors
        return self.embed(queries, "query"), self.embed(passages, "passage")

    def batch_tokens(self, wanted: int | Auto | None) -> int:
        """Return the tokens of one inference batch, padding included, as `inference_tokens`."""

        def read(texts: int) -> None:
            ids = np.zeros(texts * longest, np.int32)
            self.embed(Tokens(ids, np.arange(texts + 1) * longest), "passage")

        longest = self.shape.passage_max_len
        return inference_tokens(wanted, self.device, longest, read) if self.transformers else inference_tokens(wanted)

    def _scored(self, vectors: Float[Tensor, "text dim"]) -> Float[Tensor, "text dim"]:
        return functional.normalize(vectors.float(), dim=1) if self.similarity == "cosine" else vectors.float()

    def save(self, folder: Path) -> None:
        """Write a folder for `load_bi_encoder` and `SentenceTransformer`; equal weights give equal bytes."""
        paths = write_layout(folder, self.shape, self.dim)
        self.passage_tower.save(paths["passage"], self._tokenizers["passage"].to_json())
        if not self.shape.shared:
            self.query_tower.save(paths["query"], self._tokenizers["query"].to_json())


def load_bi_encoder(folder: Path, device: str = "auto") -> BiEncoder:
    """Load a saved model in evaluation mode onto `device` (auto: a GPU if there is one).

    Raises:
        DataError: If the folder is not a bi-encoder in sentence-transformers' layout.
    """
    layout = read_layout(folder)
    device = choose_device(device)
    passage = _load_tower(layout, "passage")
    query = passage if layout.shape.shared else _load_tower(layout, "query")
    with opening(folder):
        return BiEncoder(query, passage, layout.shape).to(device).eval()


def choose_device(name: str) -> str:
    """Return the torch device of a setting.

    Raises:
        ConfigError: If this machine does not have it.
    """
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError("models.no_such_device", name=name, error=str(error).splitlines()[0]) from error
    return name


def _load_tower(layout: Layout, side: Side) -> Tower:
    folder, shape = layout.towers[side], layout.shape
    with opening(folder):
        tower = load_static(folder) if shape.backbone == "static" else load_transformer(folder, shape.pooling)
        _refuse_broken(tower, folder)
    return tower


def _tokenizer(tower: Tower, prefix: str, max_len: int) -> TextTokenizer:
    static = isinstance(tower, StaticTower)
    return TextTokenizer.from_json(
        tower.tokenizer_json, prefix=prefix, max_len=max_len, special_tokens=not static, as_shares=static
    )


def initial_bi_encoder(folder: Path, params: InitModelParams) -> BiEncoder:
    """Build the model that `params` describe from the weights in `folder`.

    static: A StaticEmbedding's matrix, or a transformer's word embeddings.
    transformer: The encoder, with the first `params.layers` of its layers.

    Raises:
        DataError: If the folder cannot give that, or its weights are broken.
    """
    static = params.backbone == "static"
    with opening(folder):
        layout = read_layout(folder)
        unset = [n for n in ("pooling", "query_prefix", "passage_prefix") if getattr(params, n) is None]
        params = params.model_copy(update={name: getattr(layout.shape, name) for name in unset})
        initial = _static_tower if static else _transformer_tower
        towers = {path: initial(folder, path, params) for path in dict.fromkeys(layout.towers.values())}
        for tower in towers.values():
            _refuse_broken(tower, folder)
    query, passage = (towers[layout.towers[side]] for side in SIDES)
    pooling = {"pooling": "mean"} if static else {}  # a static model's vectors are means, however they were pooled
    shape = Shape(**{**params.model_dump(include={field.name for field in fields(Shape)}), **pooling})
    if static and params.shared:  # sentence-transformers truncates all texts of one StaticEmbedding alike
        shape = replace(shape, query_max_len=shape.passage_max_len)
    return BiEncoder(passage if params.shared else copy.deepcopy(query), passage, shape)


def _refuse_broken(tower: Tower, folder: Path) -> None:
    words = tower.weight if isinstance(tower, StaticTower) else tower.encoder.get_input_embeddings().weight
    refuse_broken(folder, tower, len(words), tower.tokenizer_json)


def _static_tower(folder: Path, source: Path, params: InitModelParams) -> StaticTower:
    layout = read_layout(folder)
    if layout.shape.backbone == "static":
        return load_static(source)
    return StaticTower(read_word_embeddings(source), read_tokenizer(source)["tokenizer.json"])


def _transformer_tower(folder: Path, source: Path, params: InitModelParams) -> TransformerTower:
    if read_layout(folder).shape.backbone == "static":
        raise DataError("models.static_not_transformer", folder=folder)
    if not params.pooling:
        raise DataError("models.no_pooling", model=folder)
    encoder = read_encoder(source)
    refuse_too_long(folder, encoder, "model.*_max_len", params.query_max_len, params.passage_max_len)
    if params.layers is not None:
        _cut_layers(encoder, params.layers, folder)
    set_dropout(encoder, params.dropout, folder)
    return TransformerTower(encoder, params.pooling, read_tokenizer(source))


def refuse_too_long(folder: Path, encoder: Any, setting: str, *lengths: int) -> None:
    """Refuse, with a DataError, lengths beyond the encoder's positions."""
    limit = getattr(encoder.config, "max_position_embeddings", longest := max(lengths))
    if longest > limit:
        raise DataError("models.reads_too_little", folder=folder, limit=limit, setting=setting, wanted=longest)


def _cut_layers(encoder: Any, layers: int, folder: Path) -> None:
    """Keep the first `layers` layers of an encoder."""
    stack, name = layers_of(encoder, folder, "model.layers")
    if layers > (found := len(getattr(stack, name))):
        raise DataError("models.too_few_layers", folder=folder, found=found, setting="model.layers", wanted=layers)
    setattr(stack, name, getattr(stack, name)[:layers])
    encoder.config.num_hidden_layers = layers
    if isinstance(kinds := getattr(encoder.config, "layer_types", None), list):
        encoder.config.layer_types = kinds[:layers]
