"""How readers are trained on distant labels: what a method changes in `reader.train`.  No arithmetic."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from noisyir.readers.settings import Passages
from noisyir.training.settings import TrainReaderParams
from noisyir.variants import Variant


class ReaderMethod(Variant):
    """A way to train a reader.

    changes: what of `reader.train` it sets.  labels: whose passages it is trained on; None stands for `reader.labels`.
    """

    home: ClassVar[str] = __name__
    group: ClassVar[str | None] = "noisyir.readers"
    changes: ClassVar[Mapping[str, Any]] = {}
    labels: ClassVar[Passages | None] = None

    def settings(self, train: TrainReaderParams) -> TrainReaderParams:
        """The settings of its training, from those of all methods."""
        return train.model_copy(update=dict(self.changes))

    @property
    def is_cds(self) -> bool:
        """Whether the method has confidences and wants confusing passages."""
        return self.changes.get("objective") == "cds"


class DsTop(ReaderMethod):
    """Trained on the few passages that are most like the question."""

    kind: Literal["ds_top"] = "ds_top"
    changes: ClassVar[Mapping[str, Any]] = {"objective": "ds_top"}


class DsAll(ReaderMethod):
    """Every labelled span is right: plain distant supervision."""

    kind: Literal["ds_all"] = "ds_all"
    changes: ClassVar[Mapping[str, Any]] = {"objective": "ds_all"}


class DsAverage(ReaderMethod):
    """The same, each question counting alike."""

    kind: Literal["ds_average"] = "ds_average"
    changes: ClassVar[Mapping[str, Any]] = {"objective": "ds_average"}


class HardEm(ReaderMethod):
    """The likeliest labelled span of a question is right (Min et al., EMNLP 2019)."""

    kind: Literal["hard_em"] = "hard_em"
    changes: ClassVar[Mapping[str, Any]] = {"objective": "hard_em"}


class CdsSoft(ReaderMethod):
    """Confidence by soft weighting."""

    kind: Literal["cds_sw"] = "cds_sw"
    changes: ClassVar[Mapping[str, Any]] = {"objective": "cds", "confidence": "soft"}


class CdsHardMax(ReaderMethod):
    """Confidence by hard max."""

    kind: Literal["cds_hm"] = "cds_hm"
    changes: ClassVar[Mapping[str, Any]] = {"objective": "cds", "confidence": "hard_max"}


class CdsAverage(ReaderMethod):
    """Confidence by positive average."""

    kind: Literal["cds_pa"] = "cds_pa"
    changes: ClassVar[Mapping[str, Any]] = {"objective": "cds", "confidence": "positive_average"}


class CdsSlow(ReaderMethod):
    """Positive average that moves slowly and keeps more of its start."""

    kind: Literal["cds_slow"] = "cds_slow"
    changes: ClassVar[Mapping[str, Any]] = {
        "objective": "cds",
        "confidence": "positive_average",
        "confidence_decay": 0.97,
        "updates_per_epoch": 1,
    }


class CdsNoDebias(ReaderMethod):
    """Without the debias loss."""

    kind: Literal["cds_no_debias"] = "cds_no_debias"
    changes: ClassVar[Mapping[str, Any]] = {"objective": "cds", "alpha": 0.0}


class CdsNoDenoise(ReaderMethod):
    """Without the denoise loss."""

    kind: Literal["cds_no_denoise"] = "cds_no_denoise"
    changes: ClassVar[Mapping[str, Any]] = {"objective": "cds", "beta": 0.0}


class CdsNoConfidence(ReaderMethod):
    """All labelled passages of a question with equal confidence."""

    kind: Literal["cds_no_confidence"] = "cds_no_confidence"
    changes: ClassVar[Mapping[str, Any]] = {"objective": "cds", "confidence": "none"}


class Supervised(ReaderMethod):
    """Cross-entropy on the passages that the data itself calls relevant."""

    kind: Literal["supervised"] = "supervised"
    changes: ClassVar[Mapping[str, Any]] = {"objective": "supervised"}
    labels: ClassVar[Passages | None] = "given"
