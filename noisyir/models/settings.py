"""Settings of the models before training: bi-encoder and ranker, and any encoder with a head."""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from noisyir.base.settings import Fraction, Location, Params, ReadWhen

ClassifierWeights = Annotated[
    Location, Field(description="folder or Hugging Face name of a sequence classifier of one label or two")
]
PairTokens = Annotated[int, Field(ge=8, description="tokens of query and document together that are read")]


class InitModelParams(Params):
    """The bi-encoder that training starts from, and the shape that it keeps."""

    backbone: Literal["static", "transformer"] = Field("static", description="token-embedding bag, or an encoder")
    weights: Location = Field(
        "minilm", description="minilm (the packaged all-MiniLM-L6-v2), a model folder, or a Hugging Face name"
    )
    layers: Annotated[PositiveInt | None, ReadWhen("backbone", ("transformer",))] = Field(
        None, description="keep only the first layers of a transformer"
    )
    dropout: Annotated[Fraction | None, ReadWhen("backbone", ("transformer",))] = Field(
        None, description="of a transformer in training; null: as its weights say"
    )
    shared: bool = Field(True, description="one tower for queries and passages, or two")
    pooling: Literal["mean", "cls", "last"] | None = Field(
        None, description="how token vectors become one (transformer), last for decoders; null: as the weights say"
    )
    similarity: Literal["cosine", "dot"] = Field("cosine", description="the score of two vectors")
    query_prefix: str | None = Field(None, description="put before every query; null: the prompt of the weights")
    passage_prefix: str | None = Field(None, description="put before every passage; null: the prompt of the weights")
    query_max_len: PositiveInt = Field(64, description="tokens of a query that are read")
    passage_max_len: PositiveInt = Field(256, description="tokens of title and text that are read")


class LoraParams(Params):
    """Adapters of low rank that learn in the place of a transformer's weights (LoRA: Hu et al., ICLR 2022)."""

    rank: NonNegativeInt = Field(0, description="of the adapters, such as 8; 0: none, the weights themselves learn")
    alpha: PositiveInt | None = Field(None, description="their output is times alpha / rank; null: twice the rank")
    dropout: Fraction = Field(0.0, description="of the adapters' input")
    targets: tuple[str, ...] = Field(
        (), description="linear layers that get one, by the last part of their names, such as query; none: all"
    )

    @property
    def scaled_by(self) -> int:
        """The effective alpha."""
        return self.alpha if self.alpha is not None else 2 * self.rank


class HeadedParams(Params):
    """An encoder that gets a head for a task."""

    weights: Location = Field(
        "minilm", description="minilm (the packaged all-MiniLM-L6-v2), a model folder, or a Hugging Face name"
    )
    layers: PositiveInt | None = Field(None, description="keep only the first layers")
    dropout: Fraction | None = Field(None, description="in training; null: as its weights say")
    max_len: PositiveInt = Field(description="tokens that are read")


class InitRankerParams(HeadedParams):
    """The cross-encoder before training."""

    max_len: Annotated[int, Field(ge=8)] = Field(160, description="tokens of query, title and text that are read")
