"""From a file of one's own to an experiment: the settings that it takes, and what to doubt of its result."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from noisyir.app.audit_data import named_after, settings_of_data
from noisyir.app.lookup import finished_runs
from noisyir.app.runs import Outcome
from noisyir.base.errors import StoreError
from noisyir.data.stages.ingest import INGEST
from noisyir.engine.store import Store
from noisyir.evaluation.pages.advice import against
from noisyir.evaluation.recommendation import Recommendation, recommendation
from noisyir.methods import experiments
from noisyir.methods.plans.experiment import Experiment, recorded_experiment
from noisyir.methods.plans.left_out import filled_in
from noisyir.registry.evaluation import read_recommendation, recipe


def experiment_for(path: str, *, corpus: str | None = None, overrides: Sequence[str] = ()) -> Experiment:
    """The experiment that trains on a file of pairs or a data set's folder, with what is left out chosen.

    ConfigError where the path is neither, and for settings that there are not.
    """
    given: dict[str, Any] = settings_of_data(path, overrides=overrides) | ({"corpus": corpus} if corpus else {})
    return filled_in(experiments.from_settings({"name": named_after(path), "data": given}, overrides))


def recommended(outcome: Outcome, store: Store, exp: Experiment) -> Recommendation | None:
    """The best of a run's systems, by its seed and by those that the same settings have run under before."""
    if (mine := outcome.kept.get("standings")) is None:
        return None
    tables, met = [store.builds.table(mine)], {exp.seed}
    made = recipe(exp, store, mine)
    for run in finished_runs(store, exp.name, "standings"):
        other = recorded_experiment(run.settings)
        with suppress(StoreError):  # gc may have deleted a part of an earlier run
            if other and other.seed not in met and recipe(other, store, run.results["standings"]) == made:
                tables.append(store.builds.table(run.results["standings"]))
                met.add(other.seed)
    return recommendation(tables, exp.compare.confidence)


def doubt_of(outcome: Outcome, store: Store, exp: Experiment) -> str | None:
    """The case against using the model that a run kept, and the command that asks a better system."""
    found = read_recommendation(store, exp, outcome.kept)
    return against(found, exp.kept, exp.name) if found else None


def ingest_facts(outcome: Outcome) -> dict[str, Any]:
    """Notes from when the data was read; nothing where it was not."""
    read = outcome.results.get(INGEST.name)
    return dict(read.meta.notes.get("source", {})) if read else {}
