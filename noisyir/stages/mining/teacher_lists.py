"""pool_candidates, score_by_retrieval, choose_lists: the documents that a teacher reads, its scores, and its lists."""

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.engine.stage import Job, Stage
from noisyir.engine.tables import aligned, semi_join
from noisyir.errors import ConfigError, DataError
from noisyir.mining.teachers import ListParams, PoolParams, Teacher, average, chosen
from noisyir.schemas.data import CORPUS, PAIRS, QUERIES
from noisyir.schemas.retrieval import BM25_RUN, DOC_VECTORS, LEXICAL_INDEX, QUERY_VECTORS
from noisyir.schemas.training import CANDIDATE_POOL, TEACHER_SCORES
from noisyir.stages.training.inputs import distinct_ids, pairs_are_there

if TYPE_CHECKING:
    from noisyir.mining.candidates import Rows, Scores

_PAIR = ["query_id", "doc_id"]
_ORDER = [(name, "ascending") for name in _PAIR]


def pool_candidates(job: Job[PoolParams]) -> None:
    """The first hits of every run, of training queries with a pair and of dev queries, and the given documents."""
    pairs, queries = job.table("pairs"), job.table("queries")
    given = pairs.filter(pc.equal(pairs["split"], "train")).select(_PAIR)
    dev = queries.filter(pc.equal(queries["split"], "dev"))["query_id"]
    asked = distinct_ids(given["query_id"], dev)
    hits = [run.filter(pc.less_equal(run["rank"], job.params.depth)).select(_PAIR) for run in job.tables("run").values()]
    found = [run.filter(pc.is_in(run["query_id"], value_set=asked)) for run in hits]
    pool = pa.concat_tables([given, *found]).group_by(_PAIR, use_threads=False).aggregate([]).sort_by(_ORDER)
    pool = pool.append_column("split", aligned(pool, queries, ["query_id"])["split"])
    job.write("candidate_pool", pool.append_column("given", pa.array(semi_join(pool, given))))
    job.note("pool", {"queries": len(asked), "documents": len(pool), "given": len(given)})


def score_by_retrieval(job: Job[Teacher]) -> None:
    """Score the pool by BM25, by vectors, or by both."""
    pool = job.table("pool")
    query = numbered(pool["query_id"])
    lexical = _lexical(job, pool, query) if "lexical" in job.params.reads else None
    dense = _dense(job, pool) if "vectors" in job.params.reads else None
    write_scores(job, pool, job.params.combined(lexical, dense, query))


def numbered(ids: pa.ChunkedArray) -> "Rows":
    """A number for each id, in the order in which they come first."""
    return np.asarray(ids.combine_chunks().dictionary_encode().indices, np.int64)


def write_scores(job: Job[Teacher], pool: pa.Table, score: "Scores", fold: "Rows | None" = None) -> None:
    """The teacher's scores of the pool.  DataError where one is not a finite number."""
    if bad := int((~np.isfinite(score)).sum()):
        raise DataError(f"the teacher {job.params.kind} gives {bad:,} of {len(pool):,} documents no finite score")
    folds = np.full(len(pool), -1) if fold is None else fold
    job.write(
        "teacher_scores",
        pool.select(_PAIR)
        .append_column("score", pa.array(score, pa.float32()))
        .append_column("teacher", pa.repeat(pa.scalar(job.params.kind), len(pool)))
        .append_column("fold", pa.array(folds, pa.int32())),
    )


def _lexical(job: Job[Teacher], pool: pa.Table, query: "Rows") -> "Scores":
    """BM25's score of each row; 0 where no term of the query is in the document."""
    from noisyir.retrieval.numpy_bm25 import NumpyBm25

    searcher = NumpyBm25(job.folder("lexical_index") / "bm25s", k1=0.9, b=0.4)
    texts = aligned(pool, job.table("queries"), ["query_id"])["text"]
    document = pc.index_in(pool["doc_id"], value_set=searcher.doc_ids).to_numpy()
    score = np.zeros(len(pool), np.float32)
    starts = np.append(np.unique(query, return_index=True)[1], len(pool))
    for number, start in enumerate(starts[:-1]):
        rows = slice(start, starts[number + 1])
        found = searcher.scores(texts[start].as_py())
        score[rows] = 0.0 if found is None else found[document[rows]]
        job.progress(number + 1, len(starts) - 1, "queries")
    return score


