"""Settings of training: the bi-encoder's, the ranker's and AR2's."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from noisyir.base.settings import Fraction, LearningRate, Params
from noisyir.models.settings import LoraParams

ADAPTERS_RATE = 1e-4  # as sentence-transformers and peft advise: five times the rate for whole encoders
Flagged = Literal["keep", "drop", "soft"]
DevDocuments = Annotated[
    PositiveInt,
    Field(description="documents they are ranked over, at most: the relevant ones, then others of the collection"),
]


class CcrParams(Params):
    """The contrastive confidence regulariser (Wang et al., AAAI 2024, Eq. 8): loss - beta * mean loss of the pool."""

    beta: NonNegativeFloat | Annotated[tuple[NonNegativeFloat, ...], Field(min_length=1)] = Field(
        0.0,
        description="its weight: up to 1 for cosine, 1e-4 to 1e-3 for dot products; 0: none; list: by epoch, its last "
        "for all that follow",
    )
    from_epoch: NonNegativeInt = Field(0, description="the first epoch, from 0, in which it counts")
    ramp: PositiveInt = Field(1, description="epochs over which a single beta rises to its value, in equal steps")
    force: bool = Field(False, description="allow beta above 0.01 with dot products, where the loss has no lower bound")

    @model_validator(mode="after")
    def _one_schedule(self) -> Self:
        if isinstance(self.beta, tuple) and self.ramp > 1:
            raise ValueError(f"beta is a list by epoch, and ramp={self.ramp} is another: leave ramp out")
        return self

    def at(self, epoch: int) -> float:
        """Its weight in an epoch, from 0."""
        if (since := epoch - self.from_epoch) < 0:
            return 0.0
        if isinstance(self.beta, tuple):
            return self.beta[min(since, len(self.beta) - 1)]
        return self.beta * min(1.0, (since + 1) / self.ramp)


class TrainDprParams(Params):
    """DPR training: in-batch negatives, and mined ones if there are any."""

    epochs: PositiveInt = Field(6, description="passes over the training pairs; left out: chosen by rule")
    batch_size: PositiveInt = Field(512, description="queries a step: in-batch negatives + 1; left out: chosen by rule")
    learning_rate: LearningRate = Field(2e-5, description="the peak, after warm-up; left out: chosen by rule")
    warmup_ratio: Fraction = Field(0.1, description="share of steps over which the rate rises from 0")
    decay: Literal["linear", "constant"] = Field("linear", description="the rate after warm-up: to 0, or kept")
    weight_decay: NonNegativeFloat = Field(0.0, description="AdamW's, decoupled")
    betas: tuple[Fraction, Fraction] = Field((0.9, 0.999), description="AdamW's decay of its moving averages")
    clip_norm: PositiveFloat | None = Field(2.0, description="largest gradient norm of a step; null: any")
    scale: PositiveFloat = Field(20.0, description="multiplies similarities before the softmax; 20 is temperature 0.05")
    hard_negatives: NonNegativeInt = Field(0, description="mined negatives a query in each batch")
    pool: Literal["batch", "own"] = Field(
        "batch", description="what competes with a query's positive: all of the batch, or its own mined negatives alone"
    )
    ccr: CcrParams = CcrParams()
    precision: Literal["fp32", "bf16"] = Field("fp32", description="of the towers' forward pass (transformer)")
    chunk_size: PositiveInt | Literal["auto"] | None = Field(
        None, description="texts through a tower together: gradient caching; auto: what fits (docs/reference/scale.md)"
    )
    gradient_checkpointing: bool = Field(
        False, description="compute a transformer's activations twice instead of keeping them: less memory"
    )
    freeze: NonNegativeInt | None = Field(
        None, description="lower layers of a transformer that stay as they are, with its embeddings; null: all learns"
    )
    keep_states: bool = Field(
        False, description="with freeze: compute the frozen layers once, and keep their outputs for all trainings"
    )
    lora: LoraParams = LoraParams()
    matryoshka: tuple[PositiveInt, ...] = Field(
        (), description="lengths that vectors may be cut to: the loss is the mean over these and the whole; none: whole"
    )
    flagged: Literal["drop", "weight"] = Field(
        "drop", description="pairs with flags: leave those flagged out, or weight the loss by the chance to be clean"
    )
    patience: PositiveInt | None = Field(
        None,
        description="stop so many epochs after the best dev MRR@10, keep it; null: never; left out: chosen by rule",
    )
    dev_queries: NonNegativeInt = Field(2000, description="dev queries ranked after each epoch, at most; 0: none")
    dev_documents: DevDocuments = 50_000

    @model_validator(mode="before")
    @classmethod
    def _adapters_learn_faster(cls, values: Any) -> Any:
        """Set the rate of adapters if none is given."""
        lora = values.get("lora") if isinstance(values, dict) else None
        rank = lora.get("rank") if isinstance(lora, dict) else getattr(lora, "rank", 0)
        return {"learning_rate": ADAPTERS_RATE, **values} if rank else values

    @model_validator(mode="after")
    def _one_part_learns(self) -> Self:
        if self.lora.rank and self.freeze is not None:
            raise ValueError(f"lora.rank={self.lora.rank} freezes all weights already: leave freeze={self.freeze} out")
        if self.keep_states and self.freeze is None:
            raise ValueError("keep_states=true: nothing is frozen, so nothing can be kept: set freeze")
        return self


class HoldOutParams(Params):
    """Training queries set aside to choose by if the data has no dev split; each trial has its own."""

    share: Fraction = Field(0.2, description="of the training queries' distinct texts, in each trial")
    most: PositiveInt = Field(2000, description="of these texts, at most")


class HoldOutFoldParams(HoldOutParams):
    """The queries of one trial."""

    fold: NonNegativeInt = Field(0, description="which of the shares, from 0; no two have a text in common")
    by_dev: bool = Field(True, description="hold none out where dev queries are judged: the choice is by these")

    @model_validator(mode="after")
    def _is_within_all(self) -> Self:
        if (self.fold + 1) * self.share > 1 + 1e-9:
            raise ValueError(f"fold={self.fold}: {self.fold + 1} shares of {self.share:g} are more than all queries")
        return self


class ChooseModelParams(Params):
    """Choice of one of several ways of training."""

    alpha: Fraction = Field(
        0.4, description="corrected p-value below which a way beats plain training (docs/understand/methods.md)"
    )
    dev_queries: PositiveInt = Field(2000, description="held-out queries ranked, at most")
    dev_documents: DevDocuments = 50_000


class DistillParams(Params):
    """Distillation from a teacher's scored lists, added to the settings of `train` (docs/how-to/teachers.md)."""

    loss: Literal["listwise", "margin"] = Field(
        "listwise", description="of the scores: KL of the two softmaxes over the list, or MarginMSE"
    )
    student_temperature: PositiveFloat | None = Field(
        None, description="divides the student's similarities; null: 1 / train.scale"
    )
    teacher_temperature: PositiveFloat | None = Field(
        None, description="divides the teacher's scores; null: a quarter of the median spread of its lists"
    )
    contrastive: NonNegativeFloat | None = Field(
        None,
        description="weight of the contrastive loss added to it (CADET's code: 0.1, FlagEmbedding: 1); null: 0 in "
        "distill, 0.1 in distill_contrast",
    )
    positives: Literal["one", "lse_pair"] = Field(
        "one", description="positives in the contrastive loss: each pair's own, or all of the list by LSEPair"
    )
    flagged: Literal["keep", "drop", "weight", "relabel"] = Field(
        "keep",
        description="pairs in the contrastive loss: all alike; without those flagged; by their chance to be clean; or "
        "that, and the most suspicious ones relabelled",
    )
    mask: Literal["none", "teacher", "student"] = Field(
        "none", description="who takes negatives out of the contrastive loss as likely relevant"
    )
    share_of_top: PositiveFloat | None = Field(
        None, description="masked are negatives above this share of the greatest score (CADET's code: 0.6)"
    )
    over_positive: NonNegativeFloat | None = Field(
        None, description="masked are negatives that score above the positive by more than this (ms-swift: 0.1)"
    )

    @model_validator(mode="after")
    def _masks_have_a_bound(self) -> Self:
        bounds = [name for name in ("share_of_top", "over_positive") if getattr(self, name) is not None]
        if bool(bounds) != (self.mask != "none"):
            found = f"distill.mask={self.mask} with {' and '.join(bounds) or 'no bound'}"
            raise ValueError(f"{found}: set mask to teacher or student, and share_of_top or over_positive")
        if self.contrastive == 0.0 and (self.mask != "none" or self.positives != "one" or self.flagged != "keep"):
            raise ValueError(
                "distill.contrastive=0 leaves mask, positives and flagged without effect, for the scores' loss reads "
                "no label: set contrastive, to 0.1 as CADET's code, or leave them out"
            )
        return self


