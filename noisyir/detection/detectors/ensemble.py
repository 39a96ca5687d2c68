"""Several unsupervised measures combined: the strongest order of pairs that needs neither judgements nor training."""

from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt

from noisyir.base.errors import ConfigError
from noisyir.base.settings import Fraction
from noisyir.detection.detectors import Detector, DetectorOutput, PairsToScore
from noisyir.models.backends import CALIBRATED, Backend, check_backend, in_key
from noisyir.models.settings import InitModelParams

if TYPE_CHECKING:
    from noisyir.detection.ensemble import EncodedTexts
    from noisyir.models.bi_encoder import BiEncoder
    from noisyir.models.openvino_encoder import OpenVinoEncoder

_LONGEST = 64, 128  # tokens read of a query and of a document; more costs more than it gains
_TOKENS_A_SECOND = 9_000  # MiniLM on 2 slow CPU cores: 70 documents of 128 tokens


class Ensemble(Detector, kind="ensemble"):
    """Minus 2 z(transformer cosine) + z(BM25 over the query's best); static measures if there is no transformer."""

    searches: ClassVar[bool] = True
    lexical: ClassVar[bool] = True
    describes: ClassVar[bool] = True
    draws_nulls: ClassVar[bool] = True
    draws: ClassVar[int] = 19

    encoder: InitModelParams | None = Field(
        None,
        description="model of its cosine; null: the experiment's model, as a transformer where its weights are one, "
        "64 tokens of a query and 128 of a document",
    )
    tokens: PositiveInt | None = Field(
        1_500_000,
        description="that a transformer reads at most: of more, the most doubtful pairs and some at random; null: all",
    )
    backend: Backend = Field(
        "torch",
        description="what computes the transformer; openvino: in 16 bits on a CPU that has them; openvino-qint8: in 8",
    )
    depth: PositiveInt = Field(100, description="documents searched for a query: how deep a rank is known")
    k1: PositiveFloat = Field(0.9, description="term frequency saturation of BM25")
    b: Fraction = Field(0.4, description="document length normalisation of BM25")

    def resolved(self, model: InitModelParams) -> Self:
        """Replace a null encoder by the one it stands for on this machine, so that the key names it."""
        if self.encoder is not None:
            return self
        query, passage = _LONGEST
        read = {
            "backbone": "transformer" if _is_transformer(model.weights) else "static",
            "query_max_len": min(query, model.query_max_len),
            "passage_max_len": min(passage, model.passage_max_len),
        }
        return self.model_copy(update={"encoder": model.model_copy(update=read)})

    def within(self, seconds: float) -> Self:
        """Limit reading to about this many seconds on 2 CPU cores with the packaged MiniLM.

        The limit is a number of tokens, not a clock, so the same budget gives the same result everywhere.
        """
        return self.model_copy(update={"tokens": max(1, int(seconds * _TOKENS_A_SECOND))})

    def weights_digest(self) -> str | None:
        """Digest of the encoder's weights; None if it is the stage's input model."""
        from noisyir.models.weights import weights_digest

        return weights_digest(self.encoder) if self.encoder else None

    def key_values(self) -> dict[str, Any]:
        """Values for the key, including the backend's."""
        return super().key_values() | in_key(self.backend)

    def check_ready(self) -> None:
        """Check that the backend's package is installed."""
        check_backend(self.backend, "detectors.NAME.backend")

    def score(self, given: PairsToScore) -> DetectorOutput:
        """Score every pair against all documents.

        Raises:
            ConfigError: If there is no index, or the encoder is null.
        """
        from noisyir.detection.ensemble import by_static, by_transformer, cascaded, judging_of, scored

        if given.lexical_index is None:
            raise ConfigError("detection.detector_ensemble_needs_lexical")
        judging, texts = judging_of(given, self.k1, self.b, self.depth, self.neighbours)
        reader = partial(self._reader, given=given, queries=texts[0], documents=texts[1])
        if self._encoder.backbone == "static":
            return scored(given, judging, by_static(judging, reader("static")), texts)
        transformer = reader("transformer")
        if self.tokens is None or transformer.tokens <= self.tokens:
            return scored(given, judging, by_transformer(judging, transformer), texts)
        return scored(given, judging, cascaded(judging, reader("static"), transformer, self.tokens), texts)

    @property
    def _encoder(self) -> InitModelParams:
        if self.encoder is None:
            raise ConfigError("detection.detectors_name_encoder_null")
        return self.encoder

    def _reader(
        self, backbone: Literal["static", "transformer"], given: PairsToScore, queries: list[str], documents: list[str]
    ) -> "EncodedTexts":
        """The encoder in this form, with the texts tokenised for it."""
        from noisyir.detection.ensemble import EncodedTexts
        from noisyir.models.bi_encoder import choose_device, initial_bi_encoder
        from noisyir.models.weights import locate_weights

        params = self._encoder.model_copy(update={"backbone": backbone})
        if backbone == "static":
            params = params.model_copy(update={"layers": None, "dropout": None})
        encoder = initial_bi_encoder(locate_weights(params.weights, "detectors.NAME.encoder.weights"), params)
        encoder = encoder.to(choose_device(given.runtime.device)).eval()
        by_backend = (
            self._by_backend(encoder, documents, given.runtime.cpu_threads) if encoder.transformers else encoder
        )
        return EncodedTexts(by_backend, encoder.tokenize(queries, "query"), encoder.tokenize(documents, "passage"))

    def _by_backend(self, encoder: "BiEncoder", documents: list[str], threads: int) -> "BiEncoder | OpenVinoEncoder":
        """The transformer as computed by the backend."""
        if self.backend == "torch":
            return encoder
        from noisyir.models.openvino_encoder import OpenVinoEncoder

        calibration = documents[:CALIBRATED] if self.backend == "openvino-qint8" else None
        return OpenVinoEncoder(encoder, precision="bf16", threads=threads, calibration=calibration)


def _is_transformer(weights: str | None) -> bool:
    """Return whether the weights are on this machine, belong to a transformer and can be run."""
    from noisyir.base.errors import NoisyirError
    from noisyir.models.layout import read_layout
    from noisyir.models.weights import locate_weights

    try:
        backbone = read_layout(locate_weights(weights)).shape.backbone
    except NoisyirError:
        return False
    return backbone == "transformer" and find_spec("transformers") is not None
