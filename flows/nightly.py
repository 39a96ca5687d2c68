"""A night of an experiment: it is trained with the seeds that the gate wants, and the gate decides."""

from typing import Any

from prefect import flow
from prefect.runtime import flow_run
from prefect.states import Completed

from noisyir.app.rescoring import promote_on_data_of_today
from noisyir.app.runs import Execution
from noisyir.engine.runtime import Runtime
from noisyir.evaluation.settings import PromoteParams
from noisyir.flows.artifacts import tell_of_decision
from noisyir.flows.experiment import load, run_name, stages_as_tasks, writable_store
from noisyir.flows.train_retriever import train_retriever
from noisyir.registry.kinds import RETRIEVER
from noisyir.registry.tracker import Tracker
from noisyir.tasks.dispatch import Pools


@flow(name="nightly", flow_run_name=run_name, persist_result=False)
def nightly(
    experiment: str,
    overrides: tuple[str, ...] = (),
    gate: PromoteParams = PromoteParams(),  # noqa: B008 - frozen
    store: str | None = None,
    runtime: Runtime = Runtime(),  # noqa: B008 - frozen
    pools: Pools = Pools(),  # noqa: B008 - frozen
) -> Any:
    """Train an experiment on what its data has become, and promote the model if it beats its champion by the gate.

    Args:
        experiment: a name that ships with noisyir, or a .yaml file that the worker sees.
        overrides: settings to change, such as train.epochs=3 or seed=7.
        gate: the thresholds; as many seeds are trained as min_seeds says, and with 1 the gate is by queries alone.
        store: folder or fsspec URL of the artifacts; empty: the one that this worker's NOISYIR_STORE or NOISYIR_HOME
            names.
        runtime: the machine that stages run on, not the method: device, threads, processes.
        pools: which stages are sent to the workers of other pools, as flow runs of dispatched_step.

    """
    exp, artifacts, tracker = load(experiment, overrides, store, "retriever"), writable_store(store), Tracker()
    seeds = [exp.seed + number for number in range(gate.min_seeds)]
    for seed in seeds:
        chosen = (*overrides, f"seed={seed}")
        outcome = train_retriever(experiment, chosen, store=store, runtime=runtime, pools=pools)
        if RETRIEVER.name in outcome.facts.get("refused", ""):
            return Completed(message=f"refused: with seed {seed} it is not worth using, and the champion stays")
    with stages_as_tasks(store=artifacts, runtime=runtime, tracker=tracker, pools=pools) as run_step:
        here = Execution(artifacts, runtime, tracker, run_step=run_step, elsewhere=pools.elsewhere)
        decision = promote_on_data_of_today(
            RETRIEVER.name, None, gate, here, experiment=exp.name, flow_run=str(flow_run.id)
        )
    tell_of_decision(decision)
    by = "by queries alone" if len(seeds) == 1 else f"by queries and the seeds {', '.join(map(str, seeds))}"
    return Completed(message=f"{decision.summary} (the gate is {by})")
