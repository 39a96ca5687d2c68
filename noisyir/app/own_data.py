"""Experiments on the user's own file: derived settings, and reasons to distrust the result."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from noisyir.app.audit_data import named_after, settings_of_data
from noisyir.app.lookup import finished_runs
from noisyir.app.runs import Outcome
from noisyir.base.errors import StoreError
from noisyir.base.pages.cells import percent
from noisyir.data.passages import LONGEST
from noisyir.data.settings import READ_WHOLE
from noisyir.data.stages.ingest import INGEST
from noisyir.engine.remote.fetched import located
from noisyir.engine.store import Store
from noisyir.evaluation.pages.advice import against
from noisyir.evaluation.recommendation import Recommendation, recommendation
from noisyir.methods import experiments
from noisyir.methods.plans.experiment import Experiment, recorded_experiment
from noisyir.methods.plans.left_out import filled_in
from noisyir.methods.plans.settings import AsIsParams
from noisyir.models.weights import MINILM
from noisyir.registry.evaluation import read_recommendation, recipe

MOST_AS_IS = 5_000  # pairs: minutes of encoding on a CPU
_FIRST, _FEW = 10, 50  # ranks that measures look at, and documents: chance puts a fifth of 50 there
_FEW_QUERIES, _OFTEN = 10, 0.05  # the second of documents: fewer long ones are no reason to cut


def experiment_for(path: str, *, corpus: str | None = None, overrides: Sequence[str] = ()) -> Experiment:
    """Return the experiment that trains on a pairs file or data set folder, with missing settings filled in.

    The packaged transformer is compared as it is, unless `as_is` is set or there are more than MOST_AS_IS pairs.
    """
    given: dict[str, Any] = settings_of_data(path, overrides=overrides) | ({"corpus": corpus} if corpus else {})
    exp = filled_in(experiments.from_settings({"name": named_after(path), "data": given}, overrides))
    if "as_is" in exp.model_fields_set or exp.task.trained or located(exp.data).summary().pairs > MOST_AS_IS:
        return exp
    return exp.model_copy(update={"as_is": {MINILM: AsIsParams()}})


def recommended(outcome: Outcome, store: Store, exp: Experiment) -> Recommendation | None:
    """Return the best system of a run, judged by its seed and by earlier seeds of the same settings."""
    if (mine := outcome.kept.get("standings")) is None:
        return None
    tables, met = [store.builds.table(mine)], {exp.seed}
    made = recipe(exp, store, mine)
    for run in finished_runs(store, exp.name, "standings"):
        other = recorded_experiment(run.settings)
        with suppress(StoreError):  # gc may have deleted parts of an earlier run
            if other and other.seed not in met and recipe(other, store, run.results["standings"]) == made:
                tables.append(store.builds.table(run.results["standings"]))
                met.add(other.seed)
    return recommendation(tables, exp.compare.confidence)


def doubt_of(outcome: Outcome, store: Store, exp: Experiment) -> str | None:
    """Return the case against using the model that a run kept, and the command that queries a better system."""
    found = read_recommendation(store, exp, outcome.kept)
    return against(found, exp.kept, exp.name) if found else None


def too_small(outcome: Outcome, queries: int) -> str | None:
    """Return why a comparison by few documents or queries says little; None for enough of both."""
    read = outcome.results.get(INGEST.name)
    if read is None or (documents := read.meta.artifacts["corpus"].rows or 0) >= _FEW:
        few = f"{queries:,} queries are too few to tell systems apart; add pairs, or hold out more of them"
        return few if queries < _FEW_QUERIES else None
    by_chance = f"any order has {percent(min(1.0, _FIRST / documents))} of the right ones among the first {_FIRST}"
    return f"{documents:,} documents: {by_chance}, so differences say little; add documents that answer no query"


def said_of_data(outcome: Outcome, exp: Experiment) -> dict[str, str]:
    """Return the queries that were held out, and what models leave unread, each by its keyword."""
    unread = said_of_length(outcome) if exp.task.reads_passages else None
    said = {"held out": _ingest_facts(outcome).get("held_out"), "unread": unread}
    return {name: text for name, text in said.items() if text}


def _ingest_facts(outcome: Outcome) -> dict[str, Any]:
    read = outcome.results.get(INGEST.name)
    return dict(read.meta.notes.get("source", {})) if read else {}


def said_of_length(outcome: Outcome) -> str | None:
    """Return what models leave unread if many documents are long, with the setting that cuts these; else None."""
    made = [corpus for one in outcome.results.values() if (corpus := one.meta.artifacts.get("corpus"))]
    long = _ingest_facts(outcome).get("long_documents", 0)
    if len(made) != 1 or long < max(1, _OFTEN * (made[0].rows or 0)):  # of several, one cut or changed documents
        return None
    unread = f"of documents longer than {LONGEST} words ({long:,}) models read the beginnings"
    return f"{unread}; chunk.words={READ_WHOLE} cuts them"
