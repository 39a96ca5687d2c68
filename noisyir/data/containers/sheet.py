"""The first sheet of an Excel workbook; formulas are not computed, their stored values are read."""

import json
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

from noisyir.base.errors import DataError, MissingPackageError, install_hint
from noisyir.data.containers import Check, Row, accept, is_header
from noisyir.data.limits import LINE

_LONGEST_CELL = 32_767  # characters; Excel's own limit
_DENSEST = 200  # unpacked size of a large part by its packed size; usual workbooks have 5 to 50
_PIECE = 1 << 20
_MERGED = re.compile(rb'<(?:\w+:)?mergeCell ref="([A-Z]+(\d+):[A-Z]+(\d+))"')
_STYLED = re.compile(rb'<c r="(\w+)"[^>]* s="(\d+)"[^>]*(?<!/)><(?!/)')  # a cell with a value
_HIDDEN = re.compile(rb'<(?:\w+:)?row(?=[^>]* hidden="(?:1|true)")[^>]* r="(\d+)"[^>]*(?<!/)><(?!/)')
_TITLES = 20  # rows, empty ones among them, above which another sheet has its header
_LONGEST_TAG = 400  # of a row or of merged cells
_RETURN, _UNWRITABLE = re.compile("_x000D_", re.IGNORECASE), re.compile("[\ufffe\uffff]")  # the first is Excel's
_END_OF_CELL = re.compile(rb"</(\w+:)?(c|si|row)>")
_DAMAGED = (zipfile.BadZipFile, zlib.error, KeyError, ValueError, OSError, ParseError, EOFError)


@dataclass(frozen=True)
class Sheet:
    """The first row with a value is the header."""

    unit: str = "row"

    def columns(self, path: Path) -> tuple[str, ...]:
        """The header's cells, without empty ones at its end."""
        _refuse_bombs(path)
        return tuple(name for name in next(self._cells(path), (1, ()))[1])

    def rows(self, path: Path, columns: Sequence[str], check: Check = accept) -> Iterator[Row]:
        """The rows below the header that are not empty, numbered as in Excel."""
        cells = self._cells(path)
        header = next(cells, (1, ()))[1]
        for number, values in cells:
            if not is_header(values, header, f"{path} row", number):
                found = dict(zip(header, values, strict=False))
                yield number, {name: found.get(name) for name in columns}

    def write(self, path: Path, rows: Iterator[Mapping[str, Any]]) -> None:
        """Write a workbook; DataError if a text is too long for a cell, or has characters that Excel refuses."""
        book = _openpyxl().Workbook(write_only=True)
        with closing(book.create_sheet("pairs")) as sheet:  # else it fails a second time after a text that is refused
            for number, row in enumerate(rows, 2):
                if number == 2:
                    sheet.append(list(row))
                sheet.append([_writable(sheet, value, f"{path} row {number}") for value in row.values()])
        book.save(path)

    def _cells(self, path: Path) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """(number, values) of every row that is not empty; the header's values as texts."""
        openpyxl = _openpyxl()
        broken = (*_DAMAGED, openpyxl.utils.exceptions.InvalidFileException)
        with DataError.wrapping("data.wrong_container", *broken, kind=".xlsx", path=path):
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        try:
            width, sheet, others = 0, book.worksheets[0], book.worksheets[1:]
            if sheet.sheet_state != "visible":
                raise DataError("data.hidden", path=path, what=f"the first sheet, {sheet.title!r}, is hidden")
            _refuse_unseen(path, sheet)
            sheet.reset_dimensions()  # else each row is as wide as the furthest cell, and there are as many as it says
            for number, values in enumerate(sheet.iter_rows(values_only=True), 1):
                if all(value is None for value in values):
                    continue
                if not width:
                    names = ["" if value is None else str(value) for value in values]
                    width = len(" ".join(names).split()) and max(n for n, name in enumerate(names, 1) if name)
                    for other in others:
                        rows = map(_names, other.iter_rows(values_only=True, max_row=_TITLES))
                        both = (found := next(filter(None, rows), set())) & (here := _names(values))
                        if both in (found, here) and len(both) > 1:
                            first, second, shown = sheet.title, other.title, ", ".join(sorted(both))
                            raise DataError("data.equal_sheets", path=path, first=first, other=second, columns=shown)
                    yield number, tuple(names[:width])
                else:
                    yield number, tuple(map(_plain, values[:width]))
        except _DAMAGED as error:
            raise DataError("data.damaged", path=path, error=error) from error
        finally:
            book.close()


