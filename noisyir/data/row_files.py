"""Files of rows with named columns (jsonl, csv, tsv, parquet), read as a stream; faults are named by their place."""

import csv
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from noisyir.data.limits import LINE
from noisyir.data.text_files import json_lines, utf8_lines
from noisyir.engine.outside_errors import one_line
from noisyir.errors import DataError

SUFFIXES = (".jsonl", ".csv", ".tsv", ".parquet")
_FIRST_ROWS = 100  # of a jsonl file: their fields are its columns
_BATCH_ROWS = 4096

Row = tuple[int, dict[str, Any]]


@dataclass(frozen=True)
class RowFile:
    """One file.  `place` and a row's number say where it is: "pairs.csv line" and 7, "pairs.parquet row" and 7."""

    path: Path
    suffix: str
    columns: tuple[str, ...]

    @classmethod
    def open(cls, path: str, setting: str) -> "RowFile":
        """Read the names of the columns.  DataError, naming `setting`, when there is no such file or it has no rows."""
        file = Path(path)
        if not file.is_file():
            raise DataError(f"{file} is not a file: set {setting} to a {', '.join(SUFFIXES)} file")
        suffix = _suffix(file, setting)
        columns = _columns(file, suffix)
        if repeated := [name for name in columns if columns.count(name) > 1]:
            raise DataError(f"two columns of {file} are called {repeated[0]!r}: rename one")
        if not columns:
            raise DataError(f"{file} is empty: {setting} must name a file with at least one row")
        return cls(file, suffix, columns)

    @property
    def place(self) -> str:
        """What a row's number counts: lines of the file, from 1, or rows where there are no lines."""
        return f"{self.path} {'row' if self.suffix == '.parquet' else 'line'}"

    def rows(self, columns: Sequence[str], meaningful: Collection[str] = ()) -> Iterator[Row]:
        """(number, {column: value}) of every row; values are what the format holds, None where it holds nothing.

        meaningful: names, as `plain_name` has them, of columns that would be read if they were there.  DataError where
        one of these comes up in a jsonl file only behind the rows that tell its columns.
        """
        if self.suffix == ".parquet":
            yield from _parquet_rows(self.path, columns)
        elif self.suffix == ".jsonl":
            known = frozenset(self.columns)
            for number, row in json_lines(self.path):
                if not row.keys() <= known:
                    self._refuse_late(number, row.keys() - known, meaningful)
                yield number, {name: row.get(name) for name in columns}
        else:
            yield from self._separated(columns)

    def _refuse_late(self, number: int, late: Collection[str], meaningful: Collection[str]) -> None:
        if found := sorted(name for name in late if plain_name(name) in meaningful):
            raise DataError(
                f"{self.place} {number}: the first {_FIRST_ROWS} rows, which tell the columns, have no {found[0]!r}: "
                f'give the first row "{found[0]}": null, if this column is to be read, or rename it, if not'
            )

    def _separated(self, columns: Sequence[str]) -> Iterator[Row]:
        wanted = [(name, self.columns.index(name)) for name in columns]
        for number, cells in islice(_cells(self.path, self.suffix), 1, None):
            if len(cells) != len(self.columns):
                raise DataError(
                    f"{self.place} {number}: expected {len(self.columns)} columns as in the header, found {len(cells)}"
                )
            yield number, {name: cells[position] for name, position in wanted}


def plain_name(column: str) -> str:
    """A column's name as those are compared that mean the same."""
    return column.lower().replace("-", "_")


def _suffix(path: Path, setting: str) -> str:
    name = path.name.lower()
    zipped = name.endswith(".gz")
    suffix = Path(name.removesuffix(".gz")).suffix
    if suffix not in SUFFIXES or (zipped and suffix == ".parquet"):
        array = "; a JSON array becomes jsonl with jq -c '.[]'" if suffix == ".json" else ""
        raise DataError(
            f"{path}: {setting} reads {', '.join(SUFFIXES)}, all but parquet also as .gz, and tells them by the "
            f"suffix{array}"
        )
    return suffix


def _columns(path: Path, suffix: str) -> tuple[str, ...]:
    if suffix == ".parquet":
        return tuple(_parquet(path).schema_arrow.names)
    if suffix == ".jsonl":
        return tuple(dict.fromkeys(chain.from_iterable(row for _, row in islice(json_lines(path), _FIRST_ROWS))))
    return tuple(next(_cells(path, suffix), (1, []))[1])


def _cells(path: Path, suffix: str) -> Iterator[tuple[int, list[str]]]:
    """(first line, cells) of every record, the header too.  A tsv has no quotes: its cells are as they stand."""
    csv.field_size_limit(LINE.most)  # csv's own limit of 131,072 characters is less than a long document
    lines = (f"{line}\n" for _, line in utf8_lines(path))
    if suffix == ".csv":
        records = csv.reader(lines, strict=True)
    else:
        records = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    line = 0
    try:
        for cells in records:
            if cells:
                yield line + 1, cells
            line = records.line_num
    except csv.Error as error:
        raise DataError(f"{path} line {line + 1}: not {suffix[1:]}, mend it: {error}") from error


def _parquet(path: Path) -> pq.ParquetFile:
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} is not Parquet, or damaged, get it anew: {one_line(error)}") from error
    for number in range(file.num_row_groups):
        group = file.metadata.row_group(number)
        largest = max((group.column(place).total_uncompressed_size for place in range(group.num_columns)), default=0)
        if largest > LINE.most * max(1, group.num_rows):
            raise DataError(f"{path}: values of more than {LINE.most:,} bytes; {LINE.remedy}")
    return file


def _parquet_rows(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    number, file = 0, _parquet(path)
    try:
        batches = file.iter_batches(batch_size=_BATCH_ROWS, columns=list(columns))
        for batch in batches:
            for row in _decoded(batch, path, number + 1):
                number += 1
                yield number, row
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: damaged after row {number}, get it anew: {one_line(error)}") from error


def _decoded(batch: pa.RecordBatch, path: Path, first: int) -> Iterator[dict[str, Any]]:
    try:
        yield from batch.to_pylist()
    except UnicodeDecodeError as error:
        if batch.num_rows == 1:
            raise DataError(f"{path} row {first}: not UTF-8: convert it") from error
        for row in range(batch.num_rows):  # which of them it is
            yield from _decoded(batch.slice(row, 1), path, first + row)
