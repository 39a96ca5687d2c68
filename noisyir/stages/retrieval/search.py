"""search: the dense ranking of each encoded query's best documents."""

from noisyir.costs.retrieval import searching
from noisyir.engine.stage import Job, Stage
from noisyir.retrieval.settings import SearchParams
from noisyir.schemas.data import CORPUS
from noisyir.schemas.retrieval import DENSE_RUN, INDEX, QUERY_VECTORS

_QUERIES_AT_ONCE = 4096  # as many as FAISS multiplies at once


def dense_search(job: Job[SearchParams]) -> None:
    """Search the index for every query vector, batch by batch."""
    from noisyir.retrieval.runs import run_table
    from noisyir.retrieval.search import ids_by_row, open_vectors, search
    from noisyir.retrieval.vectors import vectors_of

    index = open_vectors(
        job.folder("index"), probes=job.params.probes, breadth=job.params.breadth,
        device=job.runtime.device, threads=job.runtime.cpu_threads,
    )  # fmt: skip
    doc_ids = ids_by_row(job.table("corpus"))
    done = 0
    with job.writer("dense_run") as out:
        for batch in job.batches("query_vectors", _QUERIES_AT_ONCE):
            out.append(run_table(batch["query_id"], search(index, vectors_of(batch), doc_ids, job.params.top_k)))
            done += batch.num_rows
            job.progress(done, job.rows("query_vectors"), "queries")


SEARCH = Stage(
    name="search",
    version=2,
    params=SearchParams,
    reads={"index": INDEX.all(), "query_vectors": QUERY_VECTORS.all(), "corpus": CORPUS["doc_id", "doc_row"]},
    writes={"dense_run": DENSE_RUN},
    run=dense_search,
    cost=searching,
)