class TrainDistillParams(TrainDprParams):
    """Distillation: the settings of `train` and its own; `hard_negatives` are the other documents of a list."""

    distill: DistillParams = DistillParams()


class DescentParams(Params):
    """Settings common to the training of rankers, of AR2's models and of readers."""

    warmup_ratio: Fraction = Field(0.1, description="share of steps over which a rate rises from 0, to fall again to 0")
    weight_decay: NonNegativeFloat = Field(0.0, description="AdamW's, decoupled")
    clip_norm: PositiveFloat | None = Field(2.0, description="largest gradient norm of a step; null: any")
    precision: Literal["fp32", "bf16"] = Field("fp32", description="of the transformers' forward pass")
    gradient_checkpointing: bool = Field(
        False, description="compute a transformer's activations twice instead of keeping them: less memory"
    )

    def descent(self, learning_rate: float) -> TrainDprParams:
        """The settings of one model's optimiser."""
        shared = ("warmup_ratio", "weight_decay", "clip_norm", "precision")
        return TrainDprParams(learning_rate=learning_rate, **{name: getattr(self, name) for name in shared})


class RankingParams(DescentParams):
    """Settings common to all training on lists: a query's right passage, then its negatives."""

    n: PositiveInt = Field(15, description="negatives in a list, drawn again each epoch from the mined ones")
    ranker_scale: PositiveFloat = Field(1.0, description="multiplies the ranker's scores before any softmax (tau)")
    lists_at_once: PositiveInt | Literal["auto"] | None = Field(
        None, description="lists through the ranker together: fewer need less memory; auto: what fits into a GPU"
    )


