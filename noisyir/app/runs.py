"""One run of a pipeline: preflight checks, execution, tracking and the run's record."""

import logging
import shlex
import shutil
import socket
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, cached_property, partial
from typing import Any

import pyarrow.compute as pc

from noisyir.app.dry_run import estimates, needs_of_plan, run_needs
from noisyir.base.command_line import typed_words
from noisyir.base.errors import NoisyirError, StoreError
from noisyir.base.settings import Params
from noisyir.data.stages.ingest import INGEST
from noisyir.engine.build_stage import Result
from noisyir.engine.locks import current_run
from noisyir.engine.meta import Meta, Ref
from noisyir.engine.observe import ObserverGroup
from noisyir.engine.outside_errors import keep_traceback, one_line, traceback_of, without_password
from noisyir.engine.plan import Choice, Forecast, Plan, RunStep, execute, failed_step, forecast
from noisyir.engine.remote.parallel import stage_runner
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Observer, Pool, SplitCounts, Step
from noisyir.engine.store import Store
from noisyir.engine.store_locks import RUN_LOCK
from noisyir.methods.plans.experiment import Experiment
from noisyir.methods.plans.planning import bench_of, pipeline_of
from noisyir.methods.plans.suite import Suite
from noisyir.registry.tracker import Tracker

log = logging.getLogger("noisyir")
_EVERY_SECONDS = 5.0


@dataclass(frozen=True)
class Preflight:
    """Checks before and during a run; the pools in `elsewhere` run on other machines."""

    plan: Plan
    choice: Choice
    store: Store
    runtime: Runtime
    elsewhere: Collection[Pool] = ()

    def before(self, tracker: Tracker) -> None:
        """Check stages, device, tracker, disk and data read earlier."""
        states = forecast(self.plan, self.choice, self.store)
        would_run = [entry.step for entry in states if entry.state == "would run"]
        here = [step for step in would_run if step.stage.pool not in self.elsewhere]
        for step in here:
            step.stage.check_ready(step.params)
        if self.runtime.device != "auto" and any(step.stage.pool == "gpu" for step in here):
            from noisyir.models.bi_encoder import choose_device

            choose_device(self.runtime.device)
        tracker.ready(bool(would_run))
        for entry in states:
            if entry.meta and entry.step.stage.name == INGEST.name:
                self._check_data(entry.step, entry.meta, would_run)
        self._check_space(states)

    def after(self, step: Step, result: Result) -> None:
        """Check data once it is read."""
        if step.stage.name == INGEST.name and not result.cached:
            states = forecast(self.plan, self.choice, self.store)
            self._check_data(step, result.meta, [entry.step for entry in states if entry.state == "would run"])
            self._check_space(states)

    def _check_data(self, ingest: Step, meta: Meta, would_run: Sequence[Step]) -> None:
        asking = [step for step in _made_from(ingest, self.plan.steps) if step in would_run and step.stage.fits]
        if asking:
            counts = split_counts(self.store, meta)
            for step in asking:
                assert step.stage.fits is not None
                step.stage.fits(step.params, counts)

    def _check_space(self, states: Sequence[Forecast]) -> None:
        if not self.store.is_local or not self.runtime.disk_check:
            return
        needed = sum(estimate.size for estimate in estimates(states, self.store, "").values())
        free = shutil.disk_usage(self.store.root).free
        if needed > free:
            raise StoreError("app.disk_full", needed=needed / 1e9, root=self.store.root, free=free / 1e9)


def split_counts(store: Store, ingest: Meta) -> SplitCounts:
    """Numbers of queries per split, and of training pairs."""
    queries, pairs = (store.builds.table(ingest.ref(name), ["split"])["split"] for name in ("queries", "pairs"))
    found = {row["values"]: row["counts"] for row in pc.value_counts(queries).to_pylist()}
    return SplitCounts(found, pc.sum(pc.equal(pairs, "train")).as_py() or 0)


def _made_from(first: Step, steps: Sequence[Step]) -> Iterator[Step]:
    """Steps of a plan that depend on this one."""
    behind = {first.name}
    for step in steps:
        if any(output.step in behind for output in step.outputs_needed()):
            behind.add(step.name)
            yield step


