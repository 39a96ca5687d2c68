"""Exact search in an index's vectors by torch's matrix products, on any device."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from noisyir.retrieval.texts import Vectors

_ROWS_AT_ONCE = 32768  # documents scored at once


@dataclass(frozen=True)
class ExactIndex:
    """Vectors (row, dim), searched whole on `device`; a vector's id is its doc_row.

    `owner` keeps the vectors' memory alive.
    """

    vectors: Vectors
    device: str
    owner: object

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
