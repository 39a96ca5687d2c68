"""Settings of the detection and treatment of wrong pairs."""

from typing import Literal, get_args

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from noisyir.base.settings import Fraction, Params
from noisyir.training.settings import TrainDprParams

Null = Literal["random", "near", "lexical", "source"]
"""random: any document.  near: a neighbour of the best other document found for the query.  lexical: one with the
query's words.  source: one of the best other document's source."""
NULLS: tuple[Null, ...] = get_args(Null)
Assumed = Null | Literal["best"] | None
"""The made-up pairs that wrong ones are assumed to be like: a kind, the kind that fits best, or nothing."""

Components = Literal["dip", "made_up", "bic", "two"]


class DetectParams(Params):
    """Settings that turn scores of pairs into verdicts."""

    method: Literal["gmm", "beta", "null"] = Field(
        "null", description="mixture of two Gaussians or Betas, or the scores that synthetic wrong pairs have"
    )
    threshold: Fraction = Field(0.5, description="least probability of being clean that a clean pair has")
    min_rate: Fraction = Field(0.02, description="estimated noise rate below which no pair is flagged")
    clip: Fraction = Field(0.999, description="quantile above which scores are clipped before a mixture is fitted")
    components: Components = Field(
        "dip",
        description="when a mixture has two: dip: scores have more than one peak; made_up: or the upper one lies a "
        "third of the way to made-up pairs; bic: it fits better; two: always (NPC, Eq. 4 literally)",
    )
    posterior: Literal["monotone", "bayes"] = Field(
        "monotone", description="of a mixture; bayes: a wide component may win both ends (NPC, Eq. 5 literally)"
    )
    confidence: Fraction = Field(0.95, description="of each null's interval of the noise rate")
    assume: Assumed = Field(
        None,
        description="assume that wrong pairs are like these made-up ones, against any scores; best: the kind that fits "
        "best; null: flag nothing where no kind is warranted",
    )


class RepairParams(Params):
    """Settings of the repair of flagged pairs before training."""

    relabel: Fraction = Field(
        0.5, description="share of the flagged, most suspicious first, that get their replacement"
    )


class NpcParams(Params):
    """Noisy pair correction (Zhang et al., Findings of EMNLP 2023), in addition to the settings of `train`."""

    warmup_epochs: PositiveInt = Field(1, description="epochs on all pairs alike, before the first detection")
    doubt: Fraction | Literal["p_clean"] = Field(
        0.0, description="weight of a flagged pair's contrastive loss; p_clean: its chance to be clean"
    )
    detect: Literal["each_epoch", "once", "given", "never"] = Field(
        "each_epoch", description="when pairs are flagged; given: by the flags input; never: all count as clean"
    )
    consistency: NonNegativeFloat = Field(
        0.0, description="weight of the consistency loss; 1: the paper's correction; 0: detection only"
    )
    kl: Literal["teacher_student", "student_teacher"] = Field(
        "teacher_student", description="direction of the divergence; the second is the paper's notation read literally"
    )
    teacher_decay: Fraction = Field(0.99, description="of the moving average of weights, a step")
    teacher_epochs: PositiveFloat | None = Field(
        None, description="epochs that the average reaches back, in place of teacher_decay: 1 - 1 / (this * steps)"
    )
    shuffles: PositiveInt = Field(1, description="orders of the pairs that a detection averages over")
    hard_negatives: NonNegativeInt = Field(0, description="mined negatives in the pair loss: an ablation")
    final: Literal["student", "teacher"] = Field("student", description="the model that is kept")

    def decay(self, an_epoch: int) -> float:
        """The teacher's decay a step, by the number of steps an epoch."""
        if self.teacher_epochs is None:
            return self.teacher_decay
        return max(0.0, 1.0 - 1.0 / (self.teacher_epochs * an_epoch))


class NpcDetectParams(DetectParams):
    """Settings of NPC's own detections, by the losses of a model trained on the pairs."""

    method: Literal["gmm", "beta", "null"] = Field("gmm", description="as of `detect`; gmm is the paper's")
    # such a model scores its pairs too well to estimate the noise rate, so it is no gate here
    min_rate: Fraction = Field(0.0, description="estimated noise rate below which no pair is flagged")
    components: Components = Field("made_up", description="as of `detect`; two: always (NPC, Eq. 4 literally)")
    assume: Null | Literal["best"] = Field("best", description="as of `detect`; the paper checks nothing")


class TrainNpcParams(TrainDprParams):
    """Training by noisy pair correction: the settings of `train`, of `npc` and of its detections."""

    npc: NpcParams = NpcParams()
    detection: NpcDetectParams = NpcDetectParams()
