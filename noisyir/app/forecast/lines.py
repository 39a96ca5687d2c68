"""The forecast of a plan: a line for each step, rounds of the same kind together, and totals."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc
from pydantic import ValidationError

from noisyir.app.forecast.rates import Machine, Time, cost_of, measured, time_of
from noisyir.costs.workload import Call, Sizes
from noisyir.data.settings import ExpectedParams
from noisyir.engine.builds import Meta
from noisyir.engine.cost import Cost
from noisyir.engine.plan import Forecast
from noisyir.engine.provenance import ABSENT
from noisyir.engine.stage import Output, Stage, Step
from noisyir.engine.store import Store
from noisyir.engine.tables import read_parts
from noisyir.stages.data.ingest import INGEST

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

    low, high: seconds, if all steps are quick, or slow.  unknown: how many of them no time is known of.
    """

    seconds: dict[str, float]
    low: dict[str, float]
    high: dict[str, float]
    ram: float
    disk: float
    unknown: int


def lines_of(
    states: Sequence[Forecast], store: Store, expected: ExpectedParams, machine: Machine
) -> tuple[list[Line], Sizes | None]:
    """A line for each step, and the sizes that they are forecast for; None where nobody knows them yet."""
    calls = _planned_calls(states, store, expected)
    sizes = next((call.sizes for call in calls.values() if call.sizes), None)
    rates = measured(_built_calls(store, {call.stage.name: call.stage for call in calls.values()}))
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


def disk_needed(states: Sequence[Forecast], store: Store, expected: ExpectedParams) -> float:
    """Bytes that the steps which would run leave in the store, as far as that is known; an estimate."""
    calls = _planned_calls(states, store, expected)
    sizes = next((call.sizes for call in calls.values() if call.sizes), None)
    costs = [cost_of(calls[entry.step.name], sizes) for entry in states if entry.state == "would run" and sizes]
    return sum(cost.disk for cost in costs if cost)


def _is_absent(step: Step, unknown: set[str]) -> bool:
    return ABSENT in step.inputs.values() or any(output.step in unknown for output in step.outputs_needed())


def _planned_calls(states: Iterable[Forecast], store: Store, expected: ExpectedParams) -> dict[str, Call]:
    """The call of each step, by the step's name; of data that was not read the sizes are what is expected."""
    calls: dict[str, Call] = {}
    for entry in states:
        step, sizes = entry.step, None
        if step.stage.name == INGEST.name:
            sizes = _counted(store, entry.meta, expected) if entry.meta else _declared(expected)
        made_from = [(name, calls[output.step]) for name, output in _outputs(step)]
        calls[step.name] = Call(step.stage, step.params, made_from, sizes)
    return calls


def _outputs(step: Step) -> Iterator[tuple[str, Output]]:
    for name, value in step.inputs.items():
        if isinstance(value, Output):
            yield name, value
        elif isinstance(value, Mapping):
            yield from ((name, output) for output in value.values() if isinstance(output, Output))


def _built_calls(store: Store, stages: Mapping[str, Stage]) -> Iterator[tuple[Meta, Call]]:
    """Every build of these stages, by name, as they are now.

    What a build was made from is passed by where it is not in the store any more, or of older settings.
    """
    found: dict[tuple[str, str, str], tuple[Meta, Call]] = {}
    for meta in store.all_builds():
        stage = stages.get(meta.stage)
        if stage is None or stage.version != meta.version:
            continue
        try:
            params = stage.params.parse(dict(meta.params))
        except ValidationError:
            continue  # written when the stage had other settings
        sizes = _counted(store, meta, ExpectedParams()) if stage.name == INGEST.name else None
        found[meta.stage, meta.key, meta.build] = meta, Call(stage, params, [], sizes)
    for meta, call in found.values():
        for name, ref in meta.input_refs():
            if source := found.get((ref.stage, ref.key, ref.build)):
                call.inputs.append((name.partition(".")[0], source[1]))
    yield from found.values()


def _counted(store: Store, ingest: Meta, expected: ExpectedParams) -> Sizes:
    """What a build of ingest wrote; lengths of texts are not counted, but taken as expected."""
    splits = {
        name: pc.value_counts(read_parts(store.fs, store.parts(ingest.ref(name)), ["split"])["split"]).to_pylist()
        for name in ("queries", "pairs")
    }
    queries, pairs = ({row["values"]: row["counts"] for row in rows} for rows in splits.values())
    documents = ingest.artifacts["corpus"].rows or 0
    return Sizes(documents, queries, pairs.get("train", 0), expected.document_tokens, expected.query_tokens)


def _declared(expected: ExpectedParams) -> Sizes | None:
    """The sizes that an experiment expects; None where it does not say."""
    if expected.documents is None or expected.train_queries is None:
        return None
    queries = {"train": expected.train_queries, "dev": expected.dev_queries, "test": expected.test_queries}
    pairs = expected.train_pairs or expected.train_queries
    tokens = expected.document_tokens, expected.query_tokens
    return Sizes(expected.documents, queries, pairs, *tokens, declared=True)


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
    seconds, low, high = (dict[str, float]() for _ in range(3))
    ram = disk = 0.0
    unknown = 0
    for line in lines:
        if line.entry.state != "would run":
            continue
        if line.cost:
            ram, disk = max(ram, line.cost.ram), disk + line.cost.disk
        if line.time:
            for sums, value in ((seconds, line.time.seconds), (low, line.time.low), (high, line.time.high)):
                sums[line.time.basis] = sums.get(line.time.basis, 0.0) + value
        else:
            unknown += 1
    return Totals(seconds, low, high, ram, disk, unknown)
