"""Tables of Arrow and Parquet (`.arrow`, `.feather`, `.parquet`), read batch by batch."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from noisyir.base.errors import DataError
from noisyir.data.containers import Check, Row, accept
from noisyir.data.leniency import bad_row
from noisyir.data.limits import LINE
from noisyir.engine.outside_errors import one_line

_FILE, _PARQUET = b"ARROW1", b"PAR1"
_BATCH_ROWS = 4096
_WRITTEN_AT_ONCE = 10_000
BROKEN = (OSError, pa.ArrowException, UnicodeDecodeError)  # raised by reading a damaged table
_NO_TEXT = "UTF8"  # in pyarrow's message on invalid text


@dataclass(frozen=True)
class ArrowFile:
    """A table of rows; `datasets` saves a stream of them."""

    unit: str = "row"

    def columns(self, path: Path) -> tuple[str, ...]:
        """The names in the schema."""
        with _opened(path) as (schema, _):
            return tuple(schema.names)

    def rows(self, path: Path, columns: Sequence[str], check: Check = accept) -> Iterator[Row]:
        """The rows, numbered from 1."""
        with _opened(path) as (_, batches):
            yield from _numbered(path, (batch.select(list(columns)) for batch in batches))

    def write(self, path: Path, rows: Iterator[Mapping[str, Any]]) -> None:
        """A file that can be mapped into memory."""
        table = _as_table(rows)
        with pa.OSFile(str(path), "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
            writer.write_table(table)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    wrapped = DataError.wrapping("data.wrong_container", *BROKEN, kind="Arrow", path=path)
    with wrapped, pa.memory_map(str(path)) as source:
        if source.read(len(_FILE)) == _FILE:
            file = pa.ipc.open_file(source)
            yield file.schema, (file.get_batch(number) for number in range(file.num_record_batches))
        else:
            source.seek(0)
            stream = pa.ipc.open_stream(source)
            yield stream.schema, iter(stream)


@dataclass(frozen=True)
class Parquet:
    """A table of rows."""

    unit: str = "row"

    def columns(self, path: Path) -> tuple[str, ...]:
        """The names in the schema."""
        return tuple(_parquet_opened(path).schema_arrow.names)

    def rows(self, path: Path, columns: Sequence[str], check: Check = accept) -> Iterator[Row]:
        """The rows, numbered from 1."""
        return _numbered(path, _parquet_opened(path).iter_batches(batch_size=_BATCH_ROWS, columns=list(columns)))

    def write(self, path: Path, rows: Iterator[Mapping[str, Any]]) -> None:
        """One table."""
        pq.write_table(_as_table(rows), path.absolute())  # no colon makes it an address


def class_names(path: Path) -> dict[str, tuple[str, ...]]:
    """The names of each column's numbers, where `datasets` saved them as a ClassLabel."""
    with path.open("rb") as file:
        is_parquet = file.read(len(_PARQUET)) == _PARQUET
    with nullcontext((_parquet_opened(path).schema_arrow, ())) if is_parquet else _opened(path) as (schema, _):
        saved = (schema.metadata or {}).get(b"huggingface", b"{}")
    try:
        features = json.loads(saved)["info"]["features"]
    except (ValueError, KeyError, TypeError):
        return {}
    plain = {name: _unlisted(of) for name, of in features.items()}
    return {name: tuple(of["names"]) for name, of in plain.items() if of.get("_type") == "ClassLabel"}


def _unlisted(feature: Any) -> dict[str, Any]:
    """The feature in a list: `datasets` has written [FEATURE], and {feature: FEATURE, _type: Sequence or List}."""
    inner = feature[0] if isinstance(feature, list) and feature else feature
    inner = inner.get("feature", inner) if isinstance(inner, dict) else {}
    return inner if isinstance(inner, dict) else {}


def _parquet_opened(path: Path) -> pq.ParquetFile:
    with DataError.wrapping("data.wrong_container", *BROKEN, kind="Parquet", path=path):
        file = pq.ParquetFile(path.absolute())
    for number in range(file.num_row_groups):
        group = file.metadata.row_group(number)
        largest = max((group.column(place).total_uncompressed_size for place in range(group.num_columns)), default=0)
        if largest > LINE.most * max(1, group.num_rows):
            raise DataError("data.values_too_long", path=path, most=LINE.most, remedy=LINE.remedy)
    return file


def _numbered(path: Path, batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """(number from 1, {column: value}) of every row."""
    number = 0
    try:
        for batch in batches:
            yield from _decoded(batch, path, number + 1)
            number += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        raise DataError("data.damaged_after", unit="row", path=path, number=number, reason=one_line(error)) from error


def _decoded(batch: pa.RecordBatch, path: Path, first: int) -> Iterator[Row]:
    try:
        batch.validate(full=True)  # damaged offsets would be followed out of memory
        rows = batch.to_pylist()
    except (UnicodeDecodeError, pa.ArrowInvalid) as error:
        if isinstance(error, pa.ArrowInvalid) and _NO_TEXT not in str(error):
            raise
        if batch.num_rows == 1:
            bad_row(f"{path} row", first, DataError("data.not_utf8_row", path=path, number=first))
            return
        for row in range(batch.num_rows):  # which of them it is
            yield from _decoded(batch.slice(row, 1), path, first + row)
    else:
        yield from enumerate(rows, first)


def _as_table(rows: Iterator[Mapping[str, Any]]) -> pa.Table:
    """The rows as one table, with types that fit all of them."""
    parts = []
    while some := list(islice(rows, _WRITTEN_AT_ONCE)):
        parts.append(pa.Table.from_pylist(some))
    return pa.concat_tables(parts, promote_options="permissive") if parts else pa.table({})
