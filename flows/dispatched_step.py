"""Steps of another flow run's pipeline, on a worker of the pool that they were sent to."""

from prefect import flow

from noisyir.engine.build_stage import Result
from noisyir.engine.known_stages import stage_named
from noisyir.engine.locks import current_run
from noisyir.engine.runtime import Runtime
from noisyir.flows.experiment import stages_as_tasks, writable_store
from noisyir.registry import join_tracker
from noisyir.training.launch import SerializedStep


@flow(name="dispatched_step", persist_result=False)
def dispatched_step(
    steps: tuple[SerializedStep, ...],
    refresh: tuple[str, ...] = (),
    store: str | None = None,
    runtime: Runtime = Runtime(),  # noqa: B008 - frozen
    parent: str | None = None,
    run: str | None = None,
    mlflow_run: str | None = None,
) -> None:
    """Run steps, one after the other, from artifacts that are in the store or that they make themselves.

    Sent and named by a flow that waits for it: `tasks.dispatch`.  refresh: names of those to build although they are
    there.  parent, run, mlflow_run: the sender's flow run, its run in the store, which gets progress, and in MLflow.
    """
    current_run.set(run)
    artifacts = writable_store(store)
    tracker, made = join_tracker(mlflow_run, home=artifacts.home), dict[str, Result]()
    with stages_as_tasks(store=artifacts, runtime=runtime, tracker=tracker, parent=parent) as run_step:
        for sent in steps:
            step, inputs = sent.open(stage_named, made)
            step.stage.check_ready(step.params)
            made[step.name] = run_step(step, inputs, step.name in refresh)
