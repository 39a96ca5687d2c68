"""One generic task: a plan's step, run under Prefect.  The store, not Prefect, decides whether work is reused."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from prefect import Task, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.states import Completed

from noisyir.base.errors import NoisyirError
from noisyir.engine.build_stage import Result
from noisyir.engine.observe import ObserverGroup
from noisyir.engine.remote.parallel import RunsStage, stage_runner
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Inputs, Observer, Stage, Step
from noisyir.engine.store import Store
from noisyir.tasks.log_context import log_context
from noisyir.tasks.observer import PrefectObserver

RETRY_AFTER_SECONDS, RETRY_JITTER = 5.0, 1.0  # jitter: many tasks that met one fault at one time come back apart

T = TypeVar("T")
Call = Callable[[Inputs, bool], Result]


@dataclass(frozen=True)
class StageTasks:
    """How `engine.plan.execute` calls a step when Prefect is the engine: as a task, in this process or one beside it.

    Each task waits for those of the steps that it reads, so that the run's page has the plan's edges, less those that
    a longer way implies.
    """

    store: Store
    run: RunsStage
    observer: Observer
    _states: dict[str, "State[Result]"] = field(default_factory=dict)
    _behind: dict[str, set[str]] = field(default_factory=dict)  # by step, all steps of this run that lead to it

    def __call__(self, step: Step, inputs: Inputs, refresh: bool) -> Result:
        """Run the step here."""

        def call(inputs: Inputs, refresh: bool) -> Result:
            both = ObserverGroup([self.observer, PrefectObserver()])
            return self.run(step, inputs, refresh, store=self.store, observer=both)

        return self.run_task(step, call, inputs, refresh)

    def run_task(self, step: Step, call: Call, inputs: Inputs, refresh: bool, *, retries: int = 1) -> Result:
        """What the call returns or raises, as the task of the step."""
        needed = {output.step for output in step.outputs_needed()} & self._states.keys()
        implied = set[str]().union(*(self._behind[name] for name in needed))
        before = [self._states[name] for name in sorted(needed - implied)]
        self._behind[step.name] = needed | implied
        with log_context(step=step.name, key=step.key):
            state = as_task(step, call, retries)(inputs, refresh, wait_for=before, return_state=True)
        self._states[step.name] = state
        return state.result()


@contextmanager
def through_tasks(*, store: Store, runtime: Runtime, observer: Observer) -> Iterator[StageTasks]:
    """Tasks for steps.  What a stage spreads goes to the Ray cluster of `runtime.fan_out`, which Prefect cannot see."""
    with stage_runner(runtime) as run:
        yield StageTasks(store, run, observer)


def as_task(step: Step, call: Call, retries: int) -> Task[[Inputs, bool], Result]:
    """A Prefect task for one step; only references to artifacts go in and come out.

    One that was in the store ends in a state named Cached.  An error of the user's is final; anything else is tried
    once more, and long stages go on from their checkpoint.
    """

    def named(inputs: Inputs, refresh: bool) -> Result:
        result = call(inputs, refresh)
        return ended(result, cached=result.cached)

    description = f"stage {step.stage.name} v{step.stage.version}, key {step.key}"
    options = task_options(step.stage) | {"retries": retries}
    return task(name=step.name, task_run_name=step.name, description=description, **options)(named)


def ended(value: T, *, cached: bool) -> T:
    """What a stage's task returns: the value, which Prefect also takes out of a state."""
    return cast("T", Completed(name="Cached", data=value)) if cached else value


def task_options(stage: Stage) -> dict[str, Any]:
    """How Prefect treats a task of the stage."""
    return {
        "tags": [stage.pool],
        "retries": 1,
        "retry_delay_seconds": RETRY_AFTER_SECONDS,
        "retry_jitter_factor": RETRY_JITTER,
        "retry_condition_fn": _worth_retrying,
        "cache_policy": NO_CACHE,
        "persist_result": False,
    }


def _worth_retrying(_task: Task[..., Any], _run: TaskRun, state: "State[Any]") -> bool:
    error = state.result(raise_on_failure=False)
    return not isinstance(error, NoisyirError)
