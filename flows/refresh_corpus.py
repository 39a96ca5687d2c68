"""New documents for a trained model as a Prefect flow: what `noisyir refresh` does, each stage a task."""

from prefect import flow
from prefect.artifacts import create_table_artifact

from noisyir.app.refresh import refresh_corpus as refresh
from noisyir.app.runs import Execution, Outcome
from noisyir.engine.runtime import Runtime
from noisyir.flows.artifacts import completed, fails_in_words
from noisyir.flows.experiment import stages_as_tasks, writable_store
from noisyir.methods import experiments
from noisyir.registry.tracker import Tracker
from noisyir.tasks.dispatch import Pools


@flow(name="refresh_corpus", flow_run_name="refresh {model}", persist_result=False)
@fails_in_words
def refresh_corpus(
    model: str,
    documents: str | None = None,
    remove: str | None = None,
    overrides: tuple[str, ...] = (),
    rebuild: bool = False,
    store: str | None = None,
    runtime: Runtime = Runtime(),  # noqa: B008 - frozen
    pools: Pools = Pools(),  # noqa: B008 - frozen
) -> Outcome:
    """Encode and index what is new in these documents, and leave the rest of the model's newest index as it is.

    Args:
        model: an experiment's name, a model's key, or models:/NAME@ALIAS.
        documents: a jsonl, csv, tsv or parquet file that the workers can read, or a folder with corpus.jsonl.
        remove: a file of the ids of documents to take away, one a line.
        overrides: settings to change, such as data.on_empty=exclude.
        rebuild: build the index anew from all vectors.
        store: folder or fsspec URL of the artifacts; empty: the one that this worker's NOISYIR_STORE or NOISYIR_HOME
            names.
        runtime: the machine that stages run on, not the method: device, threads, processes.
        pools: which stages are sent to the workers of other pools, as flow runs of dispatched_step.

    """
    given = {"model": model, "data": {"path": documents, "remove": remove}, "rebuild": rebuild}
    settings = experiments.load_refresh(given, overrides)
    artifacts, tracker = writable_store(store), Tracker()
    with stages_as_tasks(store=artifacts, runtime=runtime, tracker=tracker, pools=pools) as run_step:
        done = refresh(
            settings,
            Execution(store=artifacts, runtime=runtime, tracker=tracker, run_step=run_step, elsewhere=pools.elsewhere),
        )
    create_table_artifact(
        key="refreshed",
        table=[{"what": what, "found": line} for what, line in done.lines().items()],
        description=f"{model}: {done.outcome.executed} stages run, {done.outcome.cached} cached",
    )
    return completed(done.outcome)
