"""Incremental refresh of a trained model's corpus: only new documents are encoded and indexed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError

from noisyir.app.lookup import Indexed, experiment_that_kept, find_model, newest_index, terms_of
from noisyir.app.runs import Execution, Outcome, run
from noisyir.app.systems import BEST, find_system, first_searchable
from noisyir.base.errors import ConfigError, DataError, StoreError
from noisyir.base.settings import Params
from noisyir.data.stages.chunk import CHUNK
from noisyir.data.stages.join_corpus import JOIN_CORPUS
from noisyir.engine.meta import Meta
from noisyir.engine.plan import Choice, Plan
from noisyir.engine.provenance import lineage
from noisyir.engine.stage import Stage
from noisyir.engine.store import Store
from noisyir.methods.plans.settings import RefreshCorpusParams
from noisyir.retrieval.settings import Bm25IndexParams, EncodeParams, ExtendIndexParams, IndexParams
from noisyir.retrieval.stages.bm25 import BM25_INDEX
from noisyir.retrieval.stages.encode import ENCODE, ENCODE_NEW
from noisyir.retrieval.stages.index import EXTEND_INDEX, INDEX

P = TypeVar("P", bound=Params)


@dataclass(frozen=True)
class Refreshed:
    """A refresh run with the stages' counts of documents, vectors and index entries."""

    outcome: Outcome
    searched: str | None  # a system that searches the refreshed index and is not refused, if there is one
    best: str  # the recommended system of the model's experiment

    @property
    def counts(self) -> dict[str, dict[str, Any]]:
        """Documents added, replaced, removed and kept; texts encoded and reused; vectors added and kept."""
        notes = {name: result.meta.notes for name, result in self.outcome.results.items()}
        return {
            "documents": notes["join_corpus"]["documents"],
            "vectors": notes["encode_new"]["texts"],
            "index": notes["extend_index"]["index"],
        }

    def lines(self) -> dict[str, str]:
        """The counts as text, by subject."""
        documents, vectors, index = self.counts.values()
        parts = [f"{documents[name]:,} {name}" for name in ("added", "replaced", "removed", "kept")]
        if documents["unknown_removals"]:
            parts.append(f"{documents['unknown_removals']:,} of --remove not in the corpus")
        added = f"{index['added']:,} vectors added to {index['kept']:,}"
        return {
            "documents": ", ".join(parts),
            "vectors": f"{vectors['encoded']:,} encoded, {vectors['reused']:,} reused",
            "index": f"rebuilt: {index['built_anew']}" if index["built_anew"] else added,
        }


def refresh_corpus(settings: RefreshCorpusParams, execution: Execution) -> Refreshed:
    """Update the newest index of a model.

    Adding the same documents to the same base again is cached and changes nothing. Concurrent refreshes of a model are
    serialised within the reach of the store's locks, so the second one builds on the first.
    """
    store = execution.store
    system = find_system(store, settings.model)
    model = system.indexed or find_model(store, settings.model)
    experiment = experiment_that_kept(store, system.kept or model) or model.key[:12]
    with store.locks.held("refresh", model.key):
        plan = plan_of(settings, store, newest_index(store, model, corpus=system.corpus))
        outcome = run(plan, Choice(), execution, name=f"refresh-{experiment}", settings=settings)
    best = f"{experiment}:{BEST}"
    return Refreshed(outcome, first_searchable(store, [settings.model, best], model), best)


def plan_of(settings: RefreshCorpusParams, store: Store, newest: Indexed) -> Plan:
    """Plan joining, encoding and indexing, with the settings of the earlier vectors and index."""
    raw = JOIN_CORPUS.digests(settings.data)
    earlier = _before(store, newest, raw)
    if any(meta.stage == CHUNK.name for meta in lineage(store, [earlier.corpus], gone=lambda _: None)):
        raise ConfigError("app.refresh_of_passages")
    encode = _settings_of(earlier.vectors, EncodeParams, ENCODE, ENCODE_NEW)
    index = _settings_of(earlier.index, IndexParams, INDEX, EXTEND_INDEX)
    plan = Plan(earlier.index.seed or 0)
    joined = plan.add(JOIN_CORPUS, settings.data, corpus=earlier.corpus)
    if not raw.items() <= plan.steps[-1].inputs.items():
        raise DataError("app.documents_changed")
    vectors = plan.add(ENCODE_NEW, encode, model=earlier.model, earlier=earlier.vectors.ref("doc_vectors"), **joined)
    extended = plan.add(
        EXTEND_INDEX,
        ExtendIndexParams(**index.model_dump(), rebuild=settings.rebuild),
        earlier=earlier.index.ref("index"),
        row_origins=joined["row_origins"],
        **vectors,
    )
    plan.keep(index=extended["index"], corpus=joined["corpus"])
    if (terms := terms_of(store.builds.all(), earlier.corpus)) is not None:  # BM25's index cannot grow
        how = _settings_of(terms, Bm25IndexParams, BM25_INDEX)
        plan.keep(lexical_index=plan.add(BM25_INDEX, how, corpus=joined["corpus"])["lexical_index"])
    return plan


def _before(store: Store, newest: Indexed, raw: Mapping[str, str]) -> Indexed:
    """Return the build to refresh: the newest, or the one preceding these very documents if nothing is new."""
    joined = store.builds.meta(newest.corpus)
    if (newest.index.stage, joined.stage, joined.raw) != (EXTEND_INDEX.name, JOIN_CORPUS.name, raw):
        return newest
    index, vectors = (dict(meta.input_refs())["earlier"] for meta in (newest.index, newest.vectors))
    return Indexed(store.builds.meta(index), store.builds.meta(vectors))


def _settings_of(meta: Meta, params: type[P], *stages: Stage) -> P:
    """Return the settings of the build to extend.

    Raises:
        StoreError: If its version is no longer supported.
    """
    known = {stage.name: stage.version for stage in stages}
    try:
        if known.get(meta.stage) == meta.version:
            settings = {name: value for name, value in meta.params.items() if name in params.model_fields}
            return params.model_validate(settings)
    except ValidationError:
        pass
    raise StoreError("app.build_of_other_version", stage=meta.stage, key=meta.key[:12])
