"""best_passages: a ranking of passages as one of their documents, each at the place of its best passage."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.engine.stage import Job, Stage
from noisyir.retrieval.settings import BestPassagesParams
from noisyir.schemas.data import CUT_PASSAGES
from noisyir.schemas.retrieval import DENSE_RUN


def best_passages(job: Job[BestPassagesParams]) -> None:
    """Write the documents in the order of their best passages (MaxP: Dai and Callan, SIGIR 2019, section 3)."""
    run, passages = job.table("run"), job.table("passages")
    row = pc.index_in(run["doc_id"], value_set=passages["doc_id"].combine_chunks())
    job.write("dense_run", by_document(run, passages["document"].combine_chunks().take(row), job.params.top_k))


def by_document(run: pa.Table, documents: pa.Array | pa.ChunkedArray, top_k: int) -> pa.Table:
    """The run (query_id, doc_id, rank, score) of passages, which are of these documents, with each document once."""
    run = run.set_column(run.column_names.index("doc_id"), "doc_id", documents)
    run = run.sort_by([("query_id", "ascending"), ("rank", "ascending")])
    numbered = run.append_column("row", pa.array(np.arange(run.num_rows)))
    firsts = numbered.group_by(["query_id", "doc_id"], use_threads=False).aggregate([("row", "min")])["row_min"]
    kept = run.take(np.sort(firsts.to_numpy())).combine_chunks()
    query = np.asarray(kept["query_id"].combine_chunks().dictionary_encode().indices)
    starts = np.searchsorted(query, query)  # ids are numbered as they come: ascending
    ranks = np.arange(len(query)) - starts + 1
    kept = kept.set_column(kept.column_names.index("rank"), "rank", pa.array(ranks, pa.int32()))
    return kept.filter(pa.array(ranks <= top_k))


BEST_PASSAGES = Stage(
    name="best_passages",
    version=1,
    params=BestPassagesParams,
    reads={"run": DENSE_RUN.all(), "passages": CUT_PASSAGES.all()},
    writes={"dense_run": DENSE_RUN},
    run=best_passages,
)
