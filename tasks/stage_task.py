"""One generic task: a plan's step, run under Prefect.  The store, not Prefect, decides whether work is reused."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

from prefect import Task, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun

from noisyir.engine.build_stage import Result, recorded, run_stage
from noisyir.engine.observe import Several
from noisyir.engine.parallel import stage_runner
from noisyir.engine.plan import RunStep
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Inputs, Observer, Step
from noisyir.engine.store import Store
from noisyir.errors import NoisyirError
from tasks.cluster import Cluster
from tasks.log_context import current_facts, log_context
from tasks.observer import PrefectObserver

RETRY_AFTER_SECONDS = 5.0

Call = Callable[[Inputs, bool], Result]
Through = Callable[..., AbstractContextManager[RunStep]]  # through_tasks, through_cluster


@contextmanager
def through_tasks(*, store: Store, runtime: Runtime, observer: Observer) -> Iterator[RunStep]:
    """How `engine.plan.execute` calls a step when Prefect is the engine: as a task, in this process or one beside it.

    What a stage spreads goes to the cluster of `runtime.fan_out`.  Processes and cluster end with the block.
    """
    with stage_runner(runtime) as run, Cluster(runtime) as cluster:
        spread = None if runtime.fan_out.engine == "none" else cluster.spread

        def run_step(step: Step, inputs: Inputs, refresh: bool) -> Result:
            def call(inputs: Inputs, refresh: bool) -> Result:
                both = Several([observer, PrefectObserver()])
                with log_context(step=step.name, key=step.key):
                    return run(step, inputs, store=store, observer=both, refresh=refresh, spread=spread)

            return as_task(step, call)(inputs, refresh)

        yield run_step


@contextmanager
def through_cluster(*, store: Store, runtime: Runtime, observer: Observer) -> Iterator[RunStep]:
    """As `through_tasks`, with whole steps on the cluster of `runtime.fan_out`; those that are cached stay here.

    The observer is told when a step is sent and when it is back, and not what happens between.
    """
    with Cluster(runtime) as cluster, through_tasks(store=store, runtime=runtime, observer=observer) as here:

        def run_step(step: Step, inputs: Inputs, refresh: bool) -> Result:
            if not refresh and store.find(step.stage.name, step.key, recorded(inputs)):
                return here(step, inputs, refresh)
            observer.started(step)
            try:
                there = as_task(step, _on_worker(step, store, cluster.runtime))
                result: Result = cluster.submit(there, step.stage.pool, inputs=inputs, refresh=refresh).result()
            except Exception as error:
                observer.failed(step, error)
                raise
            observer.finished(step, result.meta, result.cached)
            return result

        yield run_step


def _on_worker(step: Step, store: Store, runtime: Runtime) -> Call:
    bare = replace(step, inputs={})  # what is planned does not travel; what is resolved does
    url, home, facts = store.url, store.home, current_facts() | {"step": step.name, "key": step.key}

    def call(inputs: Inputs, refresh: bool) -> Result:
        there = Store(url, home=home)
        with log_context(**facts):
            return run_stage(bare, inputs, store=there, runtime=runtime, observer=PrefectObserver(), refresh=refresh)

    return call


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
