"""Rows of a file rewritten in its own format: unchanged rows keep their bytes."""

import gzip
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from noisyir.data.containers.csv_file import csv_record, dialect_of, reader_of, tsv_record
from noisyir.data.row_files import RowFile
from noisyir.data.text_files import parse_object

Row: TypeAlias = dict[str, Any]
Edit: TypeAlias = Callable[[int, Row], Row | None]  # of a row and its number, as RowFile counts; None leaves it out

_BATCH_ROWS = 65536  # and so the rows of a row group


class NewColumn(NamedTuple):
    """A column that every row gets, last or in place of its namesake; `value` maps a row's number to its cell."""

    name: str
    value: Callable[[int], float | list[float]]


def rewrite(file: RowFile, target: Path, touched: Collection[int], edit: Edit, column: NewColumn | None = None) -> None:
    """Write `file` to `target`; only the rows numbered `touched` are edited, and all get the column."""
    if file.suffix == ".parquet":
        _rewrite_parquet(file, target, touched, edit, column)
        return
    records = _json_records(file) if file.suffix == ".jsonl" else _separated_records(file)
    with _opened(target, file.path) as out:
        for record in records:
            out.write(_written(record, touched, edit, column))


def _written(record: "_Json | _Separated", touched: Collection[int], edit: Edit, column: NewColumn | None) -> bytes:
    """The record's new bytes, none if it is left out."""
    raw = record.raw if record.raw.endswith(b"\n") else record.raw + b"\n"
    if record.is_blank or (record.number not in touched and column is None):
        return raw
    if record.number not in touched and column is not None and not record.has(column.name):
        return record.followed_by(raw, column)
    row = record.read() if record.number not in touched else edit(record.number, record.read())
    if row is None:
        return b""
    if column is not None:
        row[column.name] = record.added(column)
    return record.written(row).encode()


class _Json(NamedTuple):
    """A line of jsonl."""

    number: int
    raw: bytes
    place: str

    @property
    def is_blank(self) -> bool:
        return not self.raw.strip()

    def has(self, name: str) -> bool:
        return json.dumps(name).encode() in self.raw

    def added(self, column: NewColumn) -> float | list[float]:
        return column.value(self.number)

    def followed_by(self, raw: bytes, column: NewColumn) -> bytes:
        """The object with one more field at its end."""
        head, brace, end = raw.rpartition(b"}")
        return head + f", {json.dumps(column.name)}: {json.dumps(self.added(column))}".encode() + brace + end

    def read(self) -> Row:
        return parse_object(self.raw.decode("utf-8-sig"), f"{self.place} {self.number}")

    def written(self, row: Row) -> str:
        return json.dumps(row, ensure_ascii=False) + "\n"


class _Separated(NamedTuple):
    """A record of csv or tsv with all its lines, and its writer."""

    number: int
    raw: bytes
    columns: Sequence[str]
    cells: Sequence[str]
    joined: Callable[[Iterable[str]], str]
    separator: str
    is_header: bool

    @property
    def is_blank(self) -> bool:
        return not self.cells

    def has(self, name: str) -> bool:
        return name in self.columns

    def added(self, column: NewColumn) -> str:
        """A cell; the column's name in the header."""
        return column.name if self.is_header else str(column.value(self.number))

    def followed_by(self, raw: bytes, column: NewColumn) -> bytes:
        """The record with one more cell at its end."""
        line = raw.rstrip(b"\r\n")
        return line + f"{self.separator}{self.added(column)}".encode() + raw[len(line) :]

    def read(self) -> Row:
        return dict(zip(self.columns, self.cells, strict=True))

    def written(self, row: Row) -> str:
        return self.joined(row.values()) + ("\r\n" if self.raw.endswith(b"\r\n") else "\n")


def _json_records(file: RowFile) -> Iterator[_Json]:
    return (_Json(number, raw, file.place) for number, raw in _raw_lines(file.path))


def _separated_records(file: RowFile) -> Iterator[_Separated]:
    """The header, blank lines and every record; the lines are split as RowFile splits them."""
    seen: list[bytes] = []

    def lines() -> Iterator[str]:
        for number, raw in _raw_lines(file.path):
            seen.append(raw)
            yield raw.decode("utf-8-sig" if number == 1 else "utf-8")

    separator, quoted = dialect_of(file.path, file.suffix)
    joined: Callable[[Iterable[str]], str] = partial(csv_record, delimiter=separator) if quoted else tsv_record
    line, header = 1, True
    for cells in reader_of(lines(), separator, quoted=quoted):
        yield _Separated(line, b"".join(seen), file.columns, cells, joined, separator, header and bool(cells))
        header = header and not cells
        line += len(seen)
        seen.clear()


def _raw_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as plain:
        yield from enumerate(gzip.GzipFile(fileobj=plain) if _is_zipped(path) else plain, 1)


@contextmanager
def _opened(target: Path, like: Path) -> Iterator[IO[bytes] | gzip.GzipFile]:
    """A new binary file, zipped if `like` is; the zip holds no time, so that equal rows give equal bytes."""
    with target.open("xb") as plain:
        if _is_zipped(like):
            with gzip.GzipFile("", "wb", fileobj=plain, mtime=0) as packed:
                yield packed
        else:
            yield plain


def _is_zipped(path: Path) -> bool:
    return path.name.lower().endswith(".gz")


def _rewrite_parquet(
    file: RowFile, target: Path, touched: Collection[int], edit: Edit, column: NewColumn | None
) -> None:
    source = pq.ParquetFile(file.path.absolute())
    schema = _with_column(source.schema_arrow.empty_table(), 1, column).schema
    with pq.ParquetWriter(target.absolute(), schema) as out:
        first = 1
        for batch in source.iter_batches(batch_size=_BATCH_ROWS):
            table = _with_column(pa.Table.from_batches([batch]), first, column)
            out.write_table(_edited_batch(table, first, touched, edit).cast(schema))
            first += batch.num_rows


def _with_column(table: pa.Table, first: int, column: NewColumn | None) -> pa.Table:
    """The rows, numbered from `first`, with the column."""
    if column is None:
        return table
    kind = pa.list_(pa.float64()) if isinstance(column.value(0), list) else pa.float64()
    values = pa.array([column.value(first + row) for row in range(table.num_rows)], kind)
    if column.name in table.column_names:
        return table.set_column(table.column_names.index(column.name), column.name, values)
    return table.append_column(column.name, values)


def _edited_batch(table: pa.Table, first: int, touched: Collection[int], edit: Edit) -> pa.Table:
    here = [row for row in range(table.num_rows) if first + row in touched]
    if not here:
        return table
    before = table.take(here).to_pylist()
    after = [edit(first + row, values) for row, values in zip(here, before, strict=True)]
    changes = {row: new for row, new in zip(here, after, strict=True) if new is not None}
    old = dict(zip(here, before, strict=True))
    for place, field in enumerate(table.schema):
        name = field.name
        if any(old[row][name] != new[name] for row, new in changes.items()):
            values = table[name].to_pylist()
            for row, new in changes.items():
                values[row] = new[name]
            table = table.set_column(place, field, pa.array(values, field.type))
    gone = set(here) - changes.keys()
    return table.take([row for row in range(table.num_rows) if row not in gone]) if gone else table
