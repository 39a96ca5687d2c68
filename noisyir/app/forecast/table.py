"""The forecast as rows of text, and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from noisyir.app.forecast.lines import Group, Line, Totals
from noisyir.app.forecast.rates import Machine, Time
from noisyir.costs.workload import Sizes

HEADINGS = ("stage", "key", "rows", "", "vectors", "RAM", "disk", "time", "from")
NOTHING = "\N{EN DASH}"
_UNKNOWN = "?"
_OF_COST = ("rows", "unit", "flops", "vectors", "ram", "disk")


def forecast_row(group: Group) -> list[str]:
    """A row under `HEADINGS`; of several steps, rows, disk and time are those of all, vectors and RAM of one.

    The last cell says whether the step is cached or not chosen, and otherwise where its time is from.
    """
    first, count = group.lines[0], len(group.lines)
    name = group.name if count == 1 else f"{group.name} x{count}"
    key = (first.key[:7] if first.key else _UNKNOWN) if count == 1 else ""
    costs = [line.cost for line in group.lines if line.cost]
    cells = [NOTHING, "", NOTHING, NOTHING, NOTHING]
    if costs:
        sizes = [_size(max(getattr(cost, kind) for cost in costs)) for kind in ("vectors", "ram")]
        rows, disk = sum(cost.rows for cost in costs), sum(cost.disk for cost in costs)
        cells = [_count(rows), costs[0].unit, *sizes, _size(disk)]
    times = [line.time for line in group.lines if line.time]
    if first.entry.state != "would run" or not times:
        return [name, key, *cells, NOTHING, first.entry.state]
    range_ = span(sum(time.low for time in times), sum(time.high for time in times))
    return [name, key, *cells, range_, times[0].basis]


def totals_lines(found: Totals, machine: Machine, sizes: Sizes | None) -> list[str]:
    """What the whole run would cost, and what every kind of number rests on, a line each."""
    if sizes is None:
        return ["cost        not known before ingest has run, unless the experiment says what to expect (expected.*)"]
    said = {
        "gpu": f"assumed: {machine.gpu_tflops:g} TFLOP/s (--gpu-tflops)",
        "cpu": f"assumed: {machine.cpu_tflops:g} TFLOP/s of arithmetic, rough rates of the rest",
        "measured": "measured: builds of the same kind in this store, in proportion, of a tenth of the work at least",
    }
    lines = [
        f"{'time' if number == 0 else '':<12}{duration(found.seconds[basis]):>9} "
        f"[{span(found.low[basis], found.high[basis])}] {basis:<9} {said[basis]}"
        for number, basis in enumerate(basis for basis in said if basis in found.seconds)
    ] or ["time                0"]
    if found.unknown:
        lines.append(f"{'':<12}{found.unknown:>9} steps    no time is known of: not in the sums")
    lines.append(f"{'peak RAM':<12}{_size(found.ram):>9}           of the largest step, without libraries; estimated")
    lines.append(
        f"{'disk':<12}{_size(found.disk):>9}           of all that the run would leave in the store; estimated"
    )
    return lines


def forecast_json(lines: Sequence[Line], found: Totals, machine: Machine) -> dict[str, Any]:
    """The forecast as one object; bytes and seconds are estimates."""
    steps = [
        {
            "name": line.name,
            "key": line.key,
            "state": line.entry.state,
            "pool": line.entry.step.stage.pool,
            **({name: getattr(line.cost, name) for name in _OF_COST} if line.cost else {}),
            **(_time(line.time) if line.time else {}),
        }
        for line in lines
    ]
    seconds = {"seconds": found.seconds, "low": found.low, "high": found.high}
    total = {**seconds, "ram": found.ram, "disk": found.disk, "steps_without_time": found.unknown}
    return {"steps": steps, "total": total, "assumed": asdict(machine)}


def _time(time: Time) -> dict[str, Any]:
    return {"seconds": time.seconds, "low": time.low, "high": time.high, "from": time.basis}


def span(low: float, high: float) -> str:
    """From so many seconds to so many, in the unit that the longer ones are read in most easily."""
    longest = duration(high)
    unit = {"s": 1, "min": 60, "h": 3600}[longest.split()[1]]
    least = low / unit
    return f"{least:,.0f}-{longest}" if least >= 10 or unit == 60 else f"{least:,.1f}-{longest}"


def duration(seconds: float) -> str:
    """Seconds, minutes or hours, whichever are read most easily."""
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:,.1f} h"


def _count(value: float) -> str:
    return f"{value:,.0f}" if value < 1e8 else f"{value / 1e6:,.0f} M"


def _size(count: float) -> str:
    """Bytes in decimal units; nothing where there are none."""
    if count < 1:
        return NOTHING
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if count >= 100 or unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