class UnregisteredError(NoisyirError):
    """All stages are done, but the models are not in the registry."""


@dataclass(frozen=True)
class Outcome:
    """Results of a run; `facts` name the registered version and the MLflow run, if any."""

    experiment: str
    results: Mapping[str, Result]
    kept: Mapping[str, Ref]
    facts: Mapping[str, str]

    @property
    def executed(self) -> int:
        """Number of steps that ran."""
        return sum(not result.cached for result in self.results.values())

    @property
    def cached(self) -> int:
        """Number of steps with artifacts already in the store."""
        return len(self.results) - self.executed


@dataclass(frozen=True)
class Execution:
    """Environment of a run.

    Args:
        run_step: Function that runs one stage; None runs it on this machine.
        elsewhere: Pools on other machines, with inputs that are not checked here.
    """

    store: Store
    runtime: Runtime = field(default_factory=Runtime)
    tracker: Tracker = field(default_factory=Tracker)
    observer: Observer = field(default_factory=Observer)
    run_step: RunStep | None = None
    elsewhere: Collection[Pool] = ()

    @contextmanager
    def steps(self) -> Iterator[RunStep]:
        """The function that runs one stage, observed by observer, tracker and record."""
        if self.run_step:
            yield self.run_step
            return
        observers = ObserverGroup([self.observer, self.tracker, ProgressFile(self.store)])
        with stage_runner(self.runtime) as run:
            yield partial(run, store=self.store, observer=observers)


def run_experiment(
    exp: Experiment, choice: Choice, execution: Execution, pipeline: Callable[[Experiment], Plan] = pipeline_of
) -> Outcome:
    """Run a pipeline of an experiment."""
    return run(pipeline(exp), choice, execution, name=exp.name, settings=exp)


def run_suite(suite: Suite, choice: Choice, execution: Execution) -> Outcome:
    """Run a bench."""
    return run(bench_of(suite), choice, execution, name=suite.name, settings=suite)


def run(plan: Plan, choice: Choice, execution: Execution, *, name: str, settings: Params) -> Outcome:
    """Check inputs and settings, run the chosen steps, and record the run under `name`, also if it fails."""
    store, runtime, tracker = execution.store, execution.runtime, execution.tracker
    preflight = Preflight(plan, choice, store, runtime, execution.elsewhere)
    record = _Record(store, name, settings, plan, choice, tracker.tags)
    current_run.set(record.id)
    tracker.tags.update({of: said for of, said in {"command": record.command, "only": choice.only}.items() if said})
    run_needs.set(cache(partial(needs_of_plan, plan, choice, store, name)))
    # who finds the run's lock free knows that a run that has no end was killed
    with store.locks.in_use(), store.locks.held(RUN_LOCK, record.id):
        record.write("running", {}, {})
        _forget_the_dead(store)
        try:
            preflight.before(tracker)
            execution.observer.planned([step for step in plan.steps if step.name in choice.selected(plan)])
            with execution.steps() as run_step:
                results = execute(plan, choice, store, run_step, runtime.steps_at_once, preflight.after)
            kept = {
                name: results[output.step].meta.ref(output.artifact)
                for name, output in plan.results.items()
                if output.step in results
            }
            nothing_new = all(result.cached for result in results.values()) and not tracker.run_id(begin=False)
            facts = (nothing_new and record.earlier_facts()) or tracker.finish(store, {} if choice.only else kept)
        except BaseException as error:
            record.write_failure(error)
            tracker.abort(error)
            raise
        finally:
            store.runs.set_progress(record.id, None)
        record.write("unregistered" if tracker.lost else "done", results, facts)
        if tracker.lost:
            raise UnregisteredError("app.unregistered", name=name)
    return Outcome(name, results, kept, facts)


def _forget_the_dead(store: Store) -> None:
    """Remove the progress of killed runs, if this machine can tell that they are dead."""
    for run, host in store.runs.in_progress().items():
        here = store.locks.everywhere or host in (None, socket.gethostname())
        if here and not store.locks.is_held(RUN_LOCK, run):
            store.runs.set_progress(run, None)


