"""Vectors of a refreshed corpus: earlier ones where the text is as it was, new ones elsewhere, streamed together."""

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from noisyir.errors import DataError

Rows = npt.NDArray[np.int64]


def merged(
    origins: Iterable[pa.RecordBatch], earlier: Iterable[pa.RecordBatch], new: Iterable[pa.RecordBatch]
) -> Iterator[pa.Table]:
    """A table (doc_row, vector) for each batch of `origins` (doc_row, earlier_row), which counts all rows up.

    earlier: (doc_row, vector) of the corpus as it was; earlier rows keep their order, so that both are streams.
    new: (doc_row, vector) of the rows without an earlier one, in their order.
    DataError where a row has no vector.
    """
    before, added = _Ahead(earlier), _Ahead(new)
    for batch in origins:
        is_new: npt.NDArray[np.bool_] = batch["earlier_row"].is_null().to_numpy(zero_copy_only=False)
        old = np.asarray(batch["earlier_row"].drop_null(), np.int64)
        fresh = batch["doc_row"].to_numpy()[is_new].astype(np.int64)
        vectors = pa.concat_arrays([*before.take(old), *added.take(fresh)])
        place = np.empty(len(is_new), np.int64)
        place[~is_new], place[is_new] = np.arange(len(old)), len(old) + np.arange(len(fresh))
        yield pa.table({"doc_row": batch["doc_row"], "vector": vectors.take(pa.array(place))})


class _Ahead:
    """A stream of vectors in the order of doc_row, from which ever later rows are taken."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = iter(batches)
        self._batch: pa.RecordBatch | None = None
        self._rows: Rows = np.empty(0, np.int64)  # of the batch

    def take(self, wanted: Rows) -> Iterator[pa.Array]:
        """The vectors of these rows, in ascending order and behind all that were taken before."""
        while len(wanted):
            if not len(self._rows) or self._rows[-1] < wanted[0]:
                self._advance(int(wanted[0]))
                continue
            assert self._batch is not None
            here = wanted[wanted <= self._rows[-1]]
            place = np.searchsorted(self._rows, here)
            if not np.array_equal(self._rows[place], here):
                raise DataError(f"doc_vectors: one of the documents from row {here[0]} on has no vector")
            yield self._batch["vector"].take(pa.array(place))
            wanted = wanted[len(here) :]

    def _advance(self, wanted: int) -> None:
        batch = next(self._batches, None)
        if batch is None:
            raise DataError(f"doc_vectors: the document of row {wanted} has no vector")
        self._batch, self._rows = batch, batch["doc_row"].to_numpy().astype(np.int64)
