"""A plan: a pipeline written down before anything runs, with its steps, their keys and their dependencies.

The local engine, the Prefect flow and the dry run all work from this one list of steps, and part of it (`--to`,
`--only`) is chosen here only.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, wait
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from functools import partial
from threading import Thread
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeVar, cast

from noisyir.base.errors import ConfigError, StoreError, suggested
from noisyir.base.settings import Params
from noisyir.engine.build_stage import Result, recorded
from noisyir.engine.keys import key_of
from noisyir.engine.meta import Meta, Ref
from noisyir.engine.stage import Inputs, Output, Outputs, PlannedInputs, Stage, Step
from noisyir.engine.store import Store

T = TypeVar("T")
_IN_STEP = "in step "


@dataclass
class Plan:
    """The steps of one pipeline, in an order in which they can run.

    Attributes:
        seed: Seed of steps added from now on.
        scope: Prefix of the labels of steps added from now on.
    """

    seed: int
    steps: list[Step] = field(default_factory=list)
    results: dict[str, Output] = field(default_factory=dict)
    scope: str = ""

    def __post_init__(self) -> None:
        self._by_key, self._names = {step.key: step for step in self.steps}, {step.name for step in self.steps}

    def add(
        self,
        stage: Stage,
        params: Params,
        label: str = "",
        /,
        **inputs: str | Ref | Output | Mapping[str, Ref] | Mapping[str, Output] | None,
    ) -> Outputs:
        """Add a call of `stage` and return its outputs by artifact name.

        A Ref is an artifact in the store, such as a model that an earlier run trained.  None omits an optional input.
        A call that the plan has already, under any label, is not added again: its outputs are returned.
        """
        given = {name: value for name, value in inputs.items() if value is not None}
        _check_inputs(stage, given)
        given |= stage.digests(params)
        label = ":".join(part for part in (self.scope, label) if part)
        name = f"{stage.name}@{label}" if label else stage.name
        seed = self.seed if stage.seeded else None
        key = key_of(stage, params, seed, given)
        if same := self._by_key.get(key):
            name = same.name
        elif name in self._names:
            raise AssertionError(f"the plan has a step {name} already: give it a label")
        else:
            self.steps.append(Step(name, stage, params, seed, MappingProxyType(given), key))
            self._by_key[key] = self.steps[-1]
            self._names.add(name)
        return {artifact: Output(name, stage.name, key, artifact) for artifact in stage.outputs(params)}

    def step(self, name: str) -> Step:
        """Return the step of exactly this name."""
        return next(step for step in self.steps if step.name == name)

    @contextmanager
    def seeded(self, seed: int) -> Iterator[None]:
        """Give this seed to the steps added meanwhile."""
        before, self.seed = self.seed, seed
        try:
            yield
        finally:
            self.seed = before

    def keep(self, **results: Output) -> None:
        """Name the outputs that the run is made for."""
        self.results.update(results)

    def named(self, name: str) -> list[Step]:
        """Return the steps of this name, or of the stage of this name.

        Raises:
            ConfigError: If there is none; the text suggests a name.
        """
        if found := [step for step in self.steps if name in (step.name, step.stage.name)]:
            return found
        known = dict.fromkeys([step.stage.name for step in self.steps] + [step.name for step in self.steps])
        raise ConfigError("engine.no_stage_pipeline", name=name, others=suggested(name, known, "it has"))

    def upto(self, names: Collection[str]) -> set[str]:
        """Return the names of these steps and of all that they need."""
        needed = {step.name for name in names for step in self.named(name)}
        for step in reversed(self.steps):
            if step.name in needed:
                needed.update(output.step for output in step.outputs_needed())
        return needed


@dataclass(frozen=True)
class Choice:
    """Which steps of a plan to run, and which to rebuild although they are there."""

    to: str | None = None
    only: str | None = None
    refresh: tuple[str, ...] = ()

    def selected(self, plan: Plan) -> set[str]:
        """Return the names of the steps to run.

        Raises:
            ConfigError: If the plan does not have a named stage.
        """
        if self.only and self.to:
            raise ConfigError("engine.only_exclude_each_other")
        if self.only:
            return {step.name for step in plan.named(self.only)}
        return plan.upto([self.to]) if self.to else {step.name for step in plan.steps}

    def refreshed(self, plan: Plan) -> set[str]:
        """Return the names of the steps to rebuild."""
        return {step.name for name in self.refresh for step in plan.named(name)}


class Ahead(NamedTuple):
    """A step still to run; inputs are references if their makers have ended."""

    step: Step
    inputs: PlannedInputs
    refresh: bool


ahead: ContextVar[Callable[[], list[Ahead]]] = ContextVar("ahead", default=list)
"""The next steps of `execute` in order, for callers that can run several at once."""
RunStep = Callable[[Step, Inputs, bool], Result]


def execute(
    plan: Plan,
    choice: Choice,
    store: Store,
    run_step: RunStep,
    at_once: int = 1,
    then: Callable[[Step, Result], None] = lambda step, result: None,
) -> dict[str, Result]:
    """Run the chosen steps through `run_step(step, inputs, refresh)` and return results by step name, in plan order.

    The first failure stops the run: running steps are finished, no more are begun, and its error is raised.

    Args:
        at_once: Number of steps that run at the same time, in threads with a copy of this context if more than one.
        then: Called with each step that has ended well; an error that it raises stops the run, too.

    Raises:
        StoreError: If a step is needed, not chosen and not in the store; the text names the command that builds it.
    """
    selected, refreshed = choice.selected(plan), choice.refreshed(plan)
    waiting = [step for step in plan.steps if step.name in selected]
    done: dict[str, Result] = {}
    at_work: dict[Future[Result], str] = {}
    try:
        while waiting or at_work:
            for step in _ready(waiting, selected, done)[: at_once - len(at_work)]:
                waiting.remove(step)
                inputs, refresh = resolve(step, plan, store, done), step.name in refreshed
                ahead.set(partial(_ahead, plan, store, tuple(waiting), selected, refreshed, dict(done)))
                if at_once > 1:
                    at_work[_in_a_thread(step, partial(run_step, step, inputs, refresh), then)] = step.name
                    continue
                with _in_step(step):
                    done[step.name] = run_step(step, inputs, refresh)
                    then(step, done[step.name])
            _collect(at_work, done, FIRST_COMPLETED)
    except Exception:  # an interrupt does not wait
        with suppress(Exception):
            _collect(at_work, done, ALL_COMPLETED)
        raise
    return {step.name: done[step.name] for step in plan.steps if step.name in selected}


def failed_step(error: BaseException) -> str | None:
    """Return the step in which `execute` met the error; None if it came from elsewhere."""
    notes = [note.removeprefix(_IN_STEP) for note in getattr(error, "__notes__", ()) if note.startswith(_IN_STEP)]
    return notes[0] if notes else None


def _ahead(
    plan: Plan, store: Store, waiting: Sequence[Step], selected: set[str], refreshed: set[str], done: dict[str, Result]
) -> list[Ahead]:
    """Return the waiting steps; inputs that this run does not make come from the store."""
    for name in {output.step for step in waiting for output in step.outputs_needed()} - selected - done.keys():
        with suppress(StoreError):
            done[name] = Result(_cached(plan.step(name), plan, store, done), cached=True)
    return [Ahead(step, filled(step.inputs, done), step.name in refreshed) for step in waiting]


def filled(inputs: PlannedInputs, done: Mapping[str, Result]) -> PlannedInputs:
    """Return inputs with references in place of outputs of steps that are done."""

    def ref(output: Output) -> Ref | Output:
        return done[output.step].meta.ref(output.artifact) if output.step in done else output

    return {name: _map_outputs(value, ref) for name, value in inputs.items()}


def resolved(inputs: PlannedInputs, done: Mapping[str, Result]) -> Inputs:
    """Return inputs as references; all that they need is done."""
    return cast(Inputs, filled(inputs, done))


@contextmanager
def _in_step(step: Step) -> Iterator[None]:
    """Note in an error the step that it came up in."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"{_IN_STEP}{step.name}")
        raise


