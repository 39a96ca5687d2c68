"""Inverted lists (IVF) in pieces: trained once, filled with codes that any process can compute.

Joined in the order of their rows, the codes give the bytes of an index that one process fills.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from noisyir.retrieval.texts import check_rows, vectors_of

Codes = npt.NDArray[np.uint8]


def can_be_coded(factory: str, dim: int) -> bool:
    """Whether FAISS's factory string makes inverted lists with one code a vector."""
    try:
        index = faiss.index_factory(dim, factory, faiss.METRIC_INNER_PRODUCT)
    except RuntimeError:
        return False  # training reports the fault
    inside = faiss.downcast_index(index.index) if isinstance(index, faiss.IndexPreTransform) else index
    lists: Any = inside.invlists if isinstance(inside, faiss.IndexIVF) else None
    return lists is not None and isinstance(faiss.downcast_InvertedLists(lists), faiss.ArrayInvertedLists)


def packed(index: faiss.Index) -> pa.Table:
    """Pack an index into a table of one row."""
    return pa.table({"index": pa.array([faiss.serialize_index(index).tobytes()], pa.large_binary())})


def unpacked(path: Path) -> faiss.Index:
    """Unpack the index of such a table."""
    (column,) = pq.read_table(path).combine_chunks().columns
    return faiss.deserialize_index(np.frombuffer(column[0].as_buffer(), np.uint8))


def coded(index: faiss.Index, batches: Iterable[pa.RecordBatch], first: int) -> pa.Table:
    """Compute each vector's list number and code in a trained index, from row `first` on."""
    codes = []
    for batch in batches:
        check_rows(batch, first)
        codes.append(index.sa_encode(vectors_of(batch)))
        first += batch.num_rows
    joined = np.concatenate(codes)
    return pa.table({"code": pa.FixedSizeListArray.from_arrays(pa.array(joined.ravel()), joined.shape[1])})


def put_together(index: faiss.Index, parts: Sequence[Path]) -> faiss.Index:
    """Fill the trained index with all codes, given as tables in the order of their rows.

    Tables are read twice, to allocate each list at once: growing would take up to twice as much memory.
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
    """Return the number of each vector's list, a little-endian number before its code."""
    numbers = np.zeros((len(codes), 8), np.uint8)
    width = index.coarse_code_size()
    numbers[:, :width] = codes[:, :width]
    lists: npt.NDArray[np.int64] = numbers.view("<i8").ravel()
    return lists
