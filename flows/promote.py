"""Promotion as a Prefect flow: for a deployment, by hand or on a schedule after the nightly training."""

from typing import Any

from prefect import flow
from prefect.artifacts import create_markdown_artifact
from prefect.runtime import flow_run
from prefect.states import Completed

from noisyir.engine.store import open_store
from noisyir.evaluation.settings import PromoteParams
from noisyir.registry import promote as registry


@flow(name="promote", flow_run_name="{model}", persist_result=False)
def promote(
    model: str = "noisyir-retriever",
    version: str | None = None,
    params: PromoteParams = PromoteParams(),  # noqa: B008 - frozen
    roll_back: bool = False,
    force: bool = False,
    store: str | None = None,
) -> Any:
    """Make a registered model the champion if it passes the gate; a refusal completes, too, and says why.

    Args:
        model: noisyir-retriever, noisyir-ranker or noisyir-reader.
        version: its number; empty: the challenger.
        params: what is compared, and the thresholds.
        roll_back: make the champion before the present one champion again instead.
        force: also promote what is no better than BM25 or than the untrained model.
        store: folder or fsspec URL of the artifacts, which holds the log.

    """
    artifacts, run = open_store(store), str(flow_run.id)
    if roll_back:
        decision = registry.roll_back(model, store=artifacts, flow_run=run)
    else:
        decision = registry.promote(model, version, params, store=artifacts, flow_run=run, forced=force)
    create_markdown_artifact(decision.summary, key=decision.model, description=decision.summary)
    return Completed(message=decision.summary)
