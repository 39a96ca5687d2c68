"""bm25_index: an inverted index of the corpus."""

from collections.abc import Iterator
from importlib.util import find_spec

import pyarrow as pa

from noisyir.costs.retrieval import bm25_indexing
from noisyir.engine.stage import Job, Stage
from noisyir.errors import MissingPackageError
from noisyir.retrieval.settings import Bm25IndexParams
from noisyir.schemas.data import CORPUS
from noisyir.schemas.retrieval import LEXICAL_INDEX

_DOCUMENTS_AT_ONCE = 8192


def bm25_index(job: Job[Bm25IndexParams]) -> None:
    """Index title, newline and text of every document, as a stream."""
    from noisyir.retrieval.bm25 import build_lexical_index

    indexed = build_lexical_index(
        job.params.engine,
        _documents(job),
        job.new_folder("lexical_index"),
        threads=job.runtime.cpu_threads,
        java_heap=job.runtime.java_heap,
    )
    job.note("documents", {"indexed": indexed, "without_terms": job.rows("corpus") - indexed})


def engine_is_here(params: Bm25IndexParams) -> None:
    """MissingPackageError when the engine's package, or a Java new enough for it, is not on this machine."""
    from noisyir.retrieval.java import find_java

    package = {"pyserini": "jnius", "bm25s": "bm25s"}[params.engine]
    if find_spec(package) is None:
        raise MissingPackageError(
            f"bm25_index.engine={params.engine} needs the package {package}: pip install 'noisyir[bm25]'"
        )
    if params.engine == "pyserini":
        find_java()


def _documents(job: Job[Bm25IndexParams]) -> Iterator[pa.RecordBatch]:
    done = 0
    for batch in job.batches("corpus", _DOCUMENTS_AT_ONCE):
        yield batch
        done += batch.num_rows
        job.progress(done, job.rows("corpus"), "documents")


BM25_INDEX = Stage(
    name="bm25_index",
    version=1,
    params=Bm25IndexParams,
    reads={"corpus": CORPUS["doc_id", "title", "text"]},
    writes={"lexical_index": LEXICAL_INDEX},
    run=bm25_index,
    ready=engine_is_here,
    cost=bm25_indexing,
)
