"""Detect wrong pairs, audit and clean them as a Prefect flow: what `noisyir audit` does, each stage a task."""

from pathlib import Path

from prefect import flow
from prefect.artifacts import create_link_artifact, create_table_artifact
from prefect.runtime import flow_run

from noisyir.app.after_audit import CarriedRate
from noisyir.app.audit_data import experiment_to_audit
from noisyir.app.audit_folder import refuse_to_overwrite
from noisyir.app.label_audit import Audited, run_audit
from noisyir.app.label_cleaning import how_to_measure, refuse_too_much, refuse_unjudged
from noisyir.app.runs import Execution, Outcome
from noisyir.audits.apply import Applied
from noisyir.engine.runtime import Runtime, default_home
from noisyir.flows.artifacts import completed, fails_in_words, show_suspects
from noisyir.flows.experiment import stages_as_tasks, writable_store
from noisyir.flows.stops import tell_of_audit
from noisyir.registry import open_tracker
from noisyir.tasks.dispatch import Pools


@flow(name="denoise", flow_run_name="denoise {data}", persist_result=False)
@fails_in_words
def denoise(
    data: str,
    overrides: tuple[str, ...] = (),
    corpus: str | None = None,
    out: str | None = None,
    model: str | None = None,
    judgements: tuple[str, ...] = (),
    refit: bool = False,
    apply: bool = False,
    drop: bool = False,
    force: bool = False,
    store: str | None = None,
    runtime: Runtime = Runtime(),  # noqa: B008 - frozen
    pools: Pools = Pools(),  # noqa: B008 - frozen
) -> Outcome:
    """Say which training pairs are wrong, and why; if asked, write cleaned pairs and a log of what was changed.

    Args:
        data: an experiment, a data set's folder, or a file of pairs.
        overrides: settings to change, such as detect.threshold=0.8.
        corpus: the file of the documents, where the pairs only name them.
        out: the folder for the files; empty: one for this flow run under noisyir's home.
        model: judges instead of small ones trained on the data.
        judgements: files of verdicts by hand.
        refit: judge all pairs anew by all of these, also those not drawn at random.
        apply: write cleaned pairs, and a log of what was changed.
        drop: leave wrong pairs out instead of weighing them.
        force: apply without a random sample that was judged, however much changes.
        store: folder or fsspec URL of the artifacts; empty: the one that this worker's NOISYIR_STORE or NOISYIR_HOME
            names.
        runtime: the machine that stages run on, not the method: device, threads, processes.
        pools: which stages are sent to the workers of other pools, as flow runs of dispatched_step.

    """
    exp = experiment_to_audit(data, overrides, corpus=corpus, model=model, judgements=judgements, refit=refit)
    if apply:
        refuse_unjudged(exp, force=force)
    artifacts = writable_store(store)
    folder = Path(out) if out else default_home() / "audits" / exp.name / str(flow_run.id)
    refuse_to_overwrite(exp, folder)
    tracker = open_tracker(experiment=exp, home=artifacts.home)
    with stages_as_tasks(store=artifacts, runtime=runtime, tracker=tracker, pools=pools) as run_step:
        found = run_audit(
            exp,
            Execution(store=artifacts, runtime=runtime, tracker=tracker, run_step=run_step, elsewhere=pools.elsewhere),
        )
    if apply:
        refuse_too_much(found, drop=drop, force=force)
    found.write(folder)
    page = (folder / "audit.html").resolve()
    create_link_artifact(
        key="audit-page", link=page.as_uri(), link_text=f"{exp.name}: the audit", description=str(page)
    )
    show_suspects(found.table, exp.name)
    tell_of_audit(found, CarriedRate(*found.noise[1:], found.sampled, 0.0) if found.sampled else None)
    _tell(found, folder, found.apply(folder, drop=drop) if apply else None)
    return completed(found.outcome, found.noise_in_words)


def _tell(found: Audited, folder: Path, applied: Applied | None) -> None:
    """A table of what was found and written."""
    rows = {
        "pairs judged": f"{found.table.num_rows:,}",
        "flagged": f"{found.flagged:,}",
        "how many are wrong": found.noise_in_words,
        "files": str(folder),
    }
    if applied:
        changes = applied.summary().splitlines()[0]
        rows |= {"cleaned pairs": str(applied.pairs), "changes": changes, "log of changes": str(applied.log)}
        rows |= {"to measure": measured} if (measured := how_to_measure(found, applied)) else {}
    table = [{"what": what, "found": value} for what, value in rows.items()]
    create_table_artifact(key="denoised", table=table, description=f"{found.exp.name}: wrong training pairs")
