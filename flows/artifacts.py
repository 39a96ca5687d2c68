"""What a flow run leaves on its page in Prefect: its stages, how the model did, and where the rest is."""

from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact
from prefect.events import emit_event

from noisyir.app.runs import Outcome
from noisyir.base.pages.cells import markdown_table
from noisyir.engine.store import Store
from noisyir.evaluation.pages.summary import summary_rows
from noisyir.registry.promote import Decision

REGISTERED = "noisyir.version.registered"
DECIDED = {"promoted": "noisyir.model.promoted", "refused": "noisyir.version.refused"}


def tell_of_versions(outcome: Outcome) -> None:
    """An event for each version that the run registered, for automations such as that of `infra/bootstrap.yaml`."""
    for made in filter(None, outcome.facts.get("registered", "").split(", ")):
        model, _, version = made.rpartition(" v")
        resource = {"prefect.resource.id": f"noisyir.model.{model}", "noisyir.model": model, "noisyir.version": version}
        emit_event(REGISTERED, resource)


def tell_of_decision(decision: Decision) -> None:
    """An artifact with the gate's decision, and an event: noisyir.model.promoted or noisyir.version.refused."""
    create_markdown_artifact(decision.summary, key=decision.model, description=decision.summary)
    if event := DECIDED.get(decision.verdict):
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
        create_markdown_artifact(key="evaluation", markdown=f"{markdown_table(table, left=1)}\n{_facts(outcome)}")
    if page := outcome.facts.get("mlflow_page"):
        create_link_artifact(key="mlflow", link=page, link_text="the run in MLflow, with its report")


def _facts(outcome: Outcome) -> str:
    return "\n".join(f"- {name}: {value}" for name, value in outcome.facts.items())
