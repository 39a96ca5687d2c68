"""All documents as seen by one model, with exact search."""

from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from noisyir.detection.in_batch import embed_used
from noisyir.models.bi_encoder import BiEncoder
from noisyir.training.batches import Ragged, Rows, TrainingPairs, is_known
from noisyir.training.validation import embed_all

_AT_ONCE = 4096


class EncodedCollection:
    """Vectors of the pairs' queries and of the documents at their row numbers; rows not embedded are zero.

    Attributes:
        same: For each document, the row that represents its text; copies are neither embedded nor found.
    """

    def __init__(self, encoder: BiEncoder, pairs: TrainingPairs, same: Rows, asked: Rows) -> None:
        """Embed queries and documents.

        Args:
            asked: Rows of the queries to embed; may repeat.
        """
        self.rows = np.unique(same)
        self.queries: Float[np.ndarray, "query dim"] = (
            embed_used(encoder, pairs.queries, np.unique(asked), "query").cpu().numpy()
        )
        self.documents: Float[np.ndarray, "document dim"] = np.zeros((len(same), encoder.dim), np.float32)
        self.documents[self.rows] = embed_all(encoder, pairs.passages.take(self.rows), "passage").cpu().numpy()

    @cached_property
    def _index(self) -> Any:
        import faiss

        index = faiss.IndexFlatIP(self.documents.shape[1])
        index.add(self.documents[self.rows])
        return index

    def search(
        self, asked: Float[np.ndarray, "vector dim"], depth: int
    ) -> tuple[Int[np.ndarray, "vector hit"], Float[np.ndarray, "vector hit"]]:
        """Find up to `depth` documents by inner product, best first, and return them with the products."""
        reach = min(depth, len(self.rows))
        found = [self._index.search(asked[start : start + _AT_ONCE], reach) for start in range(0, len(asked), _AT_ONCE)]
        scores, places = (np.concatenate(column) for column in zip(*found, strict=True))
        return self.rows[places], scores

    def similarities(
        self, asked: Float[np.ndarray, "pair dim"], rows: Int[np.ndarray, "pair document"]
    ) -> Float[np.ndarray, "pair document"]:
        """Compute the inner products of each vector with the documents of its row."""
        return np.column_stack([np.einsum("pd,pd->p", asked, self.documents[column]) for column in rows.T])


def unnamed(
    known: Ragged, text: Rows, hits: Int[np.ndarray, "pair hit"], keep: int
) -> tuple[Int[np.ndarray, "pair keep"], Int[np.ndarray, "pair keep"]]:
    """Select the first hits that no pair of the query's text names, and their columns; -1 if there are fewer.

    A hit of -1 is no hit. At most as many are kept as there are hits.
    """
    barred: Bool[np.ndarray, "pair hit"] = hits < 0
    barred |= is_known(known, np.repeat(text, hits.shape[1]), hits.ravel()).reshape(hits.shape)
    order = np.argsort(barred, axis=1, kind="stable")[:, :keep]
    return np.where(np.take_along_axis(barred, order, axis=1), -1, np.take_along_axis(hits, order, axis=1)), order
