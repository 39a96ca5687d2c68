"""Ranking measures of ir-measures on Arrow tables, always per query.

Ties are broken by the rank column, never by scores; see `ranked` for hits with the query's own id.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.errors import ConfigError, did_you_mean
from noisyir.base.settings import Split, with_promotion
from noisyir.engine.meta import Meta, Ref
from noisyir.engine.store import Store
from noisyir.engine.tables import with_values

if TYPE_CHECKING:
    from ir_measures import Measure

Judgements = Mapping[str, Mapping[str, int]]
_BEHIND_A_RUN = ("run", "lexical", "dense", "query_vectors")


def ranked(run: pa.Table, query_ids: Collection[str], *, ignore_same_id: bool = False) -> pa.Table:
    """Return the run's rows of these queries by query and rank, with ranks counted again from 1.

    `ignore_same_id` first drops hits with the query's id: BEIR's rule for queries that are themselves documents.
    """
    keep = pc.is_in(run["query_id"], pa.array(list(query_ids), pa.string()))
    if ignore_same_id:
        keep = pc.and_(keep, pc.not_equal(run["query_id"], run["doc_id"]))
    run = run.filter(keep).sort_by([("query_id", "ascending"), ("rank", "ascending")]).combine_chunks()
    sizes = query_sizes(run)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    ranks = pa.array(np.arange(run.num_rows) - starts + 1, pa.int32())
    return with_values(run, rank=ranks)


def query_sizes(run: pa.Table) -> np.ndarray:
    """Count the rows of each query of a table that is ordered by query."""
    lengths = pc.run_end_encode(run["query_id"].combine_chunks()).run_ends.to_numpy() if run.num_rows else []
    return np.diff(lengths, prepend=0).astype(np.int64)


def ranking(run: pa.Table) -> Iterator[tuple[str, list[str]]]:
    """Yield (query id, its document ids, best first) of a run from `ranked`."""
    sizes = query_sizes(run)
    ends = np.cumsum(sizes)
    query_ids, doc_ids = run["query_id"].take(ends - sizes).to_pylist(), run["doc_id"].to_pylist()
    for query_id, end, size in zip(query_ids, ends, sizes, strict=True):
        yield query_id, doc_ids[end - size : end]


def judged(qrels: pa.Table, query_ids: Collection[str]) -> dict[str, dict[str, int]]:
    """Return judgements of those `query_ids` that have at least one relevant document (relevance >= 1)."""
    wanted: dict[str, dict[str, int]] = {query_id: {} for query_id in query_ids}
    columns = (qrels[name].to_pylist() for name in ("query_id", "doc_id", "relevance"))
    for query_id, doc_id, relevance in zip(*columns, strict=True):
        if query_id in wanted:
            wanted[query_id][doc_id] = relevance
    return {query_id: found for query_id, found in sorted(wanted.items()) if max(found.values(), default=0) >= 1}


def per_query(run: pa.Table, judgements: Judgements, measures: Sequence[str]) -> pa.Table:
    """Return measure, query_id and value for every measure and judged query; 0 if the run lacks the query.

    `run` (query_id, doc_id, rank) is from `ranked`; `judgements` map query id to {document id: relevance}.

    Raises:
        ConfigError: If a measure is unknown or no installed provider computes it.
    """
    import ir_measures

    parsed = {name: parse(name) for name in measures}
    # Providers break ties in different ways: scores that fall with the rank leave none.
    falling = [-float(rank) for rank in range(run.num_rows)]
    rankings = {
        query_id: dict(zip(doc_ids, falling, strict=False))
        for query_id, doc_ids in ranking(run)
        if query_id in judgements
    }
    places = {query_id: place for place, query_id in enumerate(judgements)}
    values = {measure: np.zeros(len(places)) for measure in parsed.values()}
    with ConfigError.wrapping("retrieval.uncomputable_measures", ValueError, measures=", ".join(measures)):
        for found in ir_measures.iter_calc(list(values), judgements, rankings):
            values[found.measure][places[found.query_id]] = found.value
    return pa.table(
        {
            "measure": pa.array(np.repeat(list(parsed), len(places)), pa.string()),
            "query_id": pa.array(list(places) * len(parsed), pa.string()),
            "value": pa.array(np.concatenate([values[measure] for measure in parsed.values()]), pa.float64()),
        }
    )


def searched_for_dev(run: pa.Table, made: Ref, store: Store, query_ids: Collection[str]) -> bool:
    """Return whether a search looked for these dev queries, by the searches' settings if it found nothing.

    Without a record of a search, a run of other queries alone has not looked for them.
    """
    if not run.num_rows or pc.any(pc.is_in(run["query_id"], value_set=pa.array(query_ids, pa.string()))).as_py():
        return True
    splits = [*_splits_behind(store.builds.meta(made), store)]
    return bool(splits) and all("dev" in some for some in splits)


def _splits_behind(meta: Meta, store: Store) -> Iterator[Sequence[str]]:
    """Yield the splits of each search that a run was made of."""
    if "splits" in meta.params:
        yield meta.params["splits"]
        return
    for name, ref in meta.input_refs():
        if name in _BEHIND_A_RUN:
            yield from _splits_behind(store.builds.meta(ref), store)


def query_groups(judgements: Judgements) -> dict[str, str]:
    """Map each query to its most relevant document, of equal ones the one most queries share.

    Questions about one paragraph succeed and fail together; as single draws they would understate chance.
    """
    askers = Counter(doc_id for found in judgements.values() for doc_id, relevance in found.items() if relevance >= 1)
    return {
        query_id: min(found, key=lambda doc_id: (-found[doc_id], -askers[doc_id], doc_id))
        for query_id, found in judgements.items()
    }


def asked_splits(splits: Sequence[Split], queries: pa.Table) -> tuple[Split, ...]:
    """Return the splits to score: these, and promotion's if the data has one."""
    there = queries["split"].unique().to_pylist()
    return tuple(split for split in with_promotion(splits) if split in splits or split in there)


def with_means(values: pa.Table, split: str, groups: Mapping[str, str]) -> pa.Table:
    """Append each measure's mean to the values of a split's queries, as METRICS has them.

    A query that `groups` lacks is its own group.
    """
    means = values.group_by("measure", use_threads=False).aggregate([("value", "mean")])
    no_query = pa.nulls(means.num_rows, pa.string())
    means = pa.table({"measure": means["measure"], "query_id": no_query, "value": means["value_mean"]})
    both = pa.concat_tables([values, means])
    shared = [query_id and groups.get(query_id, query_id) for query_id in both["query_id"].to_pylist()]
    return with_values(both, split=pa.repeat(split, both.num_rows), group=pa.array(shared, pa.string()))


def parse(name: str) -> "Measure":
    """Parse a measure's name in ir-measures' grammar.

    Raises:
        ConfigError: If it is no measure; with a suggestion.
    """
    import ir_measures

    try:
        measure = ir_measures.parse_measure(name)
        measure.validate_params()  # type: ignore[no-untyped-call]
        return measure
    except (NameError, ValueError, AssertionError, KeyError, TypeError) as error:
        known: dict[str, Any] = ir_measures.measures.registry
        base = name.partition("@")[0]
        hint = "" if base in known else did_you_mean(base, sorted(known))
        raise ConfigError("retrieval.unknown_measure", name=name, hint=hint) from error
