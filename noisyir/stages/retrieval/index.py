"""index: the documents' vectors as an index, FAISS's or our own."""

from typing import TypeVar

from noisyir.costs.retrieval import indexing
from noisyir.engine.stage import Job, Stage
from noisyir.retrieval.settings import IndexParams
from noisyir.schemas import retrieval

VECTORS_AT_ONCE = 16384

P = TypeVar("P", bound=IndexParams)


def build(job: Job[P]) -> None:
    """Build the index that the settings describe, from a stream of vectors."""
    if job.params.engine == "torch":
        from noisyir.retrieval.exact import build_exact

        batches = job.batches("doc_vectors", VECTORS_AT_ONCE)
        return build_exact(batches, job.rows("doc_vectors"), job.new_folder("index"))
    from noisyir.retrieval.index import build_index, save_index

    index = build_index(
        lambda: job.batches("doc_vectors", VECTORS_AT_ONCE),
        job.rows("doc_vectors"),
        job.params.factory,
        train_rows=job.params.train_rows,
        rng=job.rng("training sample"),
        threads=job.runtime.cpu_threads,
        device=job.runtime.device,
    )
    save_index(index, job.params.factory, job.new_folder("index"))


INDEX = Stage(
    name="index",
    version=1,
    params=IndexParams,
    reads={"doc_vectors": retrieval.DOC_VECTORS.all()},
    writes={"index": retrieval.INDEX},
    run=build,
    seeded=True,
    pool="gpu",
    cost=indexing,
)
