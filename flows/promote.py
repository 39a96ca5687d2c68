"""Promotion as a Prefect flow: for a deployment, by hand or on a schedule after the nightly training."""

from typing import Any

from prefect import flow
from prefect.runtime import flow_run
from prefect.states import Completed

from noisyir.app.rescoring import promote_on_data_of_today
from noisyir.app.runs import Execution
from noisyir.engine.runtime import Runtime
from noisyir.engine.store import open_store
from noisyir.evaluation.settings import PromoteParams
from noisyir.flows.artifacts import tell_of_decision
from noisyir.flows.experiment import stages_as_tasks
from noisyir.registry import promote as registry
from noisyir.registry.tracker import Tracker
from noisyir.tasks.dispatch import Pools


@flow(name="promote", flow_run_name="{model}", persist_result=False)
def promote(
    model: str = "noisyir-retriever",
    version: str | int | None = None,
    experiment: str | None = None,
    params: PromoteParams = PromoteParams(),  # noqa: B008 - frozen
    roll_back: bool = False,
    force: bool = False,
    store: str | None = None,
    runtime: Runtime = Runtime(),  # noqa: B008 - frozen
    pools: Pools = Pools(),  # noqa: B008 - frozen
) -> Any:
    """Make a registered model the champion if it passes the gate; a refusal completes, too, and says why.

    A champion that other data measured is encoded, searched and scored on the challenger's data first.

    Args:
        model: noisyir-retriever, noisyir-ranker or noisyir-reader.
        version: its number; empty: the challenger.
        experiment: promote its challenger, or roll its champion back; empty: the newest version of all.
        params: what is compared, and the thresholds.
        roll_back: make the champion before the present one champion again instead.
        force: also promote what is no better than BM25 or than the untrained model.
        store: folder or fsspec URL of the artifacts, which holds the log.
        runtime: the machine that the champion is measured on again, if other data measured it.
        pools: which of those stages are sent to the workers of other pools.

    """
    artifacts, run, tracker = open_store(store), str(flow_run.id), Tracker()
    if roll_back:
        decision = registry.roll_back(model, store=artifacts, experiment=experiment, flow_run=run)
    else:
        wanted = None if version is None else str(version)
        with stages_as_tasks(store=artifacts, runtime=runtime, tracker=tracker, pools=pools) as run_step:
            here = Execution(artifacts, runtime, tracker, run_step=run_step, elsewhere=pools.elsewhere)
            decision = promote_on_data_of_today(
                model, wanted, params, here, experiment=experiment, flow_run=run, forced=force
            )
    tell_of_decision(decision, artifacts)
    return Completed(message=decision.summary)
