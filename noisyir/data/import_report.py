"""The report of an import, in words and as JSON: rows, reasons for leaving some out, duplicates, lengths, splits."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from noisyir.data.importing import ImportCounts
from noisyir.data.leniency import FileAccount, Tally

_SHARES = (50, 95, 100)


def as_json(found: ImportCounts, settings: Mapping[str, Any], columns: Mapping[str, Any]) -> dict[str, Any]:
    """All of it; settings: of `data`, which read the source; columns: which was taken for what."""
    return {
        "format": settings["kind"],
        "settings": dict(settings),
        **({"columns": dict(columns)} if columns else {}),
        "files": {
            place: {
                "read": of.read,
                "kept": of.kept,
                "repeated": _tally(of.repeated),
                "left_out": {reason: _tally(tally) for reason, tally in of.excluded.items()},
                "parts_left_out": {reason: _tally(tally) for reason, tally in of.parts.items()},
            }
            for place, of in found.account.files.items()
        },
        "tables": dict(found.rows),
        "pairs": dict(found.pairs),
        "judged": {"by nobody" if grade is None else str(grade): count for grade, count in found.judged.items()},
        "with_scores": dict(found.scored),
        "same_text": {name: count for name, count in found.same_text.items() if count},
        "lengths": {name: _lengths(values) for name, values in found.lengths.items() if values},
        "odd": {what: _tally(tally) for what, tally in found.odd.items()},
        "shared_by_splits": found.shared,
    }


def in_words(report: Mapping[str, Any]) -> str:
    """The report for a terminal."""
    return "\n".join(_lines(report))


def _lines(report: Mapping[str, Any]) -> Iterator[str]:
    yield f"format        {report['format']}"
    if columns := report.get("columns"):
        yield f"columns       {', '.join(f'{name} is {what}' for what, name in columns.items())}"
    for place, of in report["files"].items():
        yield from _of_file(place, of)
    yield from _of_tables(report)
    for name, count in report["same_text"].items():
        yield f"same text     {count:,} {name} have the text of an earlier one under another id"
    for name, of in report["lengths"].items():
        yield f"length        {name}: median {of['50']:,}, 95 % up to {of['95']:,}, longest {of['100']:,} characters"
    for what, tally in report["odd"].items():
        yield f"odd           {tally['count']:,} {what}{_at(tally)}"
    yield from _leaks(report["shared_by_splits"])


def _of_tables(report: Mapping[str, Any]) -> Iterator[str]:
    tables = report["tables"]
    by_split = ", ".join(f"{count:,} {split}" for split, count in report["pairs"].items())
    yield (
        f"kept          {tables['documents']:,} documents, {tables['queries']:,} queries, "
        f"{tables['judgements']:,} pairs{f' ({by_split})' if by_split else ''}, {tables['negatives']:,} negatives"
    )
    judged = {grade: count for grade, count in report["judged"].items() if grade != "by nobody"}
    if judged:
        yield f"judged        {', '.join(f'{count:,} as {grade}' for grade, count in sorted(judged.items()))}"
    for name, count in report["with_scores"].items():
        yield f"scores        {count:,} {'pairs' if name == 'judgements' else name} have one"


def _leaks(shared: Mapping[str, int]) -> Iterator[str]:
    leaks = {what: count for what, count in shared.items() if count}
    for what, count in leaks.items():
        yield f"leak          {count:,} {what}"
    if shared and not leaks:
        yield "leak          none: no held-out query has a training query's words or a training pair's document"


def _of_file(place: str, of: Mapping[str, Any]) -> Iterator[str]:
    file, _, unit = place.rpartition(" ")
    repeated, left_out = of["repeated"], of["left_out"]
    lost = sum(tally["count"] for tally in left_out.values())
    yield (
        f"read          {of['read']:,} {unit}s of {file}: {of['kept']:,} kept, {repeated['count']:,} repeat an earlier "
        f"one, {lost:,} left out"
    )
    if repeated["count"]:
        yield f"  repeated    {repeated['count']:,}{_at(repeated, unit)}"
    for reason, tally in left_out.items():
        yield f"  left out    {tally['count']:,}: {reason}{_at(tally, unit)}"
    for reason, tally in of["parts_left_out"].items():
        yield f"  in part     {tally['count']:,} rows were kept without a part: {reason}{_at(tally, unit)}"


def _at(tally: Mapping[str, Any], unit: str = "number") -> str:
    first = ", ".join(f"{number:,}" for number in tally["first"])
    more = ", ..." if tally["count"] > len(tally["first"]) else ""
    return f" ({unit} {first}{more})"


def _tally(tally: Tally) -> dict[str, Any]:
    return {"count": tally.count, "first": tally.first}


def _lengths(values: Sequence[int]) -> dict[str, int]:
    """The median, the length that 95 of 100 do not exceed, and the longest, in characters."""
    found = np.percentile(np.frombuffer(values, np.uint32), _SHARES, method="nearest")  # type: ignore[call-overload]
    return {str(share): int(value) for share, value in zip(_SHARES, found, strict=True)}


def left_out(files: Mapping[str, FileAccount]) -> int:
    """Rows, and parts of rows, that were left out for a fault; a repeated row is none."""
    return sum(of.left_out + sum(tally.count for tally in of.parts.values()) for of in files.values())
