"""One run of a pipeline: execute the plan, track and register it, and keep a record that `gc` and `ls --runs` read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from noisyir.builds import Ref
from noisyir.config import Experiment, Params, Runtime
from noisyir.observe import Observer, Several
from noisyir.plan import Choice, Plan, RunStep, execute, forecast
from noisyir.reader_pipelines import pipeline_of
from noisyir.stage import Inputs, Result, run_stage
from noisyir.store import Store
from noisyir.tracking import Tracker


@dataclass(frozen=True)
class Outcome:
    """What a run did and made.  `facts` name the registered version and the MLflow run, where there are any."""

    experiment: str
    results: Mapping[str, Result]
    kept: Mapping[str, Ref]
    facts: Mapping[str, str]

    @property
    def executed(self) -> int:
        """Steps that ran."""
        return sum(not result.cached for result in self.results.values())

    @property
    def cached(self) -> int:
        """Steps whose artifacts were in the store already."""
        return len(self.results) - self.executed


def run_experiment(
    exp: Experiment,
    choice: Choice,
    *,
    store: Store,
    runtime: Runtime,
    tracker: Tracker,
    observer: Observer,
    run_step: RunStep | None = None,
    pipeline: Callable[[Experiment], Plan] = pipeline_of,
) -> Outcome:
    """Run a pipeline of an experiment; `run_step` is how an engine calls one stage (default: here and now)."""
    return run_steps(
        pipeline(exp), choice, name=exp.name, settings=exp, store=store, runtime=runtime, tracker=tracker,
        observer=observer, run_step=run_step,
    )  # fmt: skip


def run_steps(
    plan: Plan,
    choice: Choice,
    *,
    name: str,
    settings: Params,
    store: Store,
    runtime: Runtime,
    tracker: Tracker,
    observer: Observer,
    run_step: RunStep | None = None,
) -> Outcome:
    """Run a plan that is there, step after step, as `run_experiment` does; the record calls it `name`."""
    both = Several([observer, tracker])

    def here(step: Any, inputs: Inputs, refresh: bool) -> Result:
        return run_stage(step, inputs, store=store, runtime=runtime, observer=both, refresh=refresh)

    def steps() -> dict[str, Result]:
        return execute(plan, choice, store, run_step or here)

    return run_plan(plan, choice, steps, name=name, settings=settings, store=store, tracker=tracker)


def run_plan(
    plan: Plan,
    choice: Choice,
    steps: Callable[[], dict[str, Result]],
    *,
    name: str,
    settings: Params,
    store: Store,
    tracker: Tracker,
) -> Outcome:
    """Check what can be checked, call `steps`, which runs the chosen ones, and keep a record, whatever comes of it."""
    _check_ready(plan, choice, store)
    record = _Record(store, name, settings, plan, choice)
    record.write("running", {}, {})
    try:
        results = steps()
    except BaseException as error:
        record.write("failed", {}, {"error": str(error) or type(error).__name__})
        tracker.abort(error)
        raise
    kept = {
        name: results[output.step].meta.ref(output.artifact)
        for name, output in plan.results.items()
        if output.step in results
    }
    nothing_new = all(result.cached for result in results.values())
    facts = (nothing_new and record.earlier_facts()) or tracker.finish(store, kept)
    record.write("done", results, facts)
    return Outcome(name, results, kept, facts)


def _check_ready(plan: Plan, choice: Choice, store: Store) -> None:
    """Fail before the first stage rather than after hours: ask every stage that would run whether it can."""
    for entry in forecast(plan, choice, store):
        if entry.state == "would run" and entry.step.stage.ready:
            entry.step.stage.ready(entry.step.params)


@dataclass
class _Record:
    """`.runs/<time>-<name>.json`: which builds a run used, so that they are kept, and what came of it."""

    store: Store
    name: str
    settings: Params
    plan: Plan
    choice: Choice
    began: datetime = field(default_factory=lambda: datetime.now(UTC))

    def write(self, status: str, results: Mapping[str, Result], facts: Mapping[str, str]) -> None:
        selected = self.choice.selected(self.plan)
        steps = {
            step.name: {
                "stage": step.stage.name,
                "key": step.key,
                "build": results[step.name].meta.build if step.name in results else None,
                "cached": results[step.name].cached if step.name in results else None,
            }
            for step in self.plan.steps
            if step.name in selected
        }
        self.store.record_run(
            f"{self.began:%Y%m%dT%H%M%S%f}-{self.name}",
            {
                "experiment": self.name,
                "settings": self.settings.model_dump(mode="json"),
                "status": status,
                "began": self.began.isoformat(),
                "seconds": round((datetime.now(UTC) - self.began).total_seconds(), 3),
                "steps": steps,
                "kept": {name: output.step for name, output in self.plan.results.items()},
                "facts": dict(facts),
            },
        )

    def earlier_facts(self) -> dict[str, str]:
        """What an earlier run of the very same steps registered: nothing is registered twice."""
        keys = {step.key for step in self.plan.steps}
        for run in self.store.runs():
            if run["status"] == "done" and run["facts"] and {s["key"] for s in run["steps"].values()} == keys:
                return dict(run["facts"])
        return {}
