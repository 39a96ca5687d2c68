"""What stops a night before it trains: faults of its data, and too many pairs that may be wrong."""

from pathlib import Path
from uuid import UUID

from prefect.artifacts import create_link_artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterState,
    FlowRunFilterStateName,
)
from prefect.events import emit_event
from prefect.flow_runs import suspend_flow_run
from prefect.runtime import deployment, flow_run
from pydantic import Field

from noisyir.app.after_audit import FILE, AuditArguments, CarriedRate, carried_rate, write_page_alone
from noisyir.app.audit_data import experiment_to_audit
from noisyir.app.data_check import check_format
from noisyir.app.label_audit import Audited, run_audit
from noisyir.app.runs import Execution
from noisyir.base.errors import ConfigError
from noisyir.base.pages.cells import percent
from noisyir.base.settings import Fraction, Params
from noisyir.engine.runtime import default_home
from noisyir.flows.artifacts import about
from noisyir.methods.plans.experiment import Experiment

FAILED, FINISHED = "noisyir.check.failed", "noisyir.audit.finished"
NOBODY = "nobody has judged a random sample of the pairs"
ENDS_SECONDS = 7 * 24 * 3600  # without an automation that resumes it earlier, Prefect then fails the run


class AskFirst(Params):
    """When a night stops and asks a person how many pairs are wrong."""

    above: Fraction | None = Field(
        None, description="ask unless judgements show that at most this share is wrong; null: never"
    )
    judged: str | None = Field(
        None, description="folder of a judged audit; null: the newest that this experiment's nights asked about"
    )


def refused_by_check(exp: Experiment, fail_on: tuple[str, ...]) -> str | None:
    """Why a night must not train on data with one of these faults; None: it may."""
    found = check_format(exp.data).of(*fail_on) if fail_on else ()
    if not found:
        return None
    said = "; ".join(f"{one.name}, {one.count:,} of {one.of:,}: {one.what}" for one in found)
    labels = {**about(exp.name), "noisyir.summary": f"{exp.name}: {said}"}
    emit_event(FAILED, labels, payload={one.name: one.count for one in found})
    return said


def refused_by_judgements(
    experiment: str, overrides: tuple[str, ...], ask: AskFirst, execution: Execution, store: str | None
) -> str | None:
    """Why a night must not train; None: it may.  The run is suspended once, until somebody has judged.

    It is suspended and not paused: a pause frees the deployment's slot, and Prefect ends a process that lost its slot
    after four minutes.  A resumed run begins again, and finds its audit in the store.  The deployment's runs until then
    do not ask again.
    """
    if ask.above is None:
        return None
    exp = experiment_to_audit(experiment, overrides)
    here = default_home() / "audits" / exp.name / str(flow_run.id)
    judged = _judged(here, ask.judged)
    found = run_audit(exp, execution)
    rate = carried_rate(found, judged) if judged else None
    if rate is not None and rate.high <= ask.above:
        tell_of_audit(found, rate)
        return None
    page, said = None, f"{rate or NOBODY}; the limit is {percent(ask.above, 1)}"
    is_new = bool(deployment.id) and not here.exists()  # and was not resumed
    asks = _suspended_run() if is_new else None
    if asks:
        said = f"{said}; the flow run {asks} asks already: judge there, and resume it"
    elif is_new:
        page = _show_page(found, here, AuditArguments(experiment, overrides, None, str(here), None, None, None, store))
    tell_of_audit(found, rate, page)
    if deployment.id and not asks:
        suspend_flow_run(timeout=ENDS_SECONDS, key="judge")  # does nothing in a run that was resumed
    return said


def _suspended_run() -> str | None:
    """The id of a run of this deployment that waits for a person, if one does."""
    wanted = FlowRunFilter(
        deployment_id=FlowRunFilterDeploymentId(any_=[UUID(deployment.id)]),
        state=FlowRunFilterState(name=FlowRunFilterStateName(any_=["Suspended"])),
    )
    with get_client(sync_client=True) as client:
        return next((str(run.id) for run in client.read_flow_runs(flow_run_filter=wanted, limit=1)), None)


def _judged(here: Path, given: str | None) -> Path | None:
    """The folder of the judgements that count: this run's, else the given one, else the newest of earlier nights."""
    if (here / FILE).exists():
        return here
    if given:
        if not (folder := Path(given).expanduser() / FILE).is_file():
            raise ConfigError(f"ask.judged: {folder} is not there: name the folder of an audit that was judged")
        return folder.parent
    found = max(here.parent.glob(f"*/{FILE}"), key=lambda path: path.stat().st_mtime, default=None)
    return found and found.parent


def _show_page(found: Audited, folder: Path, command: AuditArguments) -> Path:
    """Write the audit and its judging page, link the page from the run, and return its place."""
    found.write(folder)
    page = write_page_alone(found, folder, command.typed("--judge"))
    create_link_artifact(
        key="judging-page",
        link=page.resolve().as_uri(),
        link_text=f"{found.exp.name}: judge 50 pairs, and resume this run",
        description=f"{page}\n\nThe page saves {FILE}: put it into {folder}. On that machine one command does both:"
        f"\n\n    {command.typed('--judge')}\n\nThen press Resume. Judgements are read once, when the run goes on.",
    )
    return page


def tell_of_audit(found: Audited, rate: CarriedRate | None, page: Path | None = None) -> None:
    """Emit the event that an audit has ended: the rate by judgements, and where a person is asked to judge, if any."""
    asks = f"; judge {page} and resume the run" if page else ""
    labels = {**about(found.exp.name), "noisyir.summary": f"{found.exp.name}: {rate or NOBODY}{asks}"}
    emit_event(FINISHED, labels | {"noisyir.asks": "yes" if page else "no"}, payload=rate._asdict() if rate else {})