def _refuse_bombs(path: Path) -> None:
    """Refuse cells beyond the limit, and parts that unpack to far more than any workbook does.

    openpyxl unpacks a whole cell.  This counts the ends of cells piece by piece, in parts larger than a cell may be.
    """
    most = LINE.most
    try:
        with zipfile.ZipFile(path) as packed:
            for part in packed.infolist():
                if part.file_size <= most or part.filename.startswith("xl/media/"):  # pictures
                    continue
                if (size := part.file_size) > _DENSEST * part.compress_size:
                    name = part.filename
                    raise DataError("data.unpacks_too_large", path=path, part=name, size=size, densest=_DENSEST)
                with packed.open(part) as file:
                    since = 0
                    while piece := file.read(_PIECE):
                        since = 0 if _END_OF_CELL.search(piece) else since + len(piece)
                        if since > most:
                            raise DataError("data.cell_too_long", path=path, most=most, remedy=LINE.remedy)
    except _DAMAGED as error:
        raise DataError("data.wrong_container", kind=".xlsx", path=path, error=error) from error


def _refuse_unseen(path: Path, sheet: Any) -> None:
    """Refuse hidden rows, struck-out cells, and cells that span rows: one row has the value."""
    book = sheet.parent
    struck = {number for number, style in enumerate(book._cell_styles) if book._fonts[style.fontId].strike}
    with book._archive.open(sheet._worksheet_path) as part:
        before = b""
        while piece := part.read(_PIECE):
            if hidden := _HIDDEN.search(before + piece):
                raise DataError("data.hidden", path=path, what=f"row {hidden[1].decode()} is hidden")
            for cell, style in _STYLED.findall(before + piece) if struck else ():
                if int(style) in struck:
                    raise DataError("data.hidden", path=path, what=f"cell {cell.decode()} is struck out")
            for cells, first, last in _MERGED.findall(before + piece):
                if first != last:
                    raise DataError("data.merged_cells", path=path, cells=cells.decode())
            before = piece[-_LONGEST_TAG:]


def _names(cells: Sequence[Any]) -> set[str]:
    """The names in a row that may be a header."""
    return {str(cell).strip().lower() for cell in cells if cell is not None}


def _plain(value: Any) -> Any:
    """A cell as in other containers: whole numbers as int, dates and others as text."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    return value if value is None or isinstance(value, int) else _RETURN.sub("\r", str(value))


def _writable(sheet: Any, value: Any, where: str) -> Any:
    """The value as a cell: a list as JSON, a text never as a formula."""
    if isinstance(value, list | dict):
        value = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, str):
        return value
    cells = _openpyxl().cell.cell
    unfit = any(pattern.search(value) for pattern in (cells.ILLEGAL_CHARACTERS_RE, _RETURN, _UNWRITABLE))
    if len(value) > _LONGEST_CELL or unfit:
        raise DataError("data.text_too_long_for_cell", where=where, longest_cell=_LONGEST_CELL)
    cell = cells.WriteOnlyCell(sheet, value=value)
    cell.data_type = "s"
    return cell


def _openpyxl() -> Any:
    with MissingPackageError.wrapping("data.missing_openpyxl", ImportError, install_hint=install_hint("formats")):
        import openpyxl
    return openpyxl
