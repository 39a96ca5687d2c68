"""Search in an index of vectors, whole or in parts."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import faiss
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from noisyir.retrieval.texts import Hits, Vectors

Rows = npt.NDArray[np.int64]

_SPARE = 16  # rows fetched beyond the cut, to see whether it goes through equal scores


class Index(Protocol):
    """The parts of an index that searching needs."""

    @property
    def ntotal(self) -> int:
        """Number of vectors."""

    def search(self, queries: Vectors, top_k: int, /) -> tuple[Vectors, Rows]:
        """Return (scores, rows), each (query, top_k), best first; row -1 if there are too few."""


@dataclass(frozen=True)
class Exact:
    """An index that compares a query with every vector; of equal scores it finds the smallest rows."""

    inside: Index

    @property
    def ntotal(self) -> int:
        """Number of vectors."""
        return self.inside.ntotal

    def search(self, queries: Vectors, top_k: int, /) -> tuple[Vectors, Rows]:
        """Like `Index.search`, with equal scores in the order of their rows, also across the cut."""
        fetched = min(top_k + _SPARE, self.ntotal)
        while True:
            scores, rows = ordered(*self.inside.search(queries, fetched))
            # rows that were not fetched score at most as the last one that was
            settled = fetched == self.ntotal or (scores[:, -1] < scores[:, top_k - 1]).all()
            if settled:
                return scores[:, :top_k], rows[:, :top_k]
            fetched = min(2 * fetched, self.ntotal)


@dataclass(frozen=True)
class InParts:
    """An exact index in parts, each with its first row."""

    parts: Sequence[tuple[int, Index]]

    @property
    def ntotal(self) -> int:
        """Number of vectors."""
        return sum(part.ntotal for _, part in self.parts)

    def search(self, queries: Vectors, top_k: int, /) -> tuple[Vectors, Rows]:
        """Search as one index of all vectors would."""
        scores, rows = np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64)
        for first, part in self.parts:
            found = part.search(queries, min(top_k, part.ntotal))
            scores, rows = merged((scores, rows), (found[0], found[1] + first), top_k)
        return scores, rows


def ordered(scores: Vectors, rows: Rows) -> tuple[Vectors, Rows]:
    """Sort each query's hits by score, equal ones by row."""
    order = np.lexsort((rows, -scores))
    return np.take_along_axis(scores, order, axis=1), np.take_along_axis(rows, order, axis=1)


def merged(some: tuple[Vectors, Rows], others: tuple[Vectors, Rows], top_k: int) -> tuple[Vectors, Rows]:
    """Return the best `top_k` of both (scores, rows), of equal scores the smallest rows."""
    scores, rows = np.concatenate([some[0], others[0]], axis=1), np.concatenate([some[1], others[1]], axis=1)
    scores, rows = ordered(scores, rows)
    return scores[:, :top_k], rows[:, :top_k]


def open_vectors(
    folder: Path, *, probes: int, breadth: int, device: str, threads: int, few_queries: bool = False
) -> Index:
    """Open a saved index; `probes`, `breadth` as in `open_index`.

    On a GPU, or for `few_queries`, torch searches a flat index, as FAISS does up to rounding.  For 1 to 32 queries
    on a CPU it takes half the time.
    """
    about = json.loads((folder / "about.json").read_text())
    if parts := about.get("parts"):
        options: dict[str, Any] = {
            "probes": probes, "breadth": breadth, "device": device, "threads": threads, "few_queries": few_queries,
        }  # fmt: skip
        return InParts([(part["first"], open_vectors(folder / part["folder"], **options)) for part in parts])
    from noisyir.retrieval.index import open_index

    faiss.omp_set_num_threads(threads)
    index = open_index(folder, probes=probes, breadth=breadth)
    if about["factory"] != "Flat":
        return cast(Index, index)
    from noisyir.models.bi_encoder import choose_device

    place = choose_device(device)
    return Exact(_by_products(index, place) if few_queries or place != "cpu" else index)


def _by_products(index: faiss.Index, device: str) -> Index:
    from noisyir.retrieval.exact import ExactIndex

    flat = cast(faiss.IndexFlat, faiss.downcast_index(index))
    vectors = faiss.rev_swig_ptr(flat.get_xb(), flat.ntotal * flat.d).reshape(flat.ntotal, flat.d)
    return ExactIndex(vectors, device, index)


def dimension_of(folder: Path) -> int:
    """Return the dimension of a saved index's vectors."""
    about = json.loads((folder / "about.json").read_text())
    return dimension_of(folder / about["parts"][0]["folder"]) if about.get("parts") else int(about["dim"])


def search(index: Index, queries: Vectors, doc_ids: pa.Array, top_k: int) -> Hits:
    """Find the documents with the greatest inner products of queries (query, dim); exact with a Flat index.

    `doc_ids` has the id of each doc_row; equal scores are in the order of doc_row.
    """
    return hits(*best(index, queries, top_k), doc_ids)


def best(index: Index, queries: Vectors, top_k: int) -> tuple[Vectors, Rows]:
    """Return (scores, rows) of the greatest inner products, equal ones by row; row -1 if there are too few."""
    return ordered(*index.search(queries, min(top_k, index.ntotal)))


def hits(scores: Vectors, rows: Rows, doc_ids: pa.Array) -> Hits:
    """Look up the documents' ids of rows."""
    found = rows >= 0  # FAISS fills up with -1
    return Hits(found.sum(axis=1), doc_ids.take(pa.array(rows[found])), scores[found])


def ids_by_row(corpus: pa.Table) -> pa.Array:
    """Return the doc_id of each doc_row."""
    rows: npt.NDArray[Any] = corpus["doc_row"].to_numpy()
    return corpus["doc_id"].combine_chunks().take(pa.array(np.argsort(rows)))
