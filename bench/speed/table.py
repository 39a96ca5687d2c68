"""The speed table as cells, and its record, benchmarks/speed.json: rows that were not run keep what they had."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench import tables
from bench.speed.row import Line, Row
from bench.speed.turns import Compared, Ratio

NAME = "speed"
HEAD = ["what", "against", "ours", "theirs", "ratio by the clock", "by CPU", "target", "verdict"]
_CLAIM = (
    "What noisyir takes beside its peers: medians of turns A B A B, each side in a process of its own; ratios are "
    "geometric means over the turns, with 95 % intervals.  On one core, processor time is what is shown and judged."
)
GROWTH = "growth"
GROWTH_HEAD = ["what", "a 16th", "a 4th", "all", "exponent"]
_GROWTH_CLAIM = (
    "How noisyir's time grows with the number of texts: the best of two turns at three sizes, and the exponent of a "
    "line fitted to their logarithms.  On one core, processor time."
)
Cells = list[str]


def compared(line: Line, found: Compared) -> Cells:
    """A line that was measured."""
    ours, other = (value(line, one) for one in (found.ours, found.other))
    return [line.what, line.against, ours, other, span(found.clock), span(found.cpu), target(line), found.verdict]


def left_out(line: Line, why: str) -> Cells:
    """A line that was not."""
    return [line.what, line.against, "", "", "", "", target(line), f"not run: {why}"]


def value(line: Line, one: float) -> str:
    """A median: items a second where an item has a name, seconds, milliseconds or MB otherwise."""
    if line.quantity.endswith("_mb"):
        return f"{one:,.0f} MB"
    if line.quantity.endswith("_ms"):
        return f"{one:,.0f} ms"
    if line.unit:
        return f"{1 / one:,.0f} {line.unit}/s"
    return f"{one:,.1f} s" if one >= 10 else f"{one:.2f} s"


def span(found: Ratio | None) -> str:
    """A ratio with its interval."""
    if found is None:
        return ""
    return f"{found.mean:.2f}" + (f" [{found.low:.2f}, {found.high:.2f}]" if found.low is not None else "")


def target(line: Line) -> str:
    """What the line is held against."""
    if line.limit is not None:
        return f"{'≥' if line.unit else '≤'} {value(line, line.limit)}"
    if line.at_least is not None:
        return f"≥ {line.at_least:g}"
    return f"≤ {line.at_most:g}" if line.at_most is not None else ""


def record(known: Mapping[str, Row], measured: Mapping[str, Any]) -> Path:
    """Write the record: these rows anew, where they were run; the others as they were measured before.

    measured: by row, `lines` (cells), the circumstances, and what every side took in each of its `turns`.
    """
    path = tables.RECORDS / f"{NAME}.json"
    before = tables.read(NAME)["measured"] if path.exists() else {}
    ran = {name: one for name, one in measured.items() if one["turns"]}
    every = {name: ran.get(name) or before.get(name) or measured.get(name) for name in known}
    lines = [cells for name, row in known.items() for cells in _lines(row, every[name])]
    return tables.record(NAME, [HEAD, *lines], left=2, claim=_CLAIM, measured=every)


def record_growth(known: Mapping[str, Row], measured: Mapping[str, Any]) -> Path:
    """Write the record of growth: these rows anew, the others as they were."""
    path = tables.RECORDS / f"{GROWTH}.json"
    every = {**(tables.read(GROWTH)["measured"] if path.exists() else {}), **measured}
    lines = [every[name]["line"] for name in known if name in every]
    return tables.record(GROWTH, [GROWTH_HEAD, *lines], left=1, claim=_GROWTH_CLAIM, measured=every)


def _lines(row: Row, measured: Mapping[str, Any] | None) -> list[Cells]:
    if measured:
        return list(measured["lines"])
    why = {line: row.lacking(line.ours) or row.lacking(line.other) or "not yet" for line in row.lines}
    return [left_out(line, reason) for line, reason in why.items()]
