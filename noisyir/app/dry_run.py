"""The dry run: steps that would run, their expected time and needs, the changes behind them, and rehearsed costs."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console
from rich.table import Table

from noisyir.app.console import NEVER_FOLDS, print_text
from noisyir.base.durations import duration
from noisyir.base.errors import DataError, MissingPackageError
from noisyir.base.settings import flat
from noisyir.engine.meta import Meta, Ref
from noisyir.engine.needs import Needs, needs_of
from noisyir.engine.plan import Choice, Forecast, Plan, forecast
from noisyir.engine.provenance import ABSENT
from noisyir.engine.remote.fetched import located
from noisyir.engine.stage import Output, Step
from noisyir.engine.store import Store
from noisyir.evaluation.pages.settings import PublishedParams
from noisyir.methods.plans.experiment import Experiment
from noisyir.models.layout import read_layout
from noisyir.models.settings import HeadedParams, InitModelParams
from noisyir.models.weights import locate_weights
from noisyir.retrieval.stages.keep_states import KEEP_STATES

if TYPE_CHECKING:
    from noisyir.training.full_size import StepCost

_DEFAULT = "its default"
_READABLE = 60  # steps of a plan that are listed one by one
HEADINGS = ("stage", "key", "pool", "time", "")
GPUS = (24, 40, 80)  # GiB of common GPUs
_FAR = 4.0  # times the rows, above which a former build does not tell the memory
_SAMPLE, _CHARACTERS, _FRAMED = 1000, 4.5, 2  # texts that are measured; characters of a token; tokens around a text
_FREE = 0.9  # of a GPU's memory: the rest is CUDA's own, or between the allocator's blocks
run_needs: ContextVar[Callable[[], Mapping[str, Needs]]] = ContextVar("run_needs", default=dict)
"""The needs by name of the steps that the run at work would build, for callers that choose machines."""


@dataclass(frozen=True)
class StepEstimate:
    """Time and size of a step, extrapolated from its newest build.

    `factor` is the ratio of rows to read now and then; None if unknown.
    """

    build: Meta
    factor: float | None

    @property
    def seconds(self) -> float:
        """Time in proportion to the rows."""
        return self.build.seconds * (self.factor or 1.0)

    @property
    def size(self) -> float:
        """Bytes in the store in proportion to the rows."""
        return self.build.size * (self.factor or 1.0)

    @property
    def needs(self) -> Needs:
        """Needs of the build, with memory in proportion to more rows; unknown for far more."""
        needs, factor = needs_of(self.build), max(1.0, self.factor or 1.0)
        return Needs() if factor > _FAR else replace(needs, memory=needs.memory and round(needs.memory * factor))


def estimates(states: Sequence[Forecast], store: Store, experiment: str) -> dict[str, StepEstimate]:
    """Estimates by step name, for steps that would run and were built before."""
    metas = {meta.folder: meta for meta in store.builds.all()}
    newest, found = _newest_builds(store, metas, experiment), dict[str, StepEstimate]()
    cached = {entry.step.name: entry.meta for entry in states if entry.meta}
    for entry in states:
        if entry.state == "would run" and (build := newest.get(entry.step.name)):
            refs = [(metas.get(f"{ref.stage}/{ref.key}/{ref.build}"), ref.artifact) for _, ref in build.input_refs()]
            outputs = list(entry.step.outputs_needed())
            before, after = _rows(refs), _rows([(cached.get(output.step), output.artifact) for output in outputs])
            found[entry.step.name] = StepEstimate(build, after / before if before and after else None)
    return found


def _rows(artifacts: Sequence[tuple[Meta | None, str]]) -> int | None:
    """Total rows of these artifacts; None if one is missing."""
    if any(meta is None for meta, _ in artifacts):
        return None
    return sum(meta.artifacts[name].rows or 0 for meta, name in artifacts if meta)


def dry_run_rows(
    states: Sequence[Forecast], found: Mapping[str, StepEstimate], unknown: Collection[str]
) -> list[list[str]]:
    """Rows under `HEADINGS`, one per step; long plans merge rounds of a step in the same state."""
    groups: dict[tuple[str, str], list[Forecast]] = {}
    for entry in states:
        name = entry.step.name if len(states) <= _READABLE else re.sub(r"@\d+", "@*", entry.step.name)
        groups.setdefault((name, entry.state), []).append(entry)
    return [_row(name, group, found, unknown) for (name, _), group in groups.items()]


def _row(
    name: str, group: Sequence[Forecast], found: Mapping[str, StepEstimate], unknown: Collection[str]
) -> list[str]:
    step, state, merged = group[0].step, group[0].state, len(group) > 1
    key = "" if merged else "?" if step.name in unknown else step.key[:7]
    cells = [f"{name} x{len(group)}" if merged else step.name, key, step.stage.pool]
    known = [found[entry.step.name] for entry in group if entry.step.name in found]
    if state != "would run":
        return [*cells, "", state]
    if not known:
        return [*cells, "?", "never run here"]
    factor = known[0].factor or 1.0
    scaled = "" if factor == 1.0 else f", {factor:.3g} times the rows"
    seconds = sum(estimate.seconds for estimate in known)
    needs = f"; {known[0].needs}" if known[0].needs.memory else ""
    return [*cells, duration(seconds), f"newest build {duration(known[0].build.seconds)}{scaled}{needs}"]


def total_line(states: Sequence[Forecast], found: Mapping[str, StepEstimate]) -> str:
    """Total time of the steps that would run, as far as it is known."""
    waiting = [entry.step.name for entry in states if entry.state == "would run"]
    if not found:
        return "not known: no step of it was ever run here" if waiting else "nothing would run"
    seconds = duration(sum(estimate.seconds for estimate in found.values()))
    if unknown := len(waiting) - len(found):
        return f"{seconds} for {len(found)} of {len(waiting)} steps, by their newest builds; {unknown} never ran here"
    return f"{seconds} as their newest builds took"


def dry_run_json(
    states: Sequence[Forecast], found: Mapping[str, StepEstimate], unknown: Collection[str]
) -> dict[str, Any]:
    """The dry run as one object; seconds are null for steps that never ran here."""
    steps = [
        {
            "name": entry.step.name,
            "key": None if entry.step.name in unknown else entry.step.key,
            "state": entry.state,
            "pool": entry.step.stage.pool,
            "seconds": found[entry.step.name].seconds if entry.step.name in found else None,
            "needs": asdict(found[entry.step.name].needs) if entry.step.name in found else None,
        }
        for entry in states
    ]
    never = sum(entry.state == "would run" and entry.step.name not in found for entry in states)
    total = {"seconds": sum(estimate.seconds for estimate in found.values()), "steps_without_time": never}
    return {"steps": steps, "total": total}


def steps_without_key(states: Sequence[Forecast]) -> set[str]:
    """Names of steps with keys that depend on missing raw input."""
    unknown: set[str] = set()
    for entry in states:
        needed = {output.step for output in entry.step.outputs_needed()}
        if ABSENT in entry.step.inputs.values() or needed & unknown:
            unknown.add(entry.step.name)
    return unknown


@dataclass(frozen=True)
class Rehearsal:
    """Cost per training step of each learner, shared by equal steps, or why it is unknown."""

    steps: list[str]
    costs: "Sequence[StepCost]"
    why: str = ""

    def lines(self) -> list[str]:
        """One line per learner."""
        named = dict.fromkeys(re.sub(r"@\d+", "@*", step) if len(self.steps) > 1 else step for step in self.steps)
        name = ", ".join(named) + (f" x{len(self.steps)}" if len(named) < len(self.steps) else "")
        return [f"{name}: {said}" for said in [self.why, *map(_cost_in_words, self.costs)] if said]


def rehearsals(states: Sequence[Forecast], store: Store) -> list[Rehearsal]:
    """Rehearse each transformer training that would run, once for equal steps."""
    steps, found = {entry.step.name: entry.step for entry in states}, dict[str, Rehearsal]()
    for step in (entry.step for entry in states if entry.state == "would run" and entry.step.stage.learners):
        with store.fetched.as_source():
            origins = {name: _origin(value, steps) for name, value in step.inputs.items()}
        start = {name: params for name, params in origins.items() if params is not None}
        key = repr((step.stage.name, step.params, start))
        if key in found:
            found[key].steps.append(step.name)
        elif start and not any(getattr(params, "backbone", "") == "static" for params in start.values()):
            found[key] = _rehearsed(step, start)
    return list(found.values())


def needs_of_plan(plan: Plan, choice: Choice, store: Store, experiment: str) -> dict[str, Needs]:
    """Return needs by name of the steps that would run; GPU memory that no build measured is the rehearsed step's."""
    states = forecast(plan, choice, store)
    needs = {name: found.needs for name, found in estimates(states, store, experiment).items()}
    for one in rehearsals(states, store):
        for name in one.steps if one.costs else ():
            known = needs.get(name, Needs())
            rehearsed = max(cost.memory for cost in one.costs)
            needs[name] = replace(known, gpu_memory=known.gpu_memory or rehearsed)
    return needs


