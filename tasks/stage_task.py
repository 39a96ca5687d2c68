"""One generic task: a plan's step, run under Prefect.  The store, not Prefect, decides whether work is reused."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prefect import Task, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun

from noisyir.base.errors import NoisyirError
from noisyir.engine.build_stage import Result
from noisyir.engine.observe import ObserverGroup
from noisyir.engine.plan import RunStep
from noisyir.engine.remote.parallel import stage_runner
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Inputs, Observer, Step
from noisyir.engine.store import Store
from tasks.log_context import log_context
from tasks.observer import PrefectObserver

RETRY_AFTER_SECONDS = 5.0

Call = Callable[[Inputs, bool], Result]


@contextmanager
def through_tasks(*, store: Store, runtime: Runtime, observer: Observer) -> Iterator[RunStep]:
    """How `engine.plan.execute` calls a step when Prefect is the engine: as a task, in this process or one beside it.

    What a stage spreads goes to the Ray cluster of `runtime.fan_out`, of which Prefect sees nothing.
    """
    with stage_runner(runtime) as run:

        def run_step(step: Step, inputs: Inputs, refresh: bool) -> Result:
            def call(inputs: Inputs, refresh: bool) -> Result:
                both = ObserverGroup([observer, PrefectObserver()])
                with log_context(step=step.name, key=step.key):
                    return run(step, inputs, refresh, store=store, observer=both)

            return as_task(step, call)(inputs, refresh)

        yield run_step


def as_task(step: Step, call: Call) -> Task[[Inputs, bool], Result]:
    """A Prefect task for one step; only references to artifacts go in and come out.

    An error of the user's is final; anything else is tried once more, and long stages go on from their checkpoint.
    """
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
