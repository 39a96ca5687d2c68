"""One stage of an experiment as a flow run of its own: what a parent sends to a pool, or a person runs again."""

from prefect import flow
from prefect.runtime import flow_run

from flows.experiment import load, run_in_flow, tag_flow_run
from noisyir.config import Experiment, Runtime
from noisyir.errors import ConfigError
from noisyir.plan import Choice, Plan, Step, resolve
from noisyir.reader_pipelines import pipeline_of
from noisyir.store import open_store
from noisyir.tracking import open_tracker
from tasks.dispatch import Dispatched
from tasks.log_context import log_context
from tasks.stage_task import through_tasks


def _run_name() -> str:
    return str(flow_run.parameters["stage"])


@flow(name="single_stage", flow_run_name=_run_name, persist_result=False)
def single_stage(
    experiment: Experiment | str,
    stage: str,
    overrides: tuple[str, ...] = (),
    refresh: bool = False,
    store: str | None = None,
    runtime: Runtime = Runtime(),  # noqa: B008 - frozen
    dispatched: Dispatched | None = None,
) -> None:
    """Run one stage from artifacts that are in the store.

    experiment, overrides, store: as for train_retriever.  stage: its name, such as encode, or encode@npc for one call.
    refresh: build it although it is there.  dispatched: filled in by a parent flow run that waits for the stage.
    """
    exp = load(experiment, overrides)
    if dispatched is None:
        choice = Choice(only=stage, refresh=(stage,) if refresh else ())
        run_in_flow(exp, choice, store=store, runtime=runtime)
        return
    plan = pipeline_of(exp)
    step = _same_as_sent(plan, stage, dispatched.key)
    artifacts = open_store(store)
    artifacts.check_writable()
    tracked = dispatched.mlflow_run is not None  # else a run of this stage's own would never end
    tracker = open_tracker(experiment=exp, home=artifacts.home, enabled=tracked, within=dispatched.mlflow_run)
    tag_flow_run(tracker)
    if step.stage.ready:
        step.stage.ready(step.params)
    alone = runtime.model_copy(update={"steps_at_once": 1})  # how many there are at once is the workers' matter
    with (
        through_tasks(store=artifacts, runtime=alone, observer=tracker) as run_step,
        log_context(run=dispatched.flow_run, mlflow=dispatched.mlflow_run),
    ):
        run_step(step, resolve(step, plan, artifacts, {}), refresh)


def _same_as_sent(plan: Plan, stage: str, key: str) -> Step:
    """The plan's step of this very name, which must have the key that the sender knows."""
    step = next((step for step in plan.steps if step.name == stage), None)
    if step is None or step.key != key:
        found = f"has the key {step.key[:12]}" if step else "is not in the plan"
        raise ConfigError(
            f"{stage} {found} on this worker, and has {key[:12]} for the flow that sent it: the two have other code, "
            "other packages or other raw data; bring both to one version"
        )
    return step
