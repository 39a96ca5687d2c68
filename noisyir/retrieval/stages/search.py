"""search, best_passages, random_run, run_of_others: runs by vectors, by best passages, at random, and given ones."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from noisyir.base.errors import DataError
from noisyir.data.artifacts import CORPUS, CUT_PASSAGES, QUERIES
from noisyir.data.formats.trec import layout_of_run
from noisyir.data.settings import GivenFileParams
from noisyir.data.stages.ingest import digest_given
from noisyir.data.text_files import utf8_lines
from noisyir.engine.stage import Job, Stage
from noisyir.engine.tables import aligned, listed, with_values
from noisyir.retrieval import artifacts as retrieval
from noisyir.retrieval.artifacts import DENSE_RUN, INDEX, QUERY_VECTORS
from noisyir.retrieval.settings import BestPassagesParams, RandomRunParams, SearchParams
from noisyir.retrieval.texts import Hits, run_table

if TYPE_CHECKING:
    from noisyir.retrieval.texts import Vectors
    from noisyir.retrieval.vector_search import Index, Rows


_QUERIES_AT_ONCE = 4096  # as many as FAISS multiplies at once
_ROWS_AT_ONCE = 1_000_000
_IDS = (("query_id", "queries"), ("doc_id", "corpus"))


class SearchShard(NamedTuple):
    """Batch number `batch` of `queries` queries, and a part of the index: its folder and first row."""

    queries: int
    batch: int
    part: str
    first: int


def dense_search(job: Job[SearchParams]) -> None:
    """Search each part of the index for every batch of queries, and merge the hits."""
    from noisyir.retrieval.index import parts_of
    from noisyir.retrieval.vector_search import hits, ids_by_row, merged

    parts = parts_of(job.folder("index", "about.json").read_text())
    shards = {
        f"hits-{batch:05d}-{part:05d}": SearchShard(_QUERIES_AT_ONCE, batch, *parts[part])
        for batch in range(job.batches_in("query_vectors", _QUERIES_AT_ONCE))
        for part in range(len(parts))
    }
    # a part of an exact index has as many hits for each query
    found = job.spread(search_shards, shards, total=job.rows("query_vectors") * len(parts), unit="queries")
    doc_ids = ids_by_row(job.table("corpus"))
    with job.writer("dense_run") as out:
        for batch in job.batches("query_vectors", _QUERIES_AT_ONCE):
            scores, rows = _arrays(next(found))
            for path in islice(found, len(parts) - 1):
                scores, rows = merged((scores, rows), _arrays(path), job.params.top_k)
            out.append(run_table(batch["query_id"], hits(scores, rows, doc_ids)))


def search_shards(job: Job[SearchParams], shards: Sequence[SearchShard]) -> Iterator[pa.Table]:
    """Yield for some batches and parts a row a query, with the scores and rows of its best documents."""
    from noisyir.retrieval.texts import vectors_of
    from noisyir.retrieval.vector_search import best, open_vectors

    @lru_cache(maxsize=1)  # its file is mapped, one at a time
    def opened(part: str) -> "Index":
        return open_vectors(
            job.folder("index", part), probes=job.params.probes, breadth=job.params.breadth,
            device=job.runtime.device, threads=job.runtime.cpu_threads,
        )  # fmt: skip

    @lru_cache(maxsize=1)  # shards of one batch follow each other
    def vectors(queries: int, batch: int) -> "Vectors":
        return vectors_of(next(job.batches("query_vectors", queries, batch)))

    for shard in shards:
        scores, rows = best(opened(shard.part), vectors(shard.queries, shard.batch), job.params.top_k)
        rows = np.where(rows < 0, rows, rows + shard.first)
        yield pa.table({"score": listed(scores), "doc_row": listed(rows, pa.int64())})


def _arrays(shard: Path) -> "tuple[Vectors, Rows]":
    table = pq.read_table(shard).combine_chunks()
    scores, rows = (np.asarray(pc.list_flatten(table[name])).reshape(len(table), -1) for name in table.column_names)
    return scores, rows


SEARCH = Stage(
    name="search",
    version=3,
    params=SearchParams,
    reads={"index": INDEX.all(), "query_vectors": QUERY_VECTORS.all(), "corpus": CORPUS["doc_id", "doc_row"]},
    writes={"dense_run": DENSE_RUN},
    run=dense_search,
    spreads=True,
)


def best_passages(job: Job[BestPassagesParams]) -> None:
    """Rank documents by their best passages (MaxP: Dai and Callan, SIGIR 2019, section 3)."""
    run, passages = job.table("run"), job.table("passages")
    documents = aligned(run, passages, ["doc_id"])["document"]
    job.write("dense_run", by_document(run, documents, job.params.top_k))


def by_document(run: pa.Table, documents: pa.Array | pa.ChunkedArray, top_k: int) -> pa.Table:
    """Replace passages in a run (query_id, doc_id, rank, score) by their documents, each document once."""
    run = with_values(run, doc_id=documents).sort_by([("query_id", "ascending"), ("rank", "ascending")])
    numbered = run.append_column("row", pa.array(np.arange(run.num_rows)))
    firsts = numbered.group_by(["query_id", "doc_id"], use_threads=False).aggregate([("row", "min")])["row_min"]
    kept = run.take(np.sort(firsts.to_numpy())).combine_chunks()
    query = np.asarray(kept["query_id"].combine_chunks().dictionary_encode().indices)
    starts = np.searchsorted(query, query)  # ids are numbered as they come: ascending
    ranks = np.arange(len(query)) - starts + 1
    return with_values(kept, rank=pa.array(ranks, pa.int32())).filter(pa.array(ranks <= top_k))


BEST_PASSAGES = Stage(
    name="best_passages",
    version=1,
    params=BestPassagesParams,
    reads={"run": DENSE_RUN.all(), "passages": CUT_PASSAGES.all()},
    writes={"dense_run": DENSE_RUN},
    run=best_passages,
)


def random_run(job: Job[RandomRunParams]) -> None:
    """Draw uniformly without replacement; the rank is the place in the draw, the score always 0."""
    documents = _in_order(job.table("corpus")["doc_id"])
    queries = job.table("queries")
    query_ids = _in_order(queries.filter(pc.equal(queries["split"], "train"))["query_id"])
    depth, rng = min(job.params.top_k, len(documents)), job.rng("documents")
    with job.writer("random_run") as out:
        step = max(1, _ROWS_AT_ONCE // depth)
        for start in range(0, len(query_ids), step):
            some = query_ids.slice(start, step)
            drawn = [rng.choice(len(documents), depth, replace=False) for _ in range(len(some))]
            scores = np.zeros(len(some) * depth, np.float32)
            hits = Hits(np.full(len(some), depth), documents.take(np.concatenate(drawn)), scores)
            out.append(run_table(some, hits))
            job.progress(start + len(some), len(query_ids), "queries")


def _in_order(ids: pa.ChunkedArray) -> pa.Array:
    """Sort the ids, so that the draw does not depend on their order."""
    return ids.take(pc.sort_indices(ids)).combine_chunks()


RANDOM_RUN = Stage(
    name="random_run",
    version=1,
    params=RandomRunParams,
    reads={"queries": QUERIES["query_id", "split"], "corpus": CORPUS["doc_id"]},
    writes={"random_run": retrieval.RANDOM_RUN},
    run=random_run,
    seeded=True,
)


def run_of_others(job: Job[GivenFileParams]) -> None:
    """Write a TREC run as trec_eval ranks it: by score in float32, equal ones by document id, descending.

    Raises:
        DataError: If a line is malformed, an id unknown or a score not finite.
    """
    path = Path(job.params.path or "")
    known = {name: {*job.table(table)[name].to_pylist()} for name, table in _IDS}
    found: dict[str, dict[str, float]] = {}
    layout = None
    for number, line in utf8_lines(path):
        if not (fields := line.split()):
            continue
        layout = layout or layout_of_run(fields)
        if layout is None:
            raise DataError("retrieval.not_a_trec_line", path=path, number=number)
        try:
            query_id, doc_id, said, _ = layout(fields)
            score = float(np.float32(said))
        except (IndexError, ValueError) as error:
            raise DataError("retrieval.mixed_trec_lines", path=path, number=number) from error
        for name, given in (("query_id", query_id), ("doc_id", doc_id)):
            if given not in known[name]:
                raise DataError("retrieval.unknown_id_in_line", path=path, number=number, name=name, id=given)
        if not np.isfinite(score):
            raise DataError("retrieval.bad_score", path=path, number=number, score=said)
        found.setdefault(query_id, {}).setdefault(doc_id, score)
    ranked = {query: sorted(hits.items(), key=lambda hit: hit[::-1], reverse=True) for query, hits in found.items()}
    flat = [hit for hits in ranked.values() for hit in hits]
    scores = np.array([score for _, score in flat], np.float32)
    counts, doc_ids = np.array([*map(len, ranked.values())], int), pa.array([doc_id for doc_id, _ in flat], pa.string())
    job.write("dense_run", run_table(pa.array(list(ranked), pa.string()), Hits(counts, doc_ids, scores)))


RUN_OF_OTHERS = Stage(
    name="run_of_others",
    version=2,
    params=GivenFileParams,
    reads={"queries": QUERIES["query_id"], "corpus": CORPUS["doc_id"]},
    writes={"dense_run": DENSE_RUN},
    run=run_of_others,
    raw={"source": digest_given},
)
