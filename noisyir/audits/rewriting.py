"""Rows of a file rewritten in its own format: unchanged rows keep their bytes."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from noisyir.data.containers.csv_file import csv_record, dialect_of, reader_of, tsv_record
from noisyir.data.json_arrays import json_array_texts
from noisyir.data.row_files import RowFile
from noisyir.data.text_files import open_bytes, open_to_write, parse_object
from noisyir.engine.tables import with_values

Row: TypeAlias = dict[str, Any]
Edit: TypeAlias = Callable[[int, Row], Row | None]  # of a row and its number, as RowFile counts; None leaves it out

_BATCH_ROWS = 65536  # and so the rows of a row group
_MARK = "\ufeff"  # of the byte order, which stays
_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")


class NewColumn(NamedTuple):
    """A column that every row gets, last or in place of its namesake; `value` maps a row's number to its cell."""

    name: str
    value: Callable[[int], float | list[float]]


def rewrite(file: RowFile, target: Path, touched: Collection[int], edit: Edit, column: NewColumn | None = None) -> None:
    """Write `file` to `target`; only the rows numbered `touched` are edited, and all get the column."""
    if file.suffix == ".parquet":
        _rewrite_parquet(file, target, touched, edit, column)
        return
    with open_to_write(target) as out:
        if file.suffix == ".json":
            out.writelines(part.encode() for part in _array(file, touched, edit, column))
            return
        lines = (_Json(number, line, file.place) for number, line in _lines(file.path))
        for record in lines if file.suffix == ".jsonl" else _separated_records(file):
            out.write((_written(record, touched, edit, column) or "").encode())


def _array(file: RowFile, touched: Collection[int], edit: Edit, column: NewColumn | None) -> Iterator[str]:
    """The parts of an array; an item that is left out goes with the separator before it, or behind the first."""
    start, some = "", False
    for number, before, text in json_array_texts(file.path):
        if not text:
            yield before if some else start + before
        elif (new := _written(_Json(number, text, file.place), touched, edit, column)) is not None:
            yield (before if some else start or before) + new
            some = True
        start = start or before


def _written(
    record: "_Json | _Separated", touched: Collection[int], edit: Edit, column: NewColumn | None
) -> str | None:
    """The record's new text; None if it is left out."""
    if record.is_blank or (record.number not in touched and column is None):
        return record.raw
    if record.number not in touched and column is not None and not record.has(column.name):
        return record.followed_by(column)
    old = record.read()
    row = old if record.number not in touched else edit(record.number, old)
    if row is not None and column is not None:
        row = {**row, column.name: record.added(column)}
    return None if row is None else record.written(old, row)


class _Json(NamedTuple):
    """An object of an array, or on a line."""

    number: int
    raw: str
    place: str

    @property
    def is_blank(self) -> bool:
        return not self.raw.strip()

    def has(self, name: str) -> bool:
        return json.dumps(name) in self.raw

    def added(self, column: NewColumn) -> float | list[float]:
        return column.value(self.number)

    def followed_by(self, column: NewColumn) -> str:
        """The object with one more field at its end."""
        return _with_fields(self.raw, {column.name: self.added(column)})

    def read(self) -> Row:
        return parse_object(self.raw.lstrip(_MARK), f"{self.place} {self.number}")

    def written(self, old: Row, row: Row) -> str:
        """The object with the row's values; what stays keeps its characters."""
        parts, done = [], 0
        for name, start, end in _values(self.raw, self.raw.index("{")):
            if row[name] != old[name]:
                parts += [self.raw[done:start], _changed(self.raw[start:end], old[name], row[name])]
                done = end
        return _with_fields("".join([*parts, self.raw[done:]]), {name: row[name] for name in row if name not in old})


def _with_fields(text: str, fields: Row) -> str:
    head, brace, end = text.rpartition("}")
    return head + "".join(f", {json.dumps(name)}: {_spelt(value)}" for name, value in fields.items()) + brace + end


def _changed(text: str, old: Any, new: Any) -> str:
    """The new value; a list from which elements only leave keeps the characters of the others."""
    if not isinstance(old, list) or not isinstance(new, list):
        return _spelt(new)
    left, parts, behind = list(new), list[str](), 0
    for value, (_, start, end) in zip(old, places := list(_values(text, 0)), strict=True):
        if left and value == left[0]:
            left.pop(0)
            parts.append(text[behind if parts else start : end])
        behind = end
    if left:
        return _spelt(new)
    return f"{text[: places[0][1]]}{''.join(parts)}{text[behind:]}" if parts else "[]"


def _values(text: str, at: int) -> Iterator[tuple[str, int, int]]:
    """(name, start, end) of each value of the object or list that starts here; a list's have no names."""
    end_of_all, at = {"{": "}", "[": "]"}[text[at]], _after_space(text, at + 1)
    while text[at] != end_of_all:
        name = ""
        if end_of_all == "}":
            name, at = _DECODER.raw_decode(text, at)
            at = _after_space(text, _after_space(text, at) + 1)
        _, end = _DECODER.raw_decode(text, at)
        yield name, at, end
        at = _after_space(text, end)
        at = _after_space(text, at + 1) if text[at] == "," else at


def _after_space(text: str, at: int) -> int:
    return found.end() if (found := _SPACE.match(text, at)) else at


def _spelt(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


class _Separated(NamedTuple):
    """A record of csv or tsv with all its lines, and its writer."""

    number: int
    raw: str
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
        return column.name if self.is_header else str(column.value(self.number))

    def followed_by(self, column: NewColumn) -> str:
        """The record with one more cell at its end."""
        line = self.raw.rstrip("\r\n")
        return f"{line}{self.separator}{self.added(column)}{self.raw[len(line) :]}"

    def read(self) -> Row:
        return dict(zip(self.columns, self.cells, strict=True))

    def written(self, _: Row, row: Row) -> str:
        cells = ("" if cell is None else cell for cell in row.values())
        return self.joined(cells) + ("\r\n" if self.raw.endswith("\r\n") else "\n")


def _separated_records(file: RowFile) -> Iterator[_Separated]:
    """The header, blank lines and every record; the lines are split as RowFile splits them."""
    seen: list[str] = []

    def lines() -> Iterator[str]:
        for number, line in _lines(file.path):
            seen.append(line)
            yield line.removeprefix(_MARK) if number == 1 else line

    separator, quoted = dialect_of(file.path, file.suffix)
    joined: Callable[[Iterable[str]], str] = partial(csv_record, delimiter=separator) if quoted else tsv_record
    line, header = 1, True
    for cells in reader_of(lines(), separator, quoted=quoted):
        yield _Separated(line, "".join(seen), file.columns, cells, joined, separator, header and bool(cells))
        header = header and not cells
        line += len(seen)
        seen.clear()


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """(number from 1, line) of the unpacked text, each with an end."""
    with open_bytes(path) as handle:
        for number, raw in enumerate(handle, 1):
            yield number, (raw if raw.endswith(b"\n") else raw + b"\n").decode()


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
    return with_values(table, **{column.name: values})


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
