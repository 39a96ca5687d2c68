"""Contrastive distant supervision (Bian et al., Findings of EMNLP 2023), its confidences, and its ablations."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from noisyir.pipelines.reader_methods import ReaderMethod


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
