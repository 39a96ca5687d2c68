"""Exact search by torch on any device: the vectors in one file, and matrix products; needs no FAISS."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

from noisyir.retrieval.texts import Vectors, check_rows, vectors_of

_FILE, _ABOUT = "vectors.npy", "about.json"
_ROWS_AT_ONCE = 32768  # documents scored at once


@dataclass(frozen=True)
class ExactIndex:
    """Vectors (row, dim), searched whole on `device`; a vector's id is its doc_row.

    `owner` keeps the vectors' memory alive if they do not.
    """

    vectors: Vectors
    device: str
    owner: object = None

    @property
    def ntotal(self) -> int:
        """Number of vectors."""
        return len(self.vectors)

    def search(self, queries: Vectors, top_k: int) -> tuple[Vectors, npt.NDArray[np.int64]]:
        """Return (scores, rows), each (query, top_k), of the greatest inner products; `top_k` is at most `ntotal`."""
        copied = torch.tensor(queries, device=self.device)  # a copy, because Arrow's arrays are read-only
        scores = torch.empty(len(queries), 0, device=self.device)
        rows = torch.empty(len(queries), 0, dtype=torch.int64, device=self.device)
        for first in range(0, self.ntotal, _ROWS_AT_ONCE):
            block = torch.from_numpy(np.asarray(self.vectors[first : first + _ROWS_AT_ONCE])).to(self.device)
            found = copied @ block.T
            best, place = found.topk(min(top_k, found.shape[1]), dim=1)
            scores, rows = torch.cat([scores, best], dim=1), torch.cat([rows, place + first], dim=1)
            scores, place = scores.topk(min(top_k, scores.shape[1]), dim=1)
            rows = rows.gather(1, place)
        return scores.cpu().numpy(), rows.cpu().numpy()


def build_exact(batches: Iterable[pa.RecordBatch], rows: int, folder: Path, earlier: Path | None = None) -> None:
    """Write `rows` vectors from batches (doc_row, vector); equal vectors give equal bytes.

    Vectors of the saved index `earlier` come first, and the batches continue after them.
    """
    before = np.load(earlier / _FILE, mmap_mode="r", allow_pickle=False) if earlier else None
    vectors: npt.NDArray[np.float32] | None = None if before is None else _file(folder, rows, before.shape[1])
    first = 0
    if vectors is not None and before is not None:
        first = len(before)
        vectors[:first] = before
    for batch in batches:
        check_rows(batch, first)
        some = vectors_of(batch)
        vectors = _file(folder, rows, some.shape[1]) if vectors is None else vectors
        vectors[first : first + len(some)] = some
        first += len(some)
    assert isinstance(vectors, np.memmap) and first == rows, "a collection has at least one document"
    vectors.flush()
    about = {"dim": vectors.shape[1], "engine": "torch", "metric": "inner_product", "rows": rows}
    (folder / _ABOUT).write_text(json.dumps(about))


def _file(folder: Path, rows: int, dim: int) -> npt.NDArray[np.float32]:
    file: npt.NDArray[np.float32] = np.lib.format.open_memmap(
        folder / _FILE, mode="w+", dtype=np.float32, shape=(rows, dim)
    )
    return file


def open_exact(folder: Path, device: str) -> ExactIndex:
    """Open a saved index by a copy-on-write map, because torch wants writable arrays."""
    return ExactIndex(np.load(folder / _FILE, mmap_mode="c", allow_pickle=False), device)