def sizes_of_states(states: Sequence[Forecast], store: Store) -> dict[str, str]:
    """The space that each step takes which keeps a model's states, in words, by name."""
    steps, metas = {entry.step.name: entry.step for entry in states}, {e.step.name: e.meta for e in states if e.meta}
    waiting = [e.step for e in states if e.state == "would run" and e.step.stage.name == KEEP_STATES.name]
    return {step.name: _size_of_states(step, steps, metas, store) for step in waiting}


def _size_of_states(step: Step, steps: Mapping[str, Step], metas: Mapping[str, Meta], store: Store) -> str:
    with store.fetched.as_source():
        model = _origin(step.inputs["model"], steps)
    try:
        config = read_layout(locate_weights(model.weights)).towers["passage"] / "config.json"
        each = 2 * int(json.loads(config.read_text())["hidden_size"])
    except (DataError, MissingPackageError, OSError, ValueError, KeyError):
        return "not known: its weights are not here"
    longest, size = {"corpus": model.passage_max_len, "queries": model.query_max_len}, 0.0
    for name, most in longest.items():
        table = step.inputs[name]
        if not isinstance(table, Output) or (meta := metas.get(table.step)) is None:
            kilobytes = [f"{tokens * each / 1e3:.0f} KB" for tokens in longest.values()]
            return f"at most {kilobytes[0]} a document and {kilobytes[1]} a query; exactly after ingest"
        first = next(store.builds.batches(meta.ref(table.artifact), ("text",), _SAMPLE, 0))["text"].to_pylist()
        tokens = [min(most, _FRAMED + len(text) / _CHARACTERS) for text in first]
        size += each * (meta.artifacts[table.artifact].rows or 0) * sum(tokens) / max(len(tokens), 1)
    return f"about {size / 1e9:.2g} GB in the store"


