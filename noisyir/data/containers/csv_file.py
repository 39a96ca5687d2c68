"""Text with a separator between cells and a header: csv with the delimiter that fits, or tsv."""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import StringIO
from itertools import chain, islice
from pathlib import Path
from typing import Any

from noisyir.base.errors import DataError
from noisyir.data.containers import Check, Row, accept, is_header
from noisyir.data.leniency import bad_row, lenient, strict
from noisyir.data.limits import LINE
from noisyir.data.text_files import open_to_write, utf8_lines, without_zeros

_DELIMITERS = ",;\t|"
_LINES = 1000  # of a tsv, by which quotes are known
_OPENED = r'(?:\A|(?<=[\t\n]))"(?:[^"\t]|"")*'  # a cell in quotes, which may go over several lines
_QUOTED, _UNFINISHED = re.compile(rf'{_OPENED}"(?=[\t\n]|\Z)'), re.compile(rf"{_OPENED}\Z")
_OTHER_QUOTES = {"''", "\u2018\u2019", "\u201c\u201d", "\u201e\u201c", "\u201e\u201d", "\u00ab\u00bb"}
_END, _DOUBLED = "\r\n", "\r\r\n"  # doubled where text mode translates what csv ends already
_SAMPLE = 50  # records by which a delimiter is chosen


@dataclass(frozen=True)
class Separated:
    """Records of cells; in a csv cells may be quoted and hold line ends; cells of a tsv are plain."""

    kind: str
    unit: str = "line"

    def columns(self, path: Path) -> tuple[str, ...]:
        """The cells of the first record."""
        with strict():  # a faulty header is never passed over
            return tuple(next(self._cells(path), (1, []))[1])

    def rows(self, path: Path, columns: Sequence[str], check: Check = accept) -> Iterator[Row]:
        """The records after the header; a record has as many cells as the header."""
        header, where = list[str](), f"{path} line"
        for place, (number, cells) in enumerate(self._cells(path)):
            first = cells if place == 1 and self.kind == "csv" else ()
            if any(cell[:2] == ' "' and cell[-1:] == '"' for cell in first):
                raise DataError("data.space_before_quotes", path=path, number=number)
            if first and (quotes := {cell[:1] + cell[-1:] for cell in first}) <= _OTHER_QUOTES:
                raise DataError("data.other_quotes", path=path, number=number, quotes=min(quotes))
            if not header:
                header = cells
                places = {name: column for column, name in enumerate(header)}
                wanted = [(name, places[name]) for name in columns]
            elif len(cells) != len(header):
                fault = f"expected {len(header)} columns as in the header, found {len(cells)}"
                bad_row(where, number, DataError("data.bad_line", path=path, number=number, fault=fault))
            elif not is_header(cells, header, where, number):
                yield number, {name: cells[position] for name, position in wanted}

    def write(self, path: Path, rows: Iterator[Mapping[str, Any]]) -> None:
        """A header and a record a row; lists become JSON, and in a tsv tabs and line ends become spaces."""
        header: list[str] = []
        with open_to_write(path) as out:
            for row in rows:
                if not header:
                    header = list(row)
                    out.write(self._record(header))
                out.write(self._record([_cell(row[name]) for name in header]))

    def _record(self, cells: Iterable[str]) -> bytes:
        return f"{csv_record(cells) if self.kind == 'csv' else tsv_record(cells)}\n".encode()

    def _cells(self, path: Path) -> Iterator[tuple[int, list[str]]]:
        """(first line, cells) of every record, the header too."""
        delimiter, quoted = dialect_of(path, f".{self.kind}")
        return records(path, delimiter, quoted=quoted)


def csv_record(cells: Iterable[str], delimiter: str = ",") -> str:
    """A record of csv without its end; a cell with a line end is quoted, and one with zero bytes a DataError."""
    text = StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\r\n").writerow(map(without_zeros, cells))
    return text.getvalue().removesuffix("\r\n")


def tsv_record(cells: Iterable[str]) -> str:
    """A record of tsv without its end; tabs and line ends within cells become spaces, zero bytes a DataError."""
    return "\t".join(" ".join(without_zeros(cell).replace("\t", "\n").splitlines()) for cell in cells)


def dialect_of(path: Path, suffix: str) -> tuple[str, bool]:
    """The delimiter, and whether cells may be quoted: in a tsv only if the first lines are, as pandas writes them.

    Quotes around tabs are known by the header: with them every record has as many cells, and else few lines do.
    """
    if suffix == ".csv":
        return delimiter_of(path), True
    with lenient():  # the same dialect, whoever reads
        lines = [line for _, line in islice(utf8_lines(path), _LINES)]
    text = "\n".join(lines)
    if len(lines) == _LINES:
        text = _UNFINISHED.sub("", text)
    quoted, rest = _QUOTED.findall(text), _QUOTED.sub("", text)
    if '"' in rest:
        ends = [f"{line}\n" for line in lines]
        whole, plain = (_agreement(reader_of(iter(ends), "\t", quoted=quoted))[0] for quoted in (True, False))
        return "\t", whole == 1 and plain < 0.5
    all_quoted = len(quoted) == len(re.findall("[\t\n]", rest)) + 1
    return "\t", all_quoted or any('""' in cell[1:-1] or "\n" in cell for cell in quoted)


def delimiter_of(path: Path) -> str:
    """The delimiter that gives most records of a csv file as many cells as the header."""
    with lenient():  # the same one, whoever reads
        found = {
            delimiter: _agreement(cells for _, cells in islice(records(path, delimiter, quoted=True), _SAMPLE))
            for delimiter in _DELIMITERS
        }
    return max(found, key=lambda delimiter: found[delimiter])


def _agreement(records: Iterable[Sequence[str]]) -> tuple[float, int]:
    """The share of the records with as many cells as the header, 0 for one cell, and that number."""
    counts: list[int] = []
    with suppress(DataError, csv.Error):  # a later fault is reported when the rows are read
        for cells in records:
            counts += [len(cells)] if cells else []
    if not counts or counts[0] < 2:
        return 0.0, 0
    return counts.count(counts[0]) / len(counts), counts[0]


def records(path: Path, delimiter: str, *, quoted: bool) -> Iterator[tuple[int, list[str]]]:
    """(first line, cells) of every record; blank lines are passed over."""
    reader, line = reader_of((text for _, text in utf8_lines(path, ends=True)), delimiter, quoted=quoted), 0
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            for lost in range(line + 1, reader.line_num + 1):  # an open quote takes in what follows
                fault = DataError(
                    "data.bad_csv_line", path=path, line=lost, kind="csv" if quoted else "tsv", error=error
                )
                bad_row(f"{path} line", lost, fault)
        else:
            if cells:
                yield line + 1, cells
        line = reader.line_num


def reader_of(lines: Iterator[str], delimiter: str, *, quoted: bool) -> Any:
    """csv's reader of these lines; a line end within a cell stays as it is, and doubled returns are one."""
    csv.field_size_limit(LINE.most)  # csv's own limit of 131,072 characters is less than a long document
    lines = (line.rstrip(_END) + _END if line.endswith(_DOUBLED) else line for line in lines)
    if not quoted:
        return csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE)
    header = next(lines, "")  # a space behind its commas is no part of any cell, as in `query, document`
    spaced = f"{delimiter} " in header
    return csv.reader(chain([header], lines), delimiter=delimiter, strict=True, skipinitialspace=spaced)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else str(value)
