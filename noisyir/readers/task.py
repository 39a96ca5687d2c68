"""Task `reader`: experiment settings and training methods for readers; no arithmetic."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import Field, PositiveInt, model_validator

from noisyir.base.variants import Variant
from noisyir.methods.plans.method import Method
from noisyir.methods.plans.task import Task
from noisyir.readers.settings import (
    ConfusingParams,
    InitReaderParams,
    Passages,
    ReadParams,
    ScoreReadingParams,
    SpansParams,
    TrainReaderParams,
)

if TYPE_CHECKING:
    from noisyir.methods.plans.experiment import Experiment


class ReaderMethod(Variant):
    """A reader training method.

    Attributes:
        changes: Overrides of `reader.train`, given like the kind.
        labels: Source of the training passages; None uses `reader.labels`.
    """

    home: ClassVar[str] = __name__
    group: ClassVar[str | None] = "noisyir.readers"
    changes: ClassVar[Mapping[str, Any]] = {}
    labels: ClassVar[Passages | None] = None

    def __init_subclass__(cls, kind: str = "", changes: Mapping[str, Any] | None = None, **config: Any) -> None:
        """Give the method its changes."""
        super().__init_subclass__(kind, **config)
        cls.changes = changes or cls.changes

    def settings(self, train: TrainReaderParams) -> TrainReaderParams:
        """Return the method's training settings, derived from the shared ones."""
        return train.model_copy(update=dict(self.changes))

    @property
    def is_cds(self) -> bool:
        """Whether the method uses confidences and confusing passages."""
        return self.changes.get("objective") == "cds"


class DsTop(ReaderMethod, kind="ds_top", changes={"objective": "ds_top"}):
    """Train on the few passages most similar to the question."""


class DsAll(ReaderMethod, kind="ds_all", changes={"objective": "ds_all"}):
    """Plain distant supervision: every labelled span counts as correct."""


class DsAverage(ReaderMethod, kind="ds_average", changes={"objective": "ds_average"}):
    """Plain distant supervision with equal weight per question."""


class HardEm(ReaderMethod, kind="hard_em", changes={"objective": "hard_em"}):
    """Train on the likeliest labelled span of each question (Min et al., EMNLP 2019)."""


class CdsSoft(ReaderMethod, kind="cds_sw", changes={"objective": "cds", "confidence": "soft"}):
    """CDS with soft-weighted confidence."""


class CdsHardMax(ReaderMethod, kind="cds_hm", changes={"objective": "cds", "confidence": "hard_max"}):
    """CDS with hard-max confidence."""


class CdsAverage(ReaderMethod, kind="cds_pa", changes={"objective": "cds", "confidence": "positive_average"}):
    """CDS with positive-average confidence."""


class CdsSlow(
    ReaderMethod,
    kind="cds_slow",
    changes={"objective": "cds", "confidence": "positive_average", "confidence_decay": 0.97, "updates_per_epoch": 1},
):
    """CDS with positive-average confidence that moves slowly and retains more of its initial value."""


class CdsNoDebias(ReaderMethod, kind="cds_no_debias", changes={"objective": "cds", "alpha": 0.0}):
    """CDS without the debias loss."""


class CdsNoDenoise(ReaderMethod, kind="cds_no_denoise", changes={"objective": "cds", "beta": 0.0}):
    """CDS without the denoise loss."""


class CdsNoConfidence(ReaderMethod, kind="cds_no_confidence", changes={"objective": "cds", "confidence": "none"}):
    """CDS with equal confidence for all labelled passages of a question."""


class CdsPlainContrast(
    ReaderMethod, kind="cds_plain_contrast", changes={"objective": "cds", "confidence": "none", "contrast": "passages"}
):
    """The paper's third ablation of CDS: in place of its losses, passages with an answer against passages without."""


class Supervised(ReaderMethod, kind="supervised", changes={"objective": "supervised"}):
    """Cross-entropy on the passages that the data itself judges relevant."""

    labels: ClassVar[Passages | None] = "given"


class ReaderTask(Task, kind="reader"):
    """Experiment task that trains readers on distant labels."""

    pipeline: ClassVar[str] = "noisyir.readers.pipeline:train_reader"
    bench: ClassVar[str] = "noisyir.readers.pipeline:reader_bench"
    methods_of: ClassVar[type[Variant]] = ReaderMethod
    reads_passages: ClassVar[bool] = False

    methods: tuple[ReaderMethod, ...] = Field(
        (DsAll(), CdsAverage()),
        min_length=1,
        description="trained side by side; the last one is on trial, unless `keep` names another",
    )
    ensemble: tuple[str, ...] = Field((), description="the methods with answers that are also given as one")
    labels: Passages = Field("bm25", description="the passages that are labelled and trained on")
    retriever: Method | None = Field(
        None, description="dense: the method, as of `methods`, that trains the retriever; null: the untrained model"
    )
    passages: tuple[Passages, ...] = Field(
        ("bm25", "given"), min_length=1, description="the passages: retrieved ones, or the relevant ones"
    )
    spans: SpansParams = SpansParams()
    confusing: ConfusingParams = ConfusingParams()
    init: InitReaderParams = InitReaderParams()
    train: TrainReaderParams = TrainReaderParams()
    read: ReadParams = ReadParams()
    held_out_questions: PositiveInt | None = Field(
        None, description="questions of score.splits that are read, drawn at random; null: all"
    )
    score: ScoreReadingParams = ScoreReadingParams()

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        known = tuple(method.kind for method in self.methods)
        for setting, names in (("methods", known), ("passages", self.passages), ("ensemble", self.ensemble)):
            if len(set(names)) < len(names):
                raise ValueError(f"reader.{setting}={list(names)} names one of them twice: leave one out")
        if strangers := [name for name in self.ensemble if name not in known]:
            raise ValueError(f"reader.ensemble: {strangers[0]!r} is not among reader.methods={list(known)}")
        return self

    @property
    def wants_dense(self) -> bool:
        """Whether a dense run is labelled or read."""
        return "dense" in (self.labels, *self.passages)

    @property
    def trained(self) -> tuple[str, ...]:
        """The methods to train."""
        return tuple(method.kind for method in self.methods)

    @property
    def own_labels(self) -> str:
        """The source of labelled passages."""
        return self.labels

    @property
    def label_story(self) -> str:
        """Describe the origin of the labels."""
        return f"Labels are distant: the passages of {self.labels} that hold an answer."


def reader_of(exp: "Experiment") -> ReaderTask:
    """Return the reader settings of an experiment that trains readers."""
    assert isinstance(exp.task, ReaderTask)
    return exp.task
