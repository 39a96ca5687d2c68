"""Quality of detection as rows of text, for a run's report and the noise bench."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from noisyir.base.pages.cells import NONE, number, percent, rate_as_set
from noisyir.evaluation.bench import Cell
from noisyir.evaluation.bench_quality import Quality, detection_quality

_QUALITY = ["detector", "epoch", "AUROC", "AP", "F1", "estimated share wrong", "true share"]
_ONE_RUN = Cell("", 0.0, "", 0)
_MANY, _POINTS = 0.75, 0.05


def detection_rows(detection: pa.Table) -> list[list[str]]:
    """One row a detector of one run (DETECTION), or two, first and last epoch; headings first.

    Rows and columns without any value are left out, such as AUROC if it is not known which pairs are wrong.
    """
    found = map(_cells, detection_quality({_ONE_RUN: detection}))
    rows = [cells for cells in found if any(cell != NONE for cell in cells[2:])]
    columns = [column for column in zip(_QUALITY, *rows, strict=True) if {*column[1:]} - {NONE}]
    return [list(row) for row in zip(*columns, strict=True)]


def bench_rows(detection: Sequence[Quality]) -> list[list[str]]:
    """One row a detector and noise, headings first; undefined measures are dashes."""
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
    """Warnings of systems that flagged far more or fewer pairs than the estimated noise rate.

    Far is above twice the interval's upper end or below half its lower end, by five points at least; without an
    estimate, above three quarters of the pairs.  Systems that flag nothing are left out.
    """
    qualities = [each for each in detection_quality({_ONE_RUN: detection}) if each.when != "first"]
    rated = next((each for each in qualities if "rate_high" in each.means), None)
    low, high = (rated.means["rate_low"], rated.means["rate_high"]) if rated else (0.0, _MANY / 2)
    warnings = []
    for each in qualities:
        flagged = each.means.get("flagged")
        if not flagged or low / 2 - _POINTS <= flagged <= max(2 * high, high + _POINTS):
            continue
        rate = f"{rated.detector} estimate others ({_estimate(rated.means)})" if rated else "the rate was not estimated"
        warnings.append(
            f"{each.detector} flagged {percent(flagged, 1)} of the pairs in the end, and {rate}: do not rely on these "
            "flags; judge a sample (noisyir audit --sample), and compare with plain training (methods=[auto])."
        )
    return warnings


def _cells(quality: Quality) -> list[str]:
    return [
        quality.detector,
        _epochs(quality),
        *(number(quality.means.get(name)) for name in ("auroc", "average_precision")),
        number(quality.means.get("f1") if quality.means.get("true_rate") else None),  # there is none to find
        _estimate(quality.means),
        percent(quality.means.get("true_rate"), 1),
    ]


def _epochs(quality: Quality) -> str:
    low, high = min(quality.epochs), max(quality.epochs)
    epoch = str(low) if low == high else f"{low} to {high}"
    return epoch if quality.when == "only" else f"{epoch} ({quality.when})"


def _estimate(means: Mapping[str, float]) -> str:
    """The rate by the best-fitting null pairs, and the range over all; in words, because brackets mean intervals."""
    if "rate" not in means or "rate_low" not in means:
        return percent(means.get("rate"), 1)
    best, low, high = (percent(means[name], 1) for name in ("rate", "rate_low", "rate_high"))
    if means["rate_low"] <= means["rate"] <= means["rate_high"]:
        return f"{best}; all made-up pairs {low} to {high}"
    # the range leaves out pairs that are too easy to tell, which the best-fitting may be
    return f"{low} to {high}; made-up pairs that are too easy to count {best}"
