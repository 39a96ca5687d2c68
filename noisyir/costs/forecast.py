"""The forecast of a plan: a line for each step, rounds of the same kind together, and totals."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from noisyir.costs.nodes import Builds, Planned, Sizes
from noisyir.costs.rates import Machine, Time, measured, time_of
from noisyir.costs.scene import Work
from noisyir.costs.work import work_of
from noisyir.data.settings import ExpectedParams
from noisyir.engine.plan import Forecast
from noisyir.engine.provenance import ABSENT
from noisyir.engine.stage import Step
from noisyir.engine.store import Store

_READABLE = 60  # steps of a plan that are listed one by one


@dataclass(frozen=True)
class Line:
    """One step: what a run would do with it and, where that can be known, its work and time.

    key: None where it depends on raw input that is not there.
    """

    entry: Forecast
    key: str | None
    work: Work | None
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
    nodes: dict[str, Planned] = {}
    for entry in states:
        nodes[entry.step.name] = Planned(entry, nodes, store, expected)
    sizes = next((found for node in nodes.values() if (found := node.sizes())), None)
    rates = measured(Builds(store, {entry.step.stage.name: entry.step.stage for entry in states}))
    unknown: set[str] = set()
    lines = []
    for node in nodes.values():
        if _is_absent(node.step, unknown):
            unknown.add(node.step.name)
        key = None if node.step.name in unknown else node.step.key
        work = work_of(node, sizes) if sizes else None
        wanted = node.entry.state == "would run"
        time = time_of(node, work, rates, machine) if work and wanted else None
        lines.append(Line(node.entry, key, work, time))
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
        if line.work:
            ram, disk = max(ram, line.work.ram), disk + line.work.disk
        if line.time:
            seconds[line.time.basis] = seconds.get(line.time.basis, 0.0) + line.time.seconds
        else:
            unknown += 1
    return Totals(seconds, ram, disk, unknown)