@dataclass
class _Record:
    """The record `.runs/<time>-<name>.json`: builds that a run used, and its outcome."""

    store: Store
    name: str
    settings: Params
    plan: Plan
    choice: Choice
    tags: Mapping[str, str]
    began: datetime = field(default_factory=lambda: datetime.now(UTC))

    @cached_property
    def id(self) -> str:
        """The record's name, and the run's in every log line."""
        return self.store.runs.new_id(self.name, self.began)

    @cached_property
    def command(self) -> str | None:
        """The command that was typed; None in Python."""
        return without_password(shlex.join(["noisyir", *typed_words.get()])) if typed_words.get() else None

    def write(
        self, status: str, results: Mapping[str, Result], facts: Mapping[str, str], failed_in: str | None = None
    ) -> None:
        selected = self.choice.selected(self.plan)
        self.store.runs.record(
            self.id,
            {
                "id": self.id,
                "experiment": self.name,
                "command": self.command,
                "settings": self.settings.model_dump(mode="json"),
                "status": status,
                "began": self.began.isoformat(),
                "seconds": round((datetime.now(UTC) - self.began).total_seconds(), 3),
                "host": socket.gethostname(),
                "steps": {
                    step.name: {"stage": step.stage.name, "key": step.key, **_facts(results.get(step.name))}
                    for step in self.plan.steps
                    if step.name in selected
                },
                "failed_in": failed_in,
                "kept": {name: output.step for name, output in self.plan.results.items()},
                "facts": dict(facts),
                "tags": dict(self.tags),
            },
        )

    def write_failure(self, error: BaseException) -> None:
        """Record a failure with its traceback, or a cancellation; errors of writing are logged only."""
        if not isinstance(error, Exception):
            with suppress(Exception):
                self.write("cancelled", {}, {}, failed_in=failed_step(error))
            return
        path = keep_traceback(self.store.home, self.id, error)
        facts = {"error": one_line(error), "traceback": traceback_of(error)}
        try:
            self.write("failed", {}, facts | ({"log": str(path)} if path else {}), failed_in=failed_step(error))
        except Exception as second:
            log.warning("the run's record could not be written: %s", one_line(second))

    def earlier_facts(self) -> dict[str, str]:
        """Facts of an earlier run of the same steps, so that nothing is registered twice."""
        selected = self.choice.selected(self.plan)
        keys = {step.key for step in self.plan.steps if step.name in selected}
        for run in self.store.runs.all():
            if run["status"] == "done" and run["facts"] and {s["key"] for s in run["steps"].values()} == keys:
                return dict(run["facts"])
        return {}


def _facts(result: Result | None) -> dict[str, Any]:
    """A step's entry in a run's record; values are None until the run is done."""
    if result is None:
        return dict.fromkeys(("build", "cached", "seconds"))
    return {"build": result.meta.build, "cached": result.cached, "seconds": result.meta.seconds}


class ProgressFile(Observer):
    """Writes the running step and its progress."""

    def __init__(self, store: Store) -> None:
        self._store, self._since, self._next = store, "", 0.0

    def started(self, step: Step) -> None:
        """Write that the step has begun."""
        self._since = datetime.now(UTC).isoformat()
        self._write(step)
        self._next = 0.0

    def progress(self, step: Step, done: int, total: int | None, unit: str) -> None:
        """Write the progress every few seconds."""
        if time.monotonic() >= self._next:
            self._write(step, done=done, total=total, unit=unit)

    def _write(self, step: Step, **far: int | str | None) -> None:
        if run := current_run.get():
            self._store.runs.set_progress(run, {"step": step.name, "since": self._since, **far})
            self._next = time.monotonic() + _EVERY_SECONDS


def in_words(progress: dict[str, object]) -> str:
    """Format progress, such as `train_dpr@dpr, 120 of 400 steps`."""
    done, total, unit = progress.get("done"), progress.get("total"), progress.get("unit")
    if not isinstance(done, int):
        return str(progress.get("step", ""))
    return f"{progress.get('step')}, {done:,} of {f'{total:,}' if isinstance(total, int) else '?'} {unit}"