def _origin(value: Any, steps: Mapping[str, Step]) -> Any:
    """Settings of the model behind an input; None if it is no model or in the store already."""
    while isinstance(value, Output):
        step = steps[value.step]
        if isinstance(step.params, InitModelParams | HeadedParams):
            return located(step.params)
        value = step.inputs.get(value.artifact)
    return None


def _rehearsed(step: Step, start: Mapping[str, Any]) -> Rehearsal:
    assert step.stage.learners
    from noisyir.training.full_size import costs

    try:
        return Rehearsal([step.name], costs(partial(step.stage.learners, step.params, start)))
    except DataError as error:
        return Rehearsal([step.name], (), str(error))
    except (ImportError, RuntimeError, TypeError, ValueError) as error:  # a model that does more than shapes can tell
        return Rehearsal([step.name], (), f"cannot be rehearsed with fake tensors: {str(error).splitlines()[0]}")


def _cost_in_words(cost: "StepCost") -> str:
    texts = " + ".join(f"{count:,} texts of {length} tokens" for length, count in sorted(cost.texts.items()))
    fitting = [str(size) for size in GPUS if cost.memory <= _FREE * size * 2**30]
    fits = f"fits GPUs of {', '.join(fitting)} GB" if fitting else f"fits no GPU of {GPUS[-1]} GB: set {cost.fewer}"
    flops = cost.flops / 1e12
    return (
        f"{cost.learner} of {cost.weights / 1e6:,.0f} M weights, {cost.precision}, {texts}, "
        f"{flops:{',.0f' if flops > 100 else '.3g'}} TFLOP, {cost.memory / 2**30:,.3g} GiB: {fits}"
    )


def changes(states: Sequence[Forecast], store: Store, experiment: str) -> dict[str, list[str]]:
    """Differences of each step that would run from its newest build, by name."""
    metas = {meta.folder: meta for meta in store.builds.all()}
    builds = _newest_builds(store, metas, experiment)
    waiting = {e.step.name: e.step for e in states if e.state == "would run"}
    return {name: _differences(step, builds.get(name), set(waiting)) for name, step in waiting.items()}