def _dense(job: Job[Teacher], pool: pa.Table) -> "Scores":
    """Inner products of the vectors of each row's query and document."""
    from noisyir.mining.candidates import dot_rows
    from noisyir.stages.mining.candidates import picked_vectors

    asked, named = pool["query_id"].unique(), pool["doc_id"].unique()
    rows = aligned(pa.table({"doc_id": named}), job.table("corpus"), ["doc_id"])["doc_row"].combine_chunks()
    queries, documents = picked_vectors(job, "query_vectors", asked), picked_vectors(job, "doc_vectors", rows)
    places = (pc.index_in(pool[name], value_set=ids).to_numpy() for name, ids in zip(_PAIR, (asked, named), strict=True))
    query, document = places
    return dot_rows(queries, query, documents, document, 256)


def choose_lists(job: Job[ListParams]) -> None:
    """The list of each training query, by the scores of one teacher or by the average of several."""
    pool, tables = job.table("pool"), [table.sort_by(_ORDER) for table in job.tables("scores").values()]
    query = numbered(pool["query_id"])
    columns = [table["score"].to_numpy() for table in tables]
    score = columns[0] if len(columns) == 1 else average(columns, query).astype(np.float32)
    fold = np.max([table["fold"].to_numpy() for table in tables], axis=0)
    name = "+".join(table["teacher"][0].as_py() for table in tables)
    given, rng = np.asarray(pool["given"]), job.rng("lists")
    training = np.flatnonzero(np.asarray(pc.equal(pool["split"], "train")))
    starts = np.append(training[np.unique(query[training], return_index=True)[1]], -1)
    rows = []
    for number in np.unique(query[training]):
        some = np.arange(*np.searchsorted(query, [number, number + 1]))
        rows.append(some[chosen(score[some], given[some], job.params, rng)])
    kept = np.concatenate(rows)
    job.write(
        "teacher_scores",
        pool.select(_PAIR)
        .append_column("score", pa.array(score))
        .append_column("teacher", pa.repeat(pa.scalar(name), len(pool)))
        .append_column("fold", pa.array(fold, pa.int32()))
        .take(kept),
    )


POOL_CANDIDATES = Stage(
    name="pool_candidates",
    version=1,
    params=PoolParams,
    reads={
        "run": BM25_RUN["query_id", "doc_id", "rank"].each(),
        "pairs": PAIRS["query_id", "doc_id", "split"],
        "queries": QUERIES["query_id", "split"],
    },
    writes={"candidate_pool": CANDIDATE_POOL},
    run=pool_candidates,
    fits=pairs_are_there,
)
SCORE_BY_RETRIEVAL = Stage(
    name="score_by_retrieval",
    version=1,
    params=Teacher,
    reads={
        "pool": CANDIDATE_POOL.all(),
        "queries": QUERIES["query_id", "text"],
        "corpus": CORPUS["doc_id", "doc_row"],
        "lexical_index": LEXICAL_INDEX.all().or_none(),
        "doc_vectors": DOC_VECTORS.all().or_none(),
        "query_vectors": QUERY_VECTORS.all().or_none(),
    },
    writes={"teacher_scores": TEACHER_SCORES},
    run=score_by_retrieval,
)
CHOOSE_LISTS = Stage(
    name="choose_lists",
    version=1,
    params=ListParams,
    reads={"pool": CANDIDATE_POOL.all(), "scores": TEACHER_SCORES.all().each()},
    writes={"teacher_scores": TEACHER_SCORES},
    run=choose_lists,
    seeded=True,
)
