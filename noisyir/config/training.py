"""Settings of training: the start model, DPR, and the methods built on it."""

from typing import Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from noisyir.config.base import Fraction, Location, Params
from noisyir.config.noise import DetectParams


class InitModelParams(Params):
    """The bi-encoder that training starts from, and the shape that it keeps."""

    backbone: Literal["static", "transformer"] = Field("static", description="token-embedding bag, or an encoder")
    weights: Location = Field(
        "minilm", description="minilm (the packaged all-MiniLM-L6-v2), a model folder, or a Hugging Face name"
    )
    layers: PositiveInt | None = Field(None, description="keep only the first layers of a transformer")
    dropout: Fraction | None = Field(None, description="of a transformer in training; null: as its weights say")
    shared: bool = Field(True, description="one tower for queries and passages, or two")
    pooling: Literal["mean", "cls"] = Field("mean", description="how token vectors become one (transformer)")
    similarity: Literal["cosine", "dot"] = Field("cosine", description="what the score of two vectors is")
    query_prefix: str = Field("", description="put before every query")
    passage_prefix: str = Field("", description="put before every passage")
    query_max_len: PositiveInt = Field(64, description="tokens of a query that are read")
    passage_max_len: PositiveInt = Field(256, description="tokens of title and text that are read")


class CcrParams(Params):
    """The contrastive confidence regulariser (Wang et al., AAAI 2024, Eq. 8): loss - beta * mean loss of the pool."""

    beta: NonNegativeFloat = Field(
        0.0, description="its weight: up to 1 for cosine, 1e-4 to 1e-3 for dot products; 0: no regulariser"
    )
    from_epoch: NonNegativeInt = Field(0, description="the first epoch, from 0, in which it counts")
    force: bool = Field(False, description="allow beta above 0.01 with dot products, whose loss has no lower bound")


class WarmUpParams(Params):
    """DPR training: in-batch negatives, and mined ones where there are any."""

    epochs: PositiveInt = Field(6, description="passes over the training pairs")
    batch_size: PositiveInt = Field(512, description="queries a step, hence in-batch negatives + 1")
    learning_rate: PositiveFloat = Field(2e-5, description="the peak, after warm-up")
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
        None, description="texts through a tower at once: gradient caching; auto: what fits into a GPU (docs/gpu.md)"
    )
    gradient_checkpointing: bool = Field(
        False, description="compute a transformer's activations twice instead of keeping them: less memory"
    )
    flagged: Literal["drop", "weight"] = Field(
        "drop", description="pairs with flags: leave those flagged out, or weight the loss by the chance to be clean"
    )
    patience: PositiveInt | None = Field(
        None, description="stop after this many epochs without a better dev MRR@10, and keep the best; null: never"
    )
    dev_queries: NonNegativeInt = Field(2000, description="dev queries ranked after each epoch, at most; 0: none")
    dev_documents: PositiveInt = Field(
        50_000, description="documents they are ranked over, at most: the relevant ones, then others named by the pairs"
    )


class NpcParams(Params):
    """Noisy pair correction (Zhang et al., Findings of EMNLP 2023), beside the settings of `train`."""

    warmup_epochs: PositiveInt = Field(1, description="epochs on all pairs alike before the first detection")
    detect: Literal["each_epoch", "once", "given", "never"] = Field(
        "each_epoch", description="when pairs are flagged; given: by the flags input; never: all count as clean"
    )
    consistency: NonNegativeFloat = Field(1.0, description="weight of the consistency loss; 0: detection only")
    kl: Literal["teacher_student", "student_teacher"] = Field(
        "teacher_student", description="direction of the divergence; the second is the paper's notation read literally"
    )
    teacher_decay: Fraction = Field(0.99, description="of the moving average of weights, a step")
    shuffles: PositiveInt = Field(1, description="orders of the pairs that a detection averages over")
    hard_negatives: NonNegativeInt = Field(0, description="mined negatives in the pair loss: an ablation")
    final: Literal["student", "teacher"] = Field("student", description="the model that is kept")


class TrainNpcParams(WarmUpParams):
    """Training by noisy pair correction: the settings of `train`, of `npc`, and of its detections."""

    npc: NpcParams = NpcParams()
    # A model scores the pairs it was trained on too well for the noise rate to be read off: no gate by it here.
    detection: DetectParams = DetectParams(method="gmm", min_rate=0.0)


class CoTeachingParams(Params):
    """Co-teaching (Han et al., NeurIPS 2018), beside the settings of `train`."""

    ramp_epochs: PositiveInt = Field(2, description="epochs over which the share of dropped pairs rises from 0")
    perturbation: NonNegativeFloat = Field(0.1, description="noise on the second model's start, in each weight's std")


class TrainCoTeachingParams(WarmUpParams):
    """Co-teaching: the settings of `train` and its own."""

    co_teaching: CoTeachingParams = CoTeachingParams()