def _newest_builds(store: Store, metas: Mapping[str, Meta], experiment: str) -> dict[str, Meta]:
    """Newest build of each step by name, preferably from runs of this experiment."""
    found: dict[str, Meta] = {}
    # newest first, ours before all
    for run in sorted(store.runs.all(), key=lambda run: run["experiment"] != experiment):
        for name, step in run["steps"].items():
            if meta := metas.get(f"{step['stage']}/{step['key']}/{step['build']}"):
                found.setdefault(name, meta)
    return found


def _differences(step: Step, before: Meta | None, waiting: set[str]) -> list[str]:
    if before is None:
        return ["never built under this name"]
    said = []
    if step.stage.version != before.version:
        said.append(f"version {before.version} -> {step.stage.version}")
    if step.seed != before.seed:
        said.append(f"seed {before.seed} -> {step.seed}")
    said += _settings(before.in_key, step.params.key_values())
    for name, value in step.inputs.items():
        said += _input(name, value, before.inputs.get(name), waiting)
    said += [f"input {name}: not given now" for name in before.inputs if name not in step.inputs]
    return said or ["nothing in its key: it is asked for by --refresh, or its inputs have other bytes"]


def _settings(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    old, new = flat(before), flat(after)
    names = [name for name in dict.fromkeys([*old, *new]) if old.get(name, _DEFAULT) != new.get(name, _DEFAULT)]
    return [f"{name} {old.get(name, _DEFAULT)} -> {new.get(name, _DEFAULT)}" for name in names]


def _input(
    name: str, value: str | Ref | Output | Mapping[str, Ref | Output], before: Any, waiting: set[str]
) -> list[str]:
    """Differences of one input, or of each label of a labelled one."""
    if isinstance(value, Mapping):
        labels = before if isinstance(before, Mapping) else {}
        gone = [f"input {name}.{label}: not given now" for label in labels if label not in value]
        return gone + [
            text for label, one in value.items() for text in _input(f"{name}.{label}", one, labels.get(label), waiting)
        ]
    if before is None:
        return [f"input {name}: new"]
    if isinstance(value, str):
        return [] if value == before else [f"raw input {name}: its content has changed"]
    if isinstance(value, Output) and value.step in waiting:
        return [f"input {name}: {value.step} would run"]
    if (value.key, value.artifact) != (before["key"], before["artifact"]):
        return [f"input {name}: another build of {value.stage}"]
    return []


def print_dry_run(
    states: Sequence[Forecast], found: Mapping[str, StepEstimate], claims: Sequence[PublishedParams] = ()
) -> None:
    """Print the steps of a dry run, their total time, and the published values."""
    console = Console(highlight=False, emoji=False, soft_wrap=True, width=NEVER_FOLDS)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in HEADINGS:
        table.add_column(heading, justify="right" if heading == "time" else "left", no_wrap=True)
    for row in dry_run_rows(states, found, steps_without_key(states)):
        table.add_row(*row, style={"cached": "green", "not chosen": "dim"}.get(row[-1], ""))
    console.print(table)
    console.print(f"\n{'time':<12}{total_line(states, found)}", markup=False)
    values = (f"{one.system} {one.split} {one.measure} {one.value:.3f}: {one.source}" for one in claims)
    print_found("published", values)


def print_found(word: str, lines: Iterable[str], stream: TextIO | None = None) -> None:
    """Print lines after the word for them: missing parts, costs of steps, choices."""
    console = Console(file=stream, highlight=False, emoji=False, soft_wrap=True)
    for line in lines:
        print_text(console, f"{word:<12}{line}")


def print_changes(changes: Mapping[str, Sequence[str]]) -> None:
    """Print the differences of each step from its newest build."""
    console = Console(highlight=False, emoji=False, soft_wrap=True)
    console.print("\nwhy, by the newest build of each step" if changes else "\nnothing would run", markup=False)
    width = max(map(len, changes), default=0)
    for name, said in changes.items():
        console.print(f"{name:<{width}}  {'; '.join(said)}", markup=False)


def print_chosen(exp: Experiment, stream: TextIO) -> None:
    """Print the settings that noisyir chose, one per line."""
    print_found("chosen", (f"{name:<20} {said}" for name, said in exp.chosen.items()), stream)
