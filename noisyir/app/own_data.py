"""From a file of one's own to an experiment: the settings that it takes, and what to doubt of its result."""

from collections.abc import Sequence
from typing import Any

from noisyir import experiments
from noisyir.app.label_audit import named_after, settings_of_data
from noisyir.app.runs import Outcome
from noisyir.engine.provenance import lineage
from noisyir.engine.store import Store
from noisyir.pipelines.experiment import Experiment
from noisyir.pipelines.left_out import filled_in
from noisyir.report.detection import doubts
from noisyir.schemas.training import MODEL
from noisyir.stages.data.ingest import INGEST
from noisyir.stages.training.init_model import INIT_MODEL


def experiment_for(path: str, *, corpus: str | None = None, overrides: Sequence[str] = ()) -> Experiment:
    """The experiment that trains on a file of pairs or a data set's folder, with what is left out chosen.

    ConfigError where the path is neither, and for settings that there are not.
    """
    given: dict[str, Any] = settings_of_data(path) | ({"corpus": corpus} if corpus else {})
    return filled_in(experiments.from_settings({"name": named_after(path), "data": given}, overrides))


def doubts_of(outcome: Outcome, store: Store, system: str) -> list[str]:
    """Reasons to doubt the model that a run kept, a sentence each; system: the run's name for it."""
    if "comparison" not in outcome.kept:
        return []
    rows = store.builds.table(outcome.kept["comparison"]).to_pylist()
    model = outcome.kept.get("model")
    behind = lineage(store, [model]) if model else []
    starts = [meta.ref(MODEL.name).digest for meta in behind if meta.stage == INIT_MODEL.name]
    return doubts(rows, system, unchanged=model is not None and model.digest in starts)


def ingest_facts(outcome: Outcome) -> dict[str, Any]:
    """Notes from when the data was read; nothing where it was not."""
    read = outcome.results.get(INGEST.name)
    return dict(read.meta.notes.get("source", {})) if read else {}
