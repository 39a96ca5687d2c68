"""One stage of an experiment as a flow run of its own, for a person who wants it again."""

from prefect import flow
from prefect.runtime import flow_run

from noisyir.app.runs import Outcome
from noisyir.engine.plan import Choice
from noisyir.engine.runtime import Runtime
from noisyir.flows.experiment import load, run_in_flow, run_name
from noisyir.methods.plans.experiment import Experiment
from noisyir.tasks.dispatch import Pools


def _run_name() -> str:
    return f"{run_name().partition(':')[0]}: {flow_run.parameters['stage']}"


@flow(name="single_stage", flow_run_name=_run_name, persist_result=False)
def single_stage(
    experiment: Experiment | str,
    stage: str,
    overrides: tuple[str, ...] = (),
    refresh: bool = False,
    store: str | None = None,
    runtime: Runtime = Runtime(),  # noqa: B008 - frozen
    pools: Pools = Pools(),  # noqa: B008 - frozen
) -> Outcome:
    """Run one stage from artifacts that are in the store.

    Args:
        experiment: a name that ships with noisyir, a .yaml file that the worker sees, or all settings.
        stage: its name, such as encode, or encode@npc for one call.
        overrides: settings to change, such as encode.dtype=float16.
        refresh: build it although it is there.
        store: folder or fsspec URL of the artifacts; empty: the one that this worker's NOISYIR_STORE or NOISYIR_HOME
            names.
        runtime: the machine that stages run on, not the method: device, threads, processes.
        pools: which stages are sent to the workers of other pools, as flow runs of dispatched_step.

    """
    choice = Choice(only=stage, refresh=(stage,) if refresh else ())
    return run_in_flow(load(experiment, overrides, store), choice, store=store, runtime=runtime, pools=pools)
