"""One generic task: a plan's step, run under Prefect.  The store, not Prefect, decides whether work is reused."""

from prefect import Task, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun

from noisyir.config import Runtime
from noisyir.errors import NoisyirError
from noisyir.observe import Observer, Several
from noisyir.plan import RunStep, Step
from noisyir.stage import Inputs, Result, run_stage
from noisyir.store import Store
from tasks.log_context import log_context
from tasks.observer import PrefectObserver

RETRY_AFTER_SECONDS = 5.0


def through_tasks(*, store: Store, runtime: Runtime, observer: Observer) -> RunStep:
    """How `noisyir.plan.execute` calls a step when Prefect is the engine."""

    def run_step(step: Step, inputs: Inputs, refresh: bool) -> Result:
        return as_task(step, store=store, runtime=runtime, observer=observer)(inputs, refresh)

    return run_step


def as_task(step: Step, *, store: Store, runtime: Runtime, observer: Observer) -> Task[[Inputs, bool], Result]:
    """A Prefect task for one step; only references to artifacts go in and come out.

    An error of the user's is final; anything else is tried once more, and long stages go on from their checkpoint.
    """

    def call(inputs: Inputs, refresh: bool) -> Result:
        both = Several([observer, PrefectObserver()])
        with log_context(step=step.name, key=step.key):
            return run_stage(step, inputs, store=store, runtime=runtime, observer=both, refresh=refresh)

    return task(
        name=step.name,
        task_run_name=step.name,
        description=f"stage {step.stage.name} v{step.stage.version}, key {step.key}",
        tags=[step.stage.pool],
        retries=1,
        retry_delay_seconds=RETRY_AFTER_SECONDS,
        retry_condition_fn=_worth_retrying,
        cache_policy=NO_CACHE,
        persist_result=False,
    )(call)


def _worth_retrying(_task: Task[..., Result], _run: TaskRun, state: State[Result]) -> bool:
    error = state.result(raise_on_failure=False)
    return not isinstance(error, NoisyirError)
