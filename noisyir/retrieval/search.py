"""Search in an index of vectors, FAISS's or our own."""

import json
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from noisyir.retrieval.runs import Hits
from noisyir.retrieval.vectors import Vectors


class Index(Protocol):
    """What searching needs of an index."""

    @property
    def ntotal(self) -> int:
        """How many vectors there are."""

    def search(self, queries: Vectors, top_k: int, /) -> tuple[Vectors, npt.NDArray[np.int64]]:
        """(scores, rows), each (query, top_k), best first; row -1 where there are too few."""


def open_vectors(folder: Path, *, probes: int, breadth: int, device: str, threads: int) -> Index:
    """A saved index, by the engine that made it; probes, breadth: as `open_index`; device: of torch's search."""
    if json.loads((folder / "about.json").read_text()).get("engine") == "torch":
        from noisyir.models.bi_encoder import choose_device
        from noisyir.retrieval.exact import open_exact

        return open_exact(folder, choose_device(device))
    import faiss

    from noisyir.retrieval.index import open_index

    faiss.omp_set_num_threads(threads)
    return open_index(folder, probes=probes, breadth=breadth)


def search(index: Index, queries: Vectors, doc_ids: pa.Array, top_k: int) -> Hits:
    """The documents with the greatest inner product, for queries (query, dim); exact with a Flat index.

    doc_ids: the id of each doc_row.  Equal scores are in the order of doc_row.  Where the cut at `top_k` goes through
    documents of equal score, the index chooses among them, always alike: nothing more is fetched to settle that.
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
