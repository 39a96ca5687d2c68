"""Settings of AR2: the ranker, and the rounds in which retriever and ranker are trained against each other."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from noisyir.config.base import Fraction, Location, Params
from noisyir.config.training import WarmUpParams

Flagged = Literal["keep", "drop", "soft"]


class InitRankerParams(Params):
    """The cross-encoder before training."""

    weights: Location = Field(
        "minilm", description="minilm (the packaged all-MiniLM-L6-v2), a model folder, or a Hugging Face name"
    )
    layers: PositiveInt | None = Field(None, description="keep only the first layers")
    dropout: Fraction | None = Field(None, description="in training; null: as its weights say")
    max_len: Annotated[int, Field(ge=8)] = Field(160, description="tokens of query, title and text that are read")


class RankingParams(Params):
    """What all training on lists has in common: a query's right passage, then its negatives."""

    n: PositiveInt = Field(15, description="negatives in a list, drawn anew each epoch from those mined")
    ranker_scale: PositiveFloat = Field(1.0, description="multiplies the ranker's scores before any softmax (tau)")
    warmup_ratio: Fraction = Field(0.1, description="share of steps over which a rate rises from 0, to fall again to 0")
    weight_decay: NonNegativeFloat = Field(0.0, description="AdamW's, decoupled")
    clip_norm: PositiveFloat | None = Field(2.0, description="largest gradient norm of a step; null: any")
    precision: Literal["fp32", "bf16"] = Field("fp32", description="of the transformers' forward pass")
    lists_at_once: PositiveInt | Literal["auto"] | None = Field(
        None, description="lists through the ranker at once: fewer need less memory; auto: what fits into a GPU"
    )
    gradient_checkpointing: bool = Field(
        False, description="compute a transformer's activations twice instead of keeping them: less memory"
    )

    def descent(self, learning_rate: float) -> WarmUpParams:
        """The settings of one model's optimiser."""
        shared = ("warmup_ratio", "weight_decay", "clip_norm", "precision")
        return WarmUpParams(learning_rate=learning_rate, **{name: getattr(self, name) for name in shared})


class WarmUpRankerParams(RankingParams):
    """The ranker alone, on what the warmed-up retriever mined."""

    loss: Literal["listwise", "pointwise"] = Field(
        "listwise", description="which passage of the list is right, or of each, whether it is: log odds (RocketQA)"
    )
    epochs: PositiveInt = Field(3, description="passes over the training queries, at most")
    max_steps: PositiveInt | None = Field(2000, description="steps, at most; null: as many as the epochs have")
    batch_size: PositiveInt = Field(64, description="lists a step")
    learning_rate: PositiveFloat = Field(1e-5, description="the peak, after warm-up")

    @model_validator(mode="after")
    def _log_odds_have_a_unit(self) -> Self:
        if self.loss == "pointwise" and self.ranker_scale != 1.0:
            raise ValueError(
                f"ranker_scale={self.ranker_scale:g} with loss=pointwise: scores are log odds then, in nats; drop it"
            )
        return self


class RerankParams(Params):
    """A run ranked anew by the ranker."""

    depth: PositiveInt = Field(100, description="documents of each query that are read again; the others stay below")
    precision: Literal["fp32", "bf16"] = Field("fp32", description="of the ranker's forward pass")


class RankerParams(Params):
    """The ranker of AR2 and RocketQA, and of re-ranking."""

    init: InitRankerParams = InitRankerParams()
    warm_up: WarmUpRankerParams = WarmUpRankerParams()
    rerank: RerankParams = RerankParams()


class RoundParams(RankingParams):
    """A round of AR2 (Zhang et al., ICLR 2022): ranker steps, then retriever steps, on freshly mined negatives."""

    rounds: PositiveInt = Field(10, description="how often negatives are mined; both schedules span all rounds")
    ranker_steps: NonNegativeInt = Field(500, description="of the ranker, a round")
    retriever_steps: NonNegativeInt = Field(1500, description="of the retriever, a round")
    ranker_batch_size: PositiveInt = Field(64, description="lists a step of the ranker")
    retriever_batch_size: PositiveInt = Field(64, description="lists a step of the retriever")
    ranker_learning_rate: PositiveFloat = Field(1e-6, description="the peak, after warm-up")
    retriever_learning_rate: PositiveFloat = Field(1e-5, description="the peak, after warm-up")
    adv_lambda: Fraction = Field(
        0.5, description="weight of the adversarial loss, 1 - this being the distillation's; 0: distillation alone"
    )
    variant: Literal["paper", "code"] = Field("paper", description="Eq. 9, or what the official code minimises")
    scale: PositiveFloat | None = Field(
        None, description="multiplies the retriever's similarities before any softmax; null: train.scale"
    )
    chunk_size: PositiveInt | Literal["auto"] | None = Field(
        None, description="texts through a tower at once: gradient caching; auto: what fits into a GPU"
    )
    flagged: Flagged = Field(
        "keep",
        description="pairs that the detectors call wrong: as any other; left out; or ranked as a teacher ranks them",
    )
    teacher_decay: Fraction = Field(
        0.99, description="of the moving average of the ranker's weights that is the teacher, a step (flagged=soft)"
    )
    dev_queries: NonNegativeInt = Field(2000, description="dev queries ranked after each round, at most; 0: none")
    dev_documents: PositiveInt = Field(
        50_000, description="documents they are ranked over, at most: the relevant ones, then others named by the pairs"
    )


class TrainAr2Params(RoundParams):
    """One round of AR2; every round has the same settings."""

    scale: PositiveFloat = Field(20.0, description="multiplies the retriever's similarities before any softmax")


class ContinuedParams(Params):
    """Further rounds from the finished models, with optimisers and schedules begun anew (method `ar2_continued`)."""

    rounds: PositiveInt = Field(1, description="further rounds; their schedules span these")
    mine: dict[str, Any] = Field({}, description="what of `mine` differs in them")
    train: dict[str, Any] = Field({}, description="what of `ar2` differs in them: steps, rates, adv_lambda, ...")


class Ar2Params(RoundParams):
    """AR2 from its beginning to its end: where it starts, its rounds, and what they mine."""

    start_from: Literal["warm_up", "weights"] = Field(
        "warm_up", description="train both models first; or take model.weights and ranker.init.weights as they are"
    )
    mine: dict[NonNegativeInt, dict[str, Any]] = Field(
        {}, description="what of `mine` differs from a round on, by its number, from 0"
    )
    continued: ContinuedParams = ContinuedParams()
