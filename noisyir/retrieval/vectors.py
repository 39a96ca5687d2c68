"""Vectors as tables hold them, as arrays."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from noisyir.errors import DataError

Vectors = npt.NDArray[np.float32]


def vectors_of(batch: pa.RecordBatch) -> Vectors:
    """The `vector` column as float32 (row, dim)."""
    column = batch["vector"]
    vectors: Vectors = column.flatten().to_numpy().astype(np.float32, copy=False).reshape(-1, column.type.list_size)
    return vectors


def check_rows(batch: pa.RecordBatch, first: int) -> None:
    """DataError unless the batch's doc_row count up from `first`."""
    rows = batch["doc_row"].to_numpy()
    if not np.array_equal(rows, np.arange(first, first + len(rows))):
        raise DataError(f"doc_vectors: doc_row must count up from 0 without gaps; the row after {first} breaks that")
