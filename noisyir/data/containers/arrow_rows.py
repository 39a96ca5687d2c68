"""Rows out of Arrow's batches, and batches out of rows.  Reads and writes no file itself."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from noisyir.base.errors import DataError
from noisyir.data.containers import Row
from noisyir.data.leniency import bad_row
from noisyir.engine.outside_errors import one_line

_WRITTEN_AT_ONCE = 10_000
_NO_TEXT = "UTF8"  # in what pyarrow says of a text that is none


def numbered(path: Path, batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """(number from 1, {column: value}) of every row.  DataError when the file is damaged."""
    number = 0
    try:
        for batch in batches:
            yield from _decoded(batch, path, number + 1)
            number += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        raise DataError("data.damaged_after_row_get", path=path, number=number, one_line=one_line(error)) from error


def _decoded(batch: pa.RecordBatch, path: Path, first: int) -> Iterator[Row]:
    try:
        batch.validate(full=True)  # damaged offsets would be followed out of memory
        rows = batch.to_pylist()
    except (UnicodeDecodeError, pa.ArrowInvalid) as error:
        if isinstance(error, pa.ArrowInvalid) and _NO_TEXT not in str(error):
            raise
        if batch.num_rows == 1:
            bad_row(f"{path} row", first, DataError("data.row_not_utf_convert", path=path, first=first))
            return
        for row in range(batch.num_rows):  # which of them it is
            yield from _decoded(batch.slice(row, 1), path, first + row)
    else:
        yield from enumerate(rows, first)


def as_table(rows: Iterator[Mapping[str, Any]]) -> pa.Table:
    """The rows as one table, of types that fit all of them."""
    parts = []
    while some := list(islice(rows, _WRITTEN_AT_ONCE)):
        parts.append(pa.Table.from_pylist(some))
    return pa.concat_tables(parts, promote_options="permissive") if parts else pa.table({})
