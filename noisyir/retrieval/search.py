"""Search in a FAISS index."""

from typing import Any

import faiss
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from noisyir.retrieval.index import Vectors
from noisyir.retrieval.runs import Hits

# Vectors that a flat index multiplies with a block of queries at once: FAISS's 1024 takes up to twice the time.
faiss.cvar.distance_compute_blas_database_bs = 4096  # type: ignore[attr-defined]


def search(index: faiss.Index, queries: Vectors, doc_ids: pa.Array, top_k: int) -> Hits:
    """The documents with the greatest inner product, for queries (query, dim); exact with a Flat index.

    doc_ids: the id of each doc_row.  Equal scores are in the order of doc_row.  Where the cut at `top_k` goes through
    documents of equal score, FAISS chooses among them, always alike: nothing more is fetched to settle that.
    """
    scores, rows = index.search(queries, min(top_k, index.ntotal))
    order = np.lexsort((rows, -scores))
    scores, rows = np.take_along_axis(scores, order, axis=1), np.take_along_axis(rows, order, axis=1)
    found = rows >= 0  # FAISS fills with -1 where it found too few
    return Hits(found.sum(axis=1), doc_ids.take(pa.array(rows[found])), scores[found])


def ids_by_row(corpus: pa.Table) -> pa.Array:
    """The doc_id of each doc_row, from the corpus' columns of these names."""
    rows: npt.NDArray[Any] = corpus["doc_row"].to_numpy()
    return corpus["doc_id"].combine_chunks().take(pa.array(np.argsort(rows)))
