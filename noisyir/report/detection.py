"""How well wrong pairs were found, as rows of text: for the report of a run, and for the noise bench."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from noisyir.eval.bench import Cell
from noisyir.eval.bench_quality import Quality, detection_quality
from noisyir.report.cells import NONE, number, percent, rate_as_set

_QUALITY = ["detector", "epoch", "AUROC", "AP", "F1", "rate by the best null", "true rate"]


def detection_rows(detection: pa.Table) -> list[list[str]]:
    """One row a detector of one run (DETECTION), headings first; its first and last verdicts, if it judged often."""
    one_run = Cell("", 0.0, "", 0)
    return [_QUALITY, *map(_cells, detection_quality({one_run: detection}))]


def bench_rows(detection: Sequence[Quality]) -> list[list[str]]:
    """One row a detector and noise, headings first; an undefined measure, such as AUROC of no noise, is a dash."""
    return [["noise", "rate", *_QUALITY, "covered", "seeds"]] + [
        [
            quality.mechanism,
            rate_as_set(quality.rate),
            *_cells(quality),
            f"{quality.covered} of {quality.intervals}" if quality.intervals else NONE,
            str(len(quality.epochs)),
        ]
        for quality in detection
    ]


def _cells(quality: Quality) -> list[str]:
    return [
        quality.detector,
        _epochs(quality),
        *(number(quality.means.get(name)) for name in ("auroc", "average_precision", "f1")),
        _estimate(quality.means),
        percent(quality.means.get("true_rate"), 1),
    ]


def _epochs(quality: Quality) -> str:
    low, high = min(quality.epochs), max(quality.epochs)
    epoch = str(low) if low == high else f"{low} to {high}"
    return epoch if quality.when == "only" else f"{epoch} ({quality.when})"


def _estimate(means: Mapping[str, float]) -> str:
    """By the null that fits best, with the range over all nulls."""
    if "rate" not in means or "rate_low" not in means:
        return percent(means.get("rate"), 1)
    return f"{100 * means['rate']:.1f} % [{100 * means['rate_low']:.1f}, {100 * means['rate_high']:.1f}]"
