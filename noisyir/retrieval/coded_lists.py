"""Inverted lists (IVF) in pieces: trained once, filled with codes that are made wherever there is time.

Put together in the order of their rows, the codes give the very bytes of an index that one process fills.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from noisyir.retrieval.vectors import check_rows, vectors_of

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
