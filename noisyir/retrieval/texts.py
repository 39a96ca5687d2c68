"""Which queries a stage works on, and what of a document BM25 reads."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from noisyir.errors import DataError


def of_splits(queries: pa.Table, splits: Sequence[str], setting: str) -> pa.Table:
    """The queries of these splits, in order.  DataError, naming the `setting` to change, when there are none."""
    chosen = queries.filter(pc.is_in(queries["split"], value_set=pa.array(splits, pa.string())))
    if chosen.num_rows == 0:
        there = ", ".join(sorted(queries["split"].unique().to_pylist()))
        raise DataError(f"no query is in {setting}={list(splits)}; the data has queries in: {there or 'no split'}")
    return chosen


def contents(documents: pa.RecordBatch) -> list[str]:
    """What is indexed of each document: title, newline, text."""
    titles, texts = documents["title"].to_pylist(), documents["text"].to_pylist()
    return [f"{title}\n{text}" for title, text in zip(titles, texts, strict=True)]
