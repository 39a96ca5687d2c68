"""How well wrong pairs were found, as rows of text: for the report of a run, and for the noise bench."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from noisyir.eval.bench import Cell
from noisyir.eval.bench_quality import Quality, detection_quality
from noisyir.report.cells import NONE, number, percent, rate_as_set, signed

_QUALITY = ["detector", "epoch", "AUROC", "AP", "F1", "rate by the best null", "true rate"]
_ONE_RUN = Cell("", 0.0, "", 0)
_MANY, _POINTS = 0.75, 0.05


def detection_rows(detection: pa.Table) -> list[list[str]]:
    """One row a detector of one run (DETECTION), headings first; its first and last verdicts, if it judged often."""
    return [_QUALITY, *map(_cells, detection_quality({_ONE_RUN: detection}))]


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


def flag_warnings(detection: pa.Table) -> list[str]:
    """Sentences on systems whose last flags disagree grossly with the noise rate that the detectors estimate.

    Gross is more than twice the interval's upper end, or less than half its lower end, by five points at least; where
    nobody estimated a rate, more than three quarters of the pairs.  Where none is flagged there is nothing to rely on.
    """
    qualities = [each for each in detection_quality({_ONE_RUN: detection}) if each.when != "first"]
    rated = next((each for each in qualities if "rate_high" in each.means), None)
    low, high = (rated.means["rate_low"], rated.means["rate_high"]) if rated else (0.0, _MANY / 2)
    said = []
    for each in qualities:
        flagged = each.means.get("flagged")
        if not flagged or low / 2 - _POINTS <= flagged <= max(2 * high, high + _POINTS):
            continue
        rate = f"{rated.detector} estimate {_of(rated.means)}" if rated else "nobody estimated the rate"
        said.append(
            f"{each.detector} flagged {percent(flagged, 1)} of the pairs in the end, and {rate}: do not rely on these "
            "flags; judge a sample (noisyir audit --sample), and compare with plain training (methods=[auto])."
        )
    return said


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


def _of(means: Mapping[str, float]) -> str:
    low, high = (percent(means[name], 1) for name in ("rate_low", "rate_high"))
    return f"{percent(means['rate'], 1)} wrong (by all nulls {low} to {high})"


def _estimate(means: Mapping[str, float]) -> str:
    """By the null that fits best, and what all nulls allow, in words: brackets would look like an interval."""
    if "rate" not in means or "rate_low" not in means:
        return percent(means.get("rate"), 1)
    best, low, high = (percent(means[name], 1) for name in ("rate", "rate_low", "rate_high"))
    return f"{best}; all nulls {low} to {high}"


Row = Mapping[str, Any]
_START, _LEXICAL = "zero_shot", "bm25"


def doubts(rows: Sequence[Row], system: str | None = None, *, unchanged: bool = False) -> list[str]:
    """A sentence for each doubt about a system of a comparison (COMPARISON), on its first measure and split.

    system: whose model was kept; None: the last one, which is on trial.  unchanged: its weights are those of its start.
    Nothing is said of a system that is not there, or has no start beside it, as readers have not.
    """
    system = system or (str(rows[-1]["system"]) if rows else "")
    means = {row["system"]: row for row in rows if (row["measure"], row["split"]) == _first(rows)}
    if system not in means or system in (_START, _LEXICAL):
        return []
    said = []
    if unchanged or (_START in means and not _is_better(rows, system, _START)):
        said.append(_learned_nothing(rows, system, unchanged=unchanged))
    if _LEXICAL in means and means[system]["mean"] < means[_LEXICAL]["mean"]:
        said.append(
            f"{system} is worse than BM25, which needs no training: {_against(rows, system, _LEXICAL)}. Search with "
            "BM25, or with both; a stronger start (model.backbone=transformer) or more pairs may change that."
        )
    return said


def _learned_nothing(rows: Sequence[Row], system: str, *, unchanged: bool) -> str:
    how = "has the weights of its start: it learned nothing" if unchanged else "is not better than the untrained model"
    measured = f": {_against(rows, system, _START)}" if any(row["system"] == _START for row in rows) else ""
    return (
        f"{system} {how}{measured}. See whether its loss falls (the report's section Training): where it does not, "
        "leave out train.learning_rate, which is then chosen by the backbone, or raise train.epochs; where it does, "
        "audit the pairs (noisyir audit)."
    )


def _first(rows: Sequence[Row]) -> tuple[str, str]:
    return rows[0]["measure"], rows[0]["split"]


def _test(rows: Sequence[Row], system: str, other: str) -> Row | None:
    """The row that tests a system against another; None where only their means are known."""
    found = (row for row in rows if (row["system"], row["baseline"]) == (system, other))
    return next((row for row in found if (row["measure"], row["split"]) == _first(rows)), None)


def _is_better(rows: Sequence[Row], system: str, other: str) -> bool:
    """Beyond chance, by the interval; by the means where there is no test."""
    if (test := _test(rows, system, other)) is not None:
        return bool(test["difference_low"] > 0)
    return bool(_mean(rows, system) > _mean(rows, other))


def _mean(rows: Sequence[Row], system: str) -> float:
    means = {row["system"]: row["mean"] for row in rows if (row["measure"], row["split"]) == _first(rows)}
    return float(means[system])


def _against(rows: Sequence[Row], system: str, other: str) -> str:
    measure, split = _first(rows)
    said = f"{measure} {_mean(rows, system):.3f} against {_mean(rows, other):.3f} ({split})"
    if (test := _test(rows, system, other)) is None:
        return said
    interval = f"[{signed(test['difference_low'])}, {signed(test['difference_high'])}]"
    return f"{said}, difference {signed(test['difference'])} {interval}"