class WarmUpRankerParams(RankingParams):
    """The ranker alone, on negatives that the warmed-up retriever mined."""

    loss: Literal["listwise", "pointwise"] = Field(
        "listwise", description="which passage of the list is right, or of each, whether it is: log odds (RocketQA)"
    )
    epochs: PositiveInt = Field(3, description="passes over the training queries, at most")
    max_steps: PositiveInt | None = Field(2000, description="steps, at most; null: as many as the epochs have")
    batch_size: PositiveInt = Field(64, description="lists a step")
    learning_rate: LearningRate = Field(1e-5, description="the peak, after warm-up")

    @model_validator(mode="after")
    def _log_odds_have_a_unit(self) -> Self:
        if self.loss == "pointwise" and self.ranker_scale != 1.0:
            raise ValueError(
                f"ranker_scale={self.ranker_scale:g} with loss=pointwise: scores are log odds then, in nats; drop it"
            )
        return self


class CrossFittedRankerParams(WarmUpRankerParams):
    """Rankers that are each trained on all parts of the queries but one, and score this one."""

    folds: Annotated[int, Field(ge=2)] = Field(2, description="parts of the queries: rankers that are trained")
    loss: Literal["listwise"] = Field("listwise", description="which document of the list is given (InfoNCE)")
    n: PositiveInt = Field(7, description="negatives in a list, drawn again each epoch from the documents found")
    batch_size: PositiveInt = Field(16, description="lists a step")
    learning_rate: LearningRate = Field(5e-5, description="the peak, after warm-up")


class RoundParams(RankingParams):
    """A round of AR2 (Zhang et al., ICLR 2022): ranker steps, then retriever steps, on freshly mined negatives."""

    rounds: PositiveInt = Field(10, description="how often negatives are mined; both schedules span all rounds")
    ranker_steps: NonNegativeInt = Field(500, description="of the ranker, a round")
    retriever_steps: NonNegativeInt = Field(1500, description="of the retriever, a round")
    ranker_batch_size: PositiveInt = Field(64, description="lists a step of the ranker")
    retriever_batch_size: PositiveInt = Field(64, description="lists a step of the retriever")
    ranker_learning_rate: LearningRate = Field(1e-6, description="the peak, after warm-up")
    retriever_learning_rate: LearningRate = Field(1e-5, description="the peak, after warm-up")
    adv_lambda: Fraction = Field(
        0.5, description="weight of the adversarial loss, 1 - this being the distillation's; 0: distillation alone"
    )
    variant: Literal["paper", "code"] = Field("paper", description="Eq. 9, or the official code's loss")
    scale: PositiveFloat | None = Field(
        None, description="multiplies the retriever's similarities before any softmax; null: train.scale"
    )
    chunk_size: PositiveInt | Literal["auto"] | None = Field(
        None, description="texts through a tower together: gradient caching; auto: what fits into a GPU"
    )
    flagged: Flagged = Field(
        "keep",
        description="pairs that the detectors call wrong: as any other; left out; or ranked as a teacher ranks them",
    )
    teacher_decay: Fraction = Field(
        0.99, description="of the moving average of the ranker's weights that is the teacher, a step (flagged=soft)"
    )
    dev_queries: NonNegativeInt = Field(2000, description="dev queries ranked after each round, at most; 0: none")
    dev_documents: DevDocuments = 50_000


class TrainAr2Params(RoundParams):
    """One round of AR2; every round has the same settings."""

    scale: PositiveFloat = Field(20.0, description="multiplies the retriever's similarities before any softmax")
