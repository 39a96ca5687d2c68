"""Search in an index of vectors, FAISS's or our own, whole or in parts.

Inverted lists (IVF) in pieces: trained once, filled with codes that are made wherever there is time.

Put together in the order of their rows, the codes give the very bytes of an index that one process fills.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import faiss
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from noisyir.retrieval.texts import Hits, Vectors, check_rows, vectors_of

Rows = npt.NDArray[np.int64]

_SPARE = 16  # rows fetched beyond those asked for, to see whether the cut goes through equal scores


class Index(Protocol):
    """The parts of an index that searching needs."""

    @property
    def ntotal(self) -> int:
        """How many vectors there are."""

    def search(self, queries: Vectors, top_k: int, /) -> tuple[Vectors, Rows]:
        """(scores, rows), each (query, top_k), best first; row -1 where there are too few."""


@dataclass(frozen=True)
class Exact:
    """An index that compares a query with every vector; of equal scores it finds those of the smallest rows."""

    inside: Index

    @property
    def ntotal(self) -> int:
        """How many vectors there are."""
        return self.inside.ntotal

    def search(self, queries: Vectors, top_k: int, /) -> tuple[Vectors, Rows]:
        """As `Index.search`, equal scores in the order of their rows, also across the cut."""
        fetched = min(top_k + _SPARE, self.ntotal)
        while True:
            scores, rows = ordered(*self.inside.search(queries, fetched))
            # what was not fetched scores at most as the last that was
            settled = fetched == self.ntotal or (scores[:, -1] < scores[:, top_k - 1]).all()
            if settled:
                return scores[:, :top_k], rows[:, :top_k]
            fetched = min(2 * fetched, self.ntotal)


@dataclass(frozen=True)
class InParts:
    """An exact index in parts, each with the row that is its first."""

    parts: Sequence[tuple[int, Index]]

    @property
    def ntotal(self) -> int:
        """How many vectors there are."""
        return sum(part.ntotal for _, part in self.parts)

    def search(self, queries: Vectors, top_k: int, /) -> tuple[Vectors, Rows]:
        """As that of one index with all vectors."""
        scores, rows = np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64)
        for first, part in self.parts:
            found = part.search(queries, min(top_k, part.ntotal))
            scores, rows = merged((scores, rows), (found[0], found[1] + first), top_k)
        return scores, rows


def ordered(scores: Vectors, rows: Rows) -> tuple[Vectors, Rows]:
    """The same, the best of each query first, equal ones by row."""
    order = np.lexsort((rows, -scores))
    return np.take_along_axis(scores, order, axis=1), np.take_along_axis(rows, order, axis=1)


def merged(some: tuple[Vectors, Rows], others: tuple[Vectors, Rows], top_k: int) -> tuple[Vectors, Rows]:
    """The best `top_k` of both (scores, rows), of equal ones those of the smallest rows."""
    scores, rows = np.concatenate([some[0], others[0]], axis=1), np.concatenate([some[1], others[1]], axis=1)
    scores, rows = ordered(scores, rows)
    return scores[:, :top_k], rows[:, :top_k]


def open_vectors(
    folder: Path, *, probes: int, breadth: int, device: str, threads: int, few_queries: bool = False
) -> Index:
    """A saved index, by the engine that made it; probes, breadth: as `open_index`; device: of torch's search.

    few_queries: torch searches a flat index of FAISS, too: twice as fast for 1 to 32 queries, equal but for rounding.
    """
    about = json.loads((folder / "about.json").read_text())
    if parts := about.get("parts"):
        how: dict[str, Any] = {
            "probes": probes, "breadth": breadth, "device": device, "threads": threads, "few_queries": few_queries,
        }  # fmt: skip
        return InParts([(part["first"], open_vectors(folder / part["folder"], **how)) for part in parts])
    if about.get("engine") == "torch":
        from noisyir.models.bi_encoder import choose_device
        from noisyir.retrieval.exact import open_exact

        return Exact(open_exact(folder, choose_device(device)))
    from noisyir.retrieval.index import open_index

    faiss.omp_set_num_threads(threads)
    index = open_index(folder, probes=probes, breadth=breadth)
    if about["factory"] != "Flat":
        return cast(Index, index)
    return Exact(_by_products(index) if few_queries else index)


def _by_products(index: faiss.Index) -> Index:
    from noisyir.retrieval.exact import ExactIndex

    flat = cast(faiss.IndexFlat, faiss.downcast_index(index))
    vectors = faiss.rev_swig_ptr(flat.get_xb(), flat.ntotal * flat.d).reshape(flat.ntotal, flat.d)
    return ExactIndex(vectors, "cpu", index)


def dimension_of(folder: Path) -> int:
    """How many numbers the vectors of a saved index have."""
    about = json.loads((folder / "about.json").read_text())
    return dimension_of(folder / about["parts"][0]["folder"]) if about.get("parts") else int(about["dim"])


def search(index: Index, queries: Vectors, doc_ids: pa.Array, top_k: int) -> Hits:
    """The documents with the greatest inner product, for queries (query, dim); exact with a Flat index.

    doc_ids: the id of each doc_row.  Equal scores are in the order of doc_row.
    """
    return hits(*best(index, queries, top_k), doc_ids)


def best(index: Index, queries: Vectors, top_k: int) -> tuple[Vectors, Rows]:
    """(scores, rows) of the greatest inner products, best first, equal ones by row; row -1 where there are too few."""
    return ordered(*index.search(queries, min(top_k, index.ntotal)))


def hits(scores: Vectors, rows: Rows, doc_ids: pa.Array) -> Hits:
    """Finds, by the documents' ids."""
    found = rows >= 0  # FAISS fills with -1 where it found too few
    return Hits(found.sum(axis=1), doc_ids.take(pa.array(rows[found])), scores[found])


