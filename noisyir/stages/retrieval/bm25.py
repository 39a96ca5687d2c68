"""bm25: the lexical ranking of each query's best documents."""

from noisyir.costs.retrieval import bm25_searching
from noisyir.engine.stage import Job, Stage
from noisyir.retrieval.settings import Bm25Params
from noisyir.schemas.data import QUERIES
from noisyir.schemas.retrieval import BM25_RUN, LEXICAL_INDEX

_HITS_AT_ONCE = 400_000  # bounds Java's heap


def bm25(job: Job[Bm25Params]) -> None:
    """Search for the queries of the chosen splits, batch by batch."""
    from noisyir.retrieval.bm25 import open_lexical_index
    from noisyir.retrieval.runs import run_table
    from noisyir.retrieval.texts import of_splits

    params = job.params
    queries = of_splits(job.table("queries"), params.splits, "bm25.splits")
    searcher = open_lexical_index(
        job.folder("lexical_index"),
        k1=params.k1,
        b=params.b,
        threads=job.runtime.cpu_threads,
        java_heap=job.runtime.java_heap,
    )
    at_once = max(1, _HITS_AT_ONCE // params.top_k)
    with job.writer("bm25_run") as out:
        for start in range(0, queries.num_rows, at_once):
            some = queries.slice(start, at_once)
            hits = searcher.search(some["text"].to_pylist(), params.top_k)
            out.append(run_table(some["query_id"], hits))
            job.progress(start + some.num_rows, queries.num_rows, "queries")


BM25 = Stage(
    name="bm25",
    version=1,
    params=Bm25Params,
    reads={"lexical_index": LEXICAL_INDEX.all(), "queries": QUERIES["query_id", "text", "split"]},
    writes={"bm25_run": BM25_RUN},
    run=bm25,
    cost=bm25_searching,
)
