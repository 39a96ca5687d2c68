"""How large models are, and the floating-point operations that reading a text takes."""

import json
from dataclasses import dataclass

from noisyir.engine.fetched import here
from noisyir.errors import NoisyirError
from noisyir.models.settings import InitModelParams, InitRankerParams, InitReaderParams
from noisyir.models.weights import locate_weights

_BERT_BASE = 12, 768, 3072, 30522  # layers, width, inner width, vocabulary
_BERT_LARGE = 24, 1024, 4096, 30522
_STATIC_DIM = 384  # of MiniLM's token vectors, where the weights are not here to tell
TRAINING = 3  # a step is a forward pass and a backward one, which is twice as long


@dataclass(frozen=True)
class Shape:
    """An encoder: `layers` transformer layers of width `hidden`; without layers, a bag of token vectors.

    known: read from the weights' config.json; otherwise told by the name alone.
    """

    layers: int
    hidden: int
    inner: int
    vocabulary: int
    known: bool

    @property
    def parameters(self) -> int:
        """Weights: token vectors, and of each layer four projections and two inner ones."""
        return self.vocabulary * self.hidden + self._projections

    @property
    def _projections(self) -> int:
        return self.layers * (4 * self.hidden**2 + 2 * self.hidden * self.inner)

    def forward(self, texts: float, length: float) -> float:
        """Floating-point operations of reading `texts` texts of `length` tokens each.

        2 per weight and token, and 4 length hidden per layer and token for attention's two products; norms, biases and
        the softmax are left out.  A bag of vectors has one addition per dimension and token.
        """
        a_token = 2 * self._projections + 4 * length * self.hidden * self.layers if self.layers else self.hidden
        return texts * length * a_token

    def passes(self, texts: float, longest: int, mean: int) -> tuple[float, float]:
        """Operations of reading texts at full length, which batches are padded to, and at the mean one."""
        return self.forward(texts, longest), self.forward(texts, mean)


def retriever_shape(params: InitModelParams) -> Shape:
    """The shape of one tower."""
    shape = encoder_shape(params.weights, params.layers)
    if params.backbone == "transformer":
        return shape
    return Shape(0, shape.hidden if shape.known else _STATIC_DIM, 0, shape.vocabulary, shape.known)


def weights_of(params: InitModelParams | InitRankerParams | InitReaderParams) -> int:
    """Weights of a model, both towers where it has two."""
    if isinstance(params, InitModelParams):
        return retriever_shape(params).parameters * (1 if params.shared else 2)
    return encoder_shape(params.weights, params.layers).parameters


def encoder_shape(weights: str | None, layers: int | None = None) -> Shape:
    """The shape that config.json of the weights states; where they are not here, BERT's, large if the name says so."""
    try:
        config = json.loads(
            (locate_weights(here(weights) if weights else None) / "config.json").read_text(encoding="utf-8")
        )
        names = "num_hidden_layers", "hidden_size", "intermediate_size", "vocab_size"
        (deep, hidden, inner, vocabulary), known = (int(config[name]) for name in names), True
    except (NoisyirError, ImportError, OSError, ValueError, KeyError, TypeError):
        large = "large" in (weights or "")
        (deep, hidden, inner, vocabulary), known = _BERT_LARGE if large else _BERT_BASE, False
    return Shape(min(layers or deep, deep), hidden, inner, vocabulary, known)