def _ready(waiting: list[Step], selected: set[str], done: Mapping[str, Result]) -> list[Step]:
    """Return the waiting steps that have all inputs made by this run."""
    return [
        step
        for step in waiting
        if all(output.step in done or output.step not in selected for output in step.outputs_needed())
    ]


def _collect(at_work: dict[Future[Result], str], done: dict[str, Result], when: str) -> None:
    """Move ended steps from `at_work` to `done`; raise the error of the first that failed."""
    ended = wait(at_work, return_when=when).done
    names = {future: at_work.pop(future) for future in list(at_work) if future in ended}
    done.update({name: future.result() for future, name in names.items() if future.exception() is None})
    for future in names:
        future.result()


def _in_a_thread(step: Step, call: Callable[[], Result], then: Callable[[Step, Result], None]) -> Future[Result]:
    future: Future[Result] = Future()

    def work() -> None:
        try:
            with _in_step(step):
                result = call()
                then(step, result)
            future.set_result(result)
        except BaseException as error:
            future.set_exception(error)

    # a daemon because an interrupt must not wait for hours of work
    Thread(target=copy_context().run, args=(work,), daemon=True).start()
    return future


@dataclass(frozen=True)
class Forecast:
    """State of one step in a dry run: reuse the build `meta`, build it, or skip it."""

    step: Step
    state: Literal["cached", "would run", "not chosen"]
    meta: Meta | None = None


