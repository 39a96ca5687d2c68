"""Readers that believe distant labels, all of them or some."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from noisyir.pipelines.reader_methods import ReaderMethod


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
