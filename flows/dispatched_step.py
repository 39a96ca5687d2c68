"""One step of another flow run's pipeline, on a worker of the pool that it was sent to."""

from prefect import flow
from prefect.runtime import flow_run

from flows.experiment import stages_as_tasks, writable_store
from noisyir.engine.runtime import Runtime
from noisyir.engine.serialized_step import SerializedStep
from noisyir.stages import stage_named
from noisyir.tracking import join_tracker


def _run_name() -> str:
    step: dict[str, object] | SerializedStep = flow_run.parameters["step"]
    return step.name if isinstance(step, SerializedStep) else str(step["name"])


@flow(name="dispatched_step", flow_run_name=_run_name, persist_result=False)
def dispatched_step(
    step: SerializedStep,
    refresh: bool = False,
    store: str | None = None,
    runtime: Runtime = Runtime(),  # noqa: B008 - frozen
    parent: str | None = None,
    mlflow_run: str | None = None,
) -> None:
    """Run one step from artifacts that are in the store.  Sent by a flow that waits for it: `tasks.dispatch`.

    refresh: build it although it is there.  parent, mlflow_run: the sender's flow run, and its run in MLflow.
    """
    opened, inputs = step.open(stage_named)
    artifacts = writable_store(store)
    opened.stage.check_ready(opened.params)
    tracker = join_tracker(mlflow_run, home=artifacts.home)
    with stages_as_tasks(store=artifacts, runtime=runtime, tracker=tracker, parent=parent) as run_step:
        run_step(opened, inputs, refresh)