def forecast(plan: Plan, choice: Choice, store: Store) -> list[Forecast]:
    """Return the state of every step from keys and the store only.

    A step after one that would run `would run`, too, although equal bytes may leave it cached.
    """
    selected, refreshed = choice.selected(plan), choice.refreshed(plan)
    done: dict[str, Result] = {}
    states = []
    for step in plan.steps:
        state: Literal["cached", "would run", "not chosen"] = "would run"
        if step.name not in selected:
            state = "not chosen"
        elif step.name not in refreshed and all(output.step in done for output in step.outputs_needed()):
            inputs = recorded(resolve(step, plan, store, done))
            if meta := store.builds.find(step.stage.name, step.key, inputs):
                done[step.name] = Result(meta, cached=True)
                state = "cached"
        states.append(Forecast(step, state, done[step.name].meta if state == "cached" else None))
    return states


def resolve(step: Step, plan: Plan, store: Store, done: dict[str, Result]) -> Inputs:
    """Return references for a step's planned inputs, from the results so far or from the store."""

    def ref(output: Output) -> Ref:
        if output.step not in done:
            done[output.step] = Result(_cached(plan.step(output.step), plan, store, done), cached=True)
        return done[output.step].meta.ref(output.artifact)

    return {name: _map_outputs(value, ref) for name, value in step.inputs.items()}


def _cached(step: Step, plan: Plan, store: Store, done: dict[str, Result]) -> Meta:
    inputs = resolve(step, plan, store, done)
    if meta := store.builds.find(step.stage.name, step.key, recorded(inputs)):
        return meta
    raise StoreError("engine.upstream_artifact_not_cached", step=step.name, key=step.key[:12])


def _map_outputs(
    value: str | Ref | Output | Mapping[str, Ref | Output], ref: Callable[[Output], T]
) -> str | Ref | T | dict[str, Ref | T]:
    if isinstance(value, Output):
        return ref(value)
    if isinstance(value, str | Ref):
        return value
    return {label: ref(made) if isinstance(made, Output) else made for label, made in value.items()}


def _check_inputs(stage: Stage, given: PlannedInputs) -> None:
    required = {name for name, read in stage.reads.items() if not read.optional}
    if set(given) - set(stage.reads) or required - set(given):
        unknown, missing = set(given) - set(stage.reads), required - set(given)
        raise AssertionError(f"{stage.name}: unknown inputs {unknown}, missing {missing}")