def ids_by_row(corpus: pa.Table) -> pa.Array:
    """The doc_id of each doc_row, from the corpus' columns of these names."""
    rows: npt.NDArray[Any] = corpus["doc_row"].to_numpy()
    return corpus["doc_id"].combine_chunks().take(pa.array(np.argsort(rows)))


Codes = npt.NDArray[np.uint8]


def can_be_coded(factory: str, dim: int) -> bool:
    """Whether FAISS makes of this string inverted lists, of one code for each vector."""
    try:
        index = faiss.index_factory(dim, factory, faiss.METRIC_INNER_PRODUCT)
    except RuntimeError:
        return False  # what is wrong with it, training says
    inside = faiss.downcast_index(index.index) if isinstance(index, faiss.IndexPreTransform) else index
    lists: Any = inside.invlists if isinstance(inside, faiss.IndexIVF) else None
    return lists is not None and isinstance(faiss.downcast_InvertedLists(lists), faiss.ArrayInvertedLists)


def packed(index: faiss.Index) -> pa.Table:
    """An index as a table of one row."""
    return pa.table({"index": pa.array([faiss.serialize_index(index).tobytes()], pa.large_binary())})


def unpacked(path: Path) -> faiss.Index:
    """The index of such a table."""
    (column,) = pq.read_table(path).combine_chunks().columns
    return faiss.deserialize_index(np.frombuffer(column[0].as_buffer(), np.uint8))


def coded(index: faiss.Index, batches: Iterable[pa.RecordBatch], first: int) -> pa.Table:
    """For each vector, from row `first` on, the number of its list and its code in it, in a trained index."""
    codes = []
    for batch in batches:
        check_rows(batch, first)
        codes.append(index.sa_encode(vectors_of(batch)))
        first += batch.num_rows
    joined = np.concatenate(codes)
    return pa.table({"code": pa.FixedSizeListArray.from_arrays(pa.array(joined.ravel()), joined.shape[1])})


def put_together(index: faiss.Index, parts: Sequence[Path]) -> faiss.Index:
    """The trained index with all codes, given as tables in the order of their rows.

    They are read twice, so that each list is given its memory at once: growing, it would take up to twice as much.
    """
    inside: Any = faiss.extract_index_ivf(index)
    sizes = np.zeros(inside.nlist, np.int64)
    for path in parts:
        sizes += np.bincount(_lists(_codes(path), inside), minlength=inside.nlist)
    for number, size in enumerate(sizes.tolist()):
        inside.invlists.resize(number, size)
        inside.invlists.resize(number, 0)  # it keeps its memory
    for path in parts:
        codes = _codes(path)
        inside.add_sa_codes(codes, np.arange(inside.ntotal, inside.ntotal + len(codes)))
    index.ntotal = inside.ntotal
    return index


def _codes(path: Path) -> Codes:
    (column,) = pq.read_table(path).combine_chunks().columns
    codes: Codes = column.chunk(0).flatten().to_numpy().reshape(len(column), -1)
    return codes


def _lists(codes: Codes, index: Any) -> npt.NDArray[np.int64]:
    """The number of each vector's list: a little-endian number before its code."""
    numbers = np.zeros((len(codes), 8), np.uint8)
    width = index.coarse_code_size()
    numbers[:, :width] = codes[:, :width]
    lists: npt.NDArray[np.int64] = numbers.view("<i8").ravel()
    return lists
