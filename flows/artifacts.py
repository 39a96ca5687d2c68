"""What a flow run leaves on its page in Prefect: its stages, how the model did, and where the rest is."""

import re
from base64 import b64encode
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, cast

import pyarrow as pa
from prefect.artifacts import (
    create_image_artifact,
    create_link_artifact,
    create_markdown_artifact,
    create_table_artifact,
)
from prefect.events import emit_event
from prefect.logging import get_run_logger
from prefect.runtime import flow_run
from prefect.states import Completed, Failed

from noisyir.app.own_data import recommended
from noisyir.app.runs import Outcome
from noisyir.audits.texts import opening
from noisyir.base.errors import NoisyirError
from noisyir.base.pages.cells import markdown_table
from noisyir.engine.outside_errors import one_line
from noisyir.engine.plan import failed_step
from noisyir.engine.store import Store
from noisyir.evaluation.pages.advice import in_short
from noisyir.evaluation.pages.summary import summary_rows
from noisyir.methods.plans.experiment import Experiment
from noisyir.registry.promote import Decision, decisions

P = ParamSpec("P")
REGISTERED, FINISHED = "noisyir.version.registered", "noisyir.run.finished"
_CHART = re.compile(r'<svg( class="chart[^>]*>)(.*?</svg>)', re.DOTALL)
_SUSPECTS = 3  # pairs that a person reads at a glance
_AGAIN = "; what was built is kept, so run it again; if it comes back, the log of its task has the traceback"
DECIDED = {"promoted": "noisyir.model.promoted", "refused": "noisyir.version.refused"}


def tell_of_versions(outcome: Outcome) -> None:
    """An event for each version that the run registered, for automations such as that of `infra/bootstrap.yaml`."""
    for made in filter(None, outcome.facts.get("registered", "").split(", ")):
        model, _, version = made.rpartition(" v")
        resource = {"prefect.resource.id": f"noisyir.model.{model}", "noisyir.model": model, "noisyir.version": version}
        emit_event(REGISTERED, resource)


def completed(outcome: Outcome, said: str | None = None) -> Outcome:
    """The end of a flow that returns the outcome: the run's message says what was reused, and what came of it."""
    message = "; ".join(filter(None, (f"{outcome.executed} built, {outcome.cached} cached", said)))
    if flow_run.parent_flow_run_id is None:  # else the parent's end is told
        tell_of_run(outcome.experiment, message)
    return cast("Outcome", Completed(message=message, data=outcome))


def tell_of_run(experiment: str, message: str) -> None:
    """Emit the event that a run has ended well."""
    emit_event(FINISHED, {**about(experiment), "noisyir.summary": f"{experiment}: {message}"})


def about(experiment: str) -> dict[str, str]:
    """The resource of an event on an experiment."""
    return {"prefect.resource.id": f"noisyir.experiment.{experiment}", "noisyir.experiment": experiment}


def fails_in_words(run: Callable[P, Outcome]) -> Callable[P, Outcome]:
    """End a flow in a message that names the stage, the fault and the cure; a caller gets the error."""

    @wraps(run)
    def ending(*args: P.args, **kwargs: P.kwargs) -> Outcome:
        try:
            return run(*args, **kwargs)
        except Exception as error:
            ours = isinstance(error, NoisyirError)  # which says its cure itself
            step = failed_step(error) or "before any stage"
            said = f"{step}: {one_line(error).removeprefix(f'stage {step}: ')}{'' if ours else _AGAIN}"
            get_run_logger().error(said, exc_info=None if ours else error)
            return cast("Outcome", Failed(message=said, data=error))

    return ending


def best_of(outcome: Outcome, store: Store, exp: Experiment) -> str | None:
    """The best system and its value, where the run compares systems."""
    best = recommended(outcome, store, exp)
    return in_short(best) if best else None


def tell_of_decision(decision: Decision, store: Store) -> None:
    """An artifact with the gate's decision, and an event: noisyir.model.promoted or noisyir.version.refused.

    A decision that repeats the version's last one, as each night on the same file does, has no event.
    """
    create_markdown_artifact(decision.summary, key=decision.model, description=decision.summary)
    event, log = DECIDED.get(decision.verdict), decisions(store, decision.model)
    before = (one for one in log if one["version"] == decision.version and one["when"] < decision.when)
    last = next(before, None)
    if event and (last is None or Decision.from_record(last).summary != decision.summary):
        about = {"noisyir.model": decision.model, "noisyir.version": decision.version}
        about |= {"noisyir.summary": decision.summary, "prefect.resource.id": f"noisyir.model.{decision.model}"}
        emit_event(event, about)


def show(outcome: Outcome, store: Store) -> None:
    """Make the artifacts: the table of stages always, the others where the run has what they show."""
    create_table_artifact(
        key="stages",
        table=[
            {
                "stage": name,
                "state": "cached" if result.cached else "built",
                "seconds": result.meta.seconds,
                "rows": sum(contents.rows or 0 for contents in result.meta.artifacts.values()),
                "build": f"{result.meta.stage}/{result.meta.key}/{result.meta.build}",
            }
            for name, result in outcome.results.items()
        ],
        description=f"{outcome.experiment}: {outcome.executed} stages built, {outcome.cached} cached",
    )
    if comparison := outcome.kept.get("comparison"):
        table = summary_rows(store.builds.table(comparison))
        shown = f"{markdown_table(table, left=1)}\n{_facts(outcome)}"
        create_markdown_artifact(shown, key="evaluation", description=f"{outcome.experiment}: its systems by quality")
    if report := outcome.kept.get("report"):
        html = (store.builds.folder(report) / "report.html").read_text(encoding="utf-8")
        if chart := first_chart(html):
            create_image_artifact(chart, key="chart", description=f"{outcome.experiment}: the report's first chart")
    if page := outcome.facts.get("mlflow_page"):
        about_it = f"{outcome.experiment}: settings, curves and report"
        create_link_artifact(page, "the run in MLflow, with its report", key="mlflow", description=about_it)


def first_chart(page: str) -> str | None:
    """The first chart of one of noisyir's pages as a picture that stands alone, as a URL; None without any."""
    style, chart = re.search(r"<style>(.*?)</style>", page, re.DOTALL), _CHART.search(page)
    if style is None or chart is None:
        return None
    alone = f'<svg xmlns="http://www.w3.org/2000/svg"{chart[1]}<style><![CDATA[{style[1]}]]></style>{chart[2]}'
    return f"data:image/svg+xml;base64,{b64encode(alone.encode()).decode()}"


def show_suspects(audit: pa.Table, experiment: str) -> None:
    """Show the pairs of an audit that are most suspect, and why."""
    worst = audit.slice(0, _SUSPECTS).select(["query", "document", "verdict", "reason"]).to_pylist()
    table = [{name: opening(value or "not known") for name, value in row.items()} for row in worst]
    create_table_artifact(key="suspects", table=table, description=f"{experiment}: the most suspect pairs")


def _facts(outcome: Outcome) -> str:
    return "\n".join(f"- {name}: {value}" for name, value in outcome.facts.items())
