"""The forecast of a plan: a line for each step, rounds of the same kind together, and totals."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from noisyir.app.forecast.calls import built_calls, planned_calls
from noisyir.app.forecast.rates import Machine, Time, cost_of, measured, time_of
from noisyir.costs.workload import Sizes
from noisyir.data.settings import ExpectedParams
from noisyir.engine.plan import Forecast
from noisyir.engine.provenance import ABSENT
from noisyir.engine.stage import Cost, Step
from noisyir.engine.store import Store

_READABLE = 60  # steps of a plan that are listed one by one


@dataclass(frozen=True)
class Line:
    """One step: what a run would do with it and, where that can be known, its cost and time.

    key: None where it depends on raw input that is not there.
    """

    entry: Forecast
    key: str | None
    cost: Cost | None
    time: Time | None

    @property
    def name(self) -> str:
        """The step's name."""
        return self.entry.step.name


@dataclass(frozen=True)
class Group:
    """Lines of one kind, such as a step of each round."""

    name: str
    lines: Sequence[Line]


@dataclass(frozen=True)
class Totals:
    """Of the steps that would run: seconds by where the number is from, peak memory, bytes left in the store.

    unknown: how many of them no time is known of.
    """

    seconds: dict[str, float]
    ram: float
    disk: float
    unknown: int


def lines_of(
    states: Sequence[Forecast], store: Store, expected: ExpectedParams, machine: Machine
) -> tuple[list[Line], Sizes | None]:
    """A line for each step, and the sizes that they are forecast for; None where nobody knows them yet."""
    calls = planned_calls(states, store, expected)
    sizes = next((call.sizes for call in calls.values() if call.sizes), None)
    rates = measured(built_calls(store, {call.stage.name: call.stage for call in calls.values()}))
    unknown: set[str] = set()
    lines = []
    for entry in states:
        name, call = entry.step.name, calls[entry.step.name]
        if _is_absent(entry.step, unknown):
            unknown.add(name)
        cost = cost_of(call, sizes) if sizes else None
        time = time_of(call, cost, sizes, rates, machine) if sizes and entry.state == "would run" else None
        lines.append(Line(entry, None if name in unknown else entry.step.key, cost, time))
    return lines, sizes


def _is_absent(step: Step, unknown: set[str]) -> bool:
    return ABSENT in step.inputs.values() or any(output.step in unknown for output in step.outputs_needed())


def grouped(lines: Sequence[Line]) -> list[Group]:
    """Each line by itself; of a long plan those whose names differ in numbers after @ alone, in one state, together."""
    if len(lines) <= _READABLE:
        return [Group(line.name, [line]) for line in lines]
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        groups.setdefault((re.sub(r"@\d+", "@*", line.name), line.entry.state), []).append(line)
    return [Group(found[0].name if len(found) == 1 else name, found) for (name, _), found in groups.items()]


def totals(lines: Iterable[Line]) -> Totals:
    """What the steps that would run amount to."""
    seconds: dict[str, float] = {}
    ram = disk = 0.0
    unknown = 0
    for line in lines:
        if line.entry.state != "would run":
            continue
        if line.cost:
            ram, disk = max(ram, line.cost.ram), disk + line.cost.disk
        if line.time:
            seconds[line.time.basis] = seconds.get(line.time.basis, 0.0) + line.time.seconds
        else:
            unknown += 1
    return Totals(seconds, ram, disk, unknown)
