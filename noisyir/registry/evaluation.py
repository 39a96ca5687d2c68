"""A run's measurements of the models that it kept."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.settings import Params
from noisyir.engine.meta import Meta, Ref, input_digests, json_digest
from noisyir.engine.provenance import lineage
from noisyir.engine.store import Store
from noisyir.evaluation.recommendation import Recommendation, recommendation, scored_systems
from noisyir.methods.plans.experiment import Experiment

PER_QUERY = "evaluation/per_query.parquet"  # among the files of an MLflow run
VALUES = ("measure", "split", "query_id", "group", "value")
_MEASURED = ("run", "readings")  # inputs of a scoring that are the system's own
_NO_PART = {"name", "description", "seed", "expected", "published", "audit", "compare", "report"}  # of a recipe
_NO_PART |= {"register_if", "hybrid", "as_is"}


@dataclass(frozen=True)
class Evaluation:
    """A run's comparison, and the scoring of each system."""

    rows: list[dict[str, Any]]
    scored: Mapping[str, Ref]

    def own(self, system: str | None) -> list[dict[str, Any]]:
        """One system's rows, each measure and split once."""
        of_system = [row for row in self.rows if row["system"] == system]
        return list({(row["measure"], row["split"]): row for row in of_system}.values())


def read_evaluation(store: Store, comparison: Ref | None) -> Evaluation:
    """The comparison's values, if any."""
    if comparison is None:
        return Evaluation([], {})
    return Evaluation(store.builds.table(comparison).to_pylist(), scored_systems(store, comparison))


def read_recommendation(store: Store, exp: Experiment, results: Mapping[str, Ref]) -> Recommendation | None:
    """The run's recommendation, if any."""
    if "standings" not in results:
        return None
    return recommendation([store.builds.table(results["standings"])], exp.compare.confidence)


def system_of(store: Store, evaluation: Evaluation, model: Ref) -> str | None:
    """The system that was scored with this model, by the fewest builds in between.

    Other systems may depend on it: a ranker judges training data, and a retriever finds a ranker's input.
    """
    steps = {system: _steps_between(store, scored, model) for system, scored in evaluation.scored.items()}
    reached = {system: count for system, count in steps.items() if count is not None}
    return min(reached, key=lambda system: reached[system], default=None)


def _steps_between(store: Store, scored: Ref, model: Ref) -> int | None:
    """The number of builds between a scoring and the model; None if it does not depend on it."""
    layer, seen, count = [scored], set[tuple[str, str]](), 0
    while layer:
        metas = [store.builds.meta(ref) for ref in layer if (ref.key, ref.build) not in seen]
        seen |= {(meta.key, meta.build) for meta in metas}
        layer = [source for meta in metas for _, source in meta.input_refs()]
        if model in layer:
            return count
        count += 1
    return None


def is_scoring(meta: Meta) -> bool:
    """Whether the build holds the measures of a system."""
    return "metrics" in meta.artifacts and not set(_MEASURED).isdisjoint(meta.inputs)


def eval_digest(scored: Meta) -> str:
    """A digest of judgements, queries and scoring."""
    judged_by = {name: value for name, value in input_digests(scored.inputs).items() if name not in _MEASURED}
    return json_digest({"inputs": judged_by, "params": scored.params, "version": scored.version})


def per_query(store: Store, evaluation: Evaluation) -> pa.Table:
    """Every system's values per query."""
    tables = []
    for system, scored in evaluation.scored.items():
        table = store.builds.table(scored, VALUES)
        table = table.filter(pc.is_valid(table["query_id"]))
        tables.append(table.add_column(0, "system", pa.repeat(system, table.num_rows)))
    return pa.concat_tables(tables)


def recipe(exp: Experiment, store: Store, model: Ref) -> str:
    """A digest of all that decides the model but the seed: settings, raw data, and versions of stages."""
    sources = sorted([meta.stage, meta.version, meta.raw] for meta in lineage(store, [model]))
    settings = {name: value for name, value in _settings(exp).items() if name not in _NO_PART}
    unique = [source for number, source in enumerate(sources) if source not in sources[:number]]
    return json_digest({"settings": settings, "sources": unique})


def _settings(value: Any) -> Any:
    """Settings as JSON, without places of raw input."""
    if isinstance(value, Params):
        left_out = set(value.locations())
        return {name: _settings(inner) for name, inner in value if name not in left_out}
    if isinstance(value, Mapping):
        return {str(name): _settings(inner) for name, inner in value.items()}
    return [_settings(inner) for inner in value] if isinstance(value, tuple | list) else value
