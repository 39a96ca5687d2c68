"""bm25_index, bm25: an inverted index of the corpus, and each query's best documents by BM25."""

from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec

import pyarrow as pa

from noisyir.base.errors import MissingPackageError, install_hint
from noisyir.data.artifacts import CORPUS, QUERIES
from noisyir.engine.stage import Job, Stage
from noisyir.retrieval.artifacts import BM25_RUN, LEXICAL_INDEX
from noisyir.retrieval.settings import Bm25IndexParams, Bm25Params
from noisyir.retrieval.texts import of_splits, run_table, splits_fit

_DOCUMENTS_AT_ONCE = 8192
_HITS_AT_ONCE = 400_000  # bounds Java's heap


def bm25_index(job: Job[Bm25IndexParams]) -> None:
    """Index title, newline and text of every document, as a stream."""
    from noisyir.retrieval.bm25 import build_lexical_index

    indexed = build_lexical_index(job.params.engine, _documents(job), job.new_folder("lexical_index"), job.runtime)
    job.note("documents", {"indexed": indexed, "without_terms": job.rows("corpus") - indexed})


def engine_is_here(params: Bm25IndexParams) -> None:
    """Refuse, with a MissingPackageError, an engine without its package or Java on this machine."""
    from noisyir.retrieval.java import find_java

    package = {"pyserini": "jnius", "bm25s": "bm25s"}[params.engine]
    if find_spec(package) is None:
        raise MissingPackageError(
            "retrieval.no_engine", engine=params.engine, package=package, hint=install_hint("bm25")
        )
    if params.engine == "pyserini":
        find_java()


def _documents(job: Job[Bm25IndexParams]) -> Iterator[pa.RecordBatch]:
    done = 0
    for batch in job.batches("corpus", _DOCUMENTS_AT_ONCE):
        yield batch
        done += batch.num_rows
        job.progress(done, job.rows("corpus"), "documents")


def bm25(job: Job[Bm25Params]) -> None:
    """Search for the queries of the chosen splits, batch by batch."""
    from noisyir.retrieval.bm25 import open_lexical_index

    params = job.params
    queries = of_splits(job.table("queries"), params.splits, "bm25.splits")
    searcher = open_lexical_index(job.folder("lexical_index"), params, job.runtime)
    at_once = max(1, _HITS_AT_ONCE // params.top_k)
    with job.writer("bm25_run") as out:
        for start in range(0, queries.num_rows, at_once):
            some = queries.slice(start, at_once)
            hits = searcher.search(some["text"].to_pylist(), params.top_k)
            out.append(run_table(some["query_id"], hits))
            job.progress(start + some.num_rows, queries.num_rows, "queries")


BM25_INDEX = Stage(
    name="bm25_index",
    version=1,
    params=Bm25IndexParams,
    reads={"corpus": CORPUS["doc_id", "title", "text"]},
    writes={"lexical_index": LEXICAL_INDEX},
    run=bm25_index,
    ready=engine_is_here,
)

BM25 = Stage(
    name="bm25",
    version=1,
    params=Bm25Params,
    reads={"lexical_index": LEXICAL_INDEX.all(), "queries": QUERIES["query_id", "text", "split"]},
    writes={"bm25_run": BM25_RUN},
    run=bm25,
    fits=partial(splits_fit, "bm25.splits"),
)
