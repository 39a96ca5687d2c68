"""Files of rows with named columns, a module each, known by suffix or first bytes; no meaning of columns."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from noisyir.base.errors import DataError
from noisyir.data.leniency import bad_row
from noisyir.data.text_files import PACKED, first_bytes, name_of_content

Row = tuple[int, dict[str, Any]]

# Suffix of each container, with its module, its class and the class's argument
SUFFIXES: Mapping[str, tuple[str, ...]] = {
    ".jsonl": ("json_file", "JsonFile", "line"),
    ".ndjson": ("json_file", "JsonFile", "line"),
    ".jsonlines": ("json_file", "JsonFile", "line"),
    ".json": ("json_file", "JsonFile", "item"),
    ".csv": ("csv_file", "Separated", "csv"),
    ".tsv": ("csv_file", "Separated", "tsv"),
    ".parquet": ("arrow_file", "Parquet"),
    ".arrow": ("arrow_file", "ArrowFile"),
    ".feather": ("arrow_file", "ArrowFile"),
    ".xlsx": ("sheet", "Sheet"),
}
FOLDER = "/"  # the suffix of a folder of such files
OBJECT = "{"  # the suffix of one JSON object with rows inside
FLAT = (".csv", ".tsv", ".xlsx")  # their cells hold one value
FIRST_ROWS = 100  # of a JSON file; their fields are its columns
PLAIN = (".jsonl", ".csv", ".tsv", ".json")  # perhaps packed
_OTHER_NAMES = {".ndjson": ".jsonl", ".jsonlines": ".jsonl", ".feather": ".arrow"}
_CLASSES = {**SUFFIXES, FOLDER: ("split_folder", "SplitFolder"), OBJECT: ("json_file", "JsonFile", "row")}
_SPACE = b" \t\r\n\xef\xbb\xbf"

Check = Callable[[int, Set[str]], None]


def accept(number: int, names: Set[str]) -> None:
    """Accept any row."""


def is_header(cells: Sequence[Any], header: Sequence[str], place: str, number: int) -> bool:
    """Whether a record is left out for being the header again, as in joined files.

    Raises:
        DataError: If its names are in another order, for so are the cells that follow.
    """
    if len(header) < 2 or str(cells[0]).strip().lower() not in map(str.lower, header):
        return False
    again, names = ([str(one).strip().lower() for one in some] for some in (cells, header))
    if again != names and sorted(again) == sorted(names):
        raise DataError("data.header_turned", place=place, number=number)
    if again == names:
        bad_row(place, number, DataError("data.header_again", place=place, number=number))
    return again == names


class Container(Protocol):
    """How rows are stored in one kind of file."""

    unit: str  # counted by a row's number: line, row, item

    def columns(self, path: Path) -> tuple[str, ...]:
        """The names of the columns, none for an empty file."""

    def rows(self, path: Path, columns: Sequence[str], check: Check = accept) -> Iterator[Row]:
        """Yield (number, {column: value}) of every row; missing values are None.

        Args:
            check: Gets the names in each row, if rows may differ, and raises DataError for one that cannot be read.
        """

    def write(self, path: Path, rows: Iterator[Mapping[str, Any]]) -> None:
        """Write a new file of rows with the same columns."""


@cache
def container(suffix: str) -> Container:
    """The container for a suffix."""
    module, name, *given = _CLASSES[suffix]
    found: Container = getattr(import_module(f"{__name__}.{module}"), name)(*given)
    return found


def suffix_of(path: Path) -> str | None:
    """The suffix for `path`, by its name or else its first bytes; None if neither is known."""
    suffix, packed = _named(path)
    if suffix in SUFFIXES and suffix != ".json":
        return None if packed and suffix not in PLAIN else suffix
    return _by_first_bytes(path)


def stem(name: str) -> str:
    """The name of a file of data without its ending, as a part of names of results."""
    plain = next((name.removesuffix(end) for end in PACKED if name.lower().endswith(end)), name)
    return re.sub(r"(?<=.)\.[A-Za-z]+$", "", plain).replace(":", "-")


def _named(path: Path) -> tuple[str, bool]:
    """The suffix of the name, one for all synonyms, and whether the file is packed."""
    suffix = Path(name_of_content(path)).suffix
    return _OTHER_NAMES.get(suffix, suffix), path.name.lower().endswith(PACKED)


def write_rows(path: Path, rows: Iterator[Mapping[str, Any]], *, nested: bool = False) -> None:
    """Write rows with the same columns, in the container of the suffix; `nested` values are lists of objects."""
    suffix, packed = _named(path)
    fits = [known for known in SUFFIXES if not (nested and known in FLAT)]
    if suffix not in fits or (packed and suffix not in PLAIN):
        raise DataError("data.unwritable_suffix", path=path, suffixes=", ".join(fits))
    with DataError.wrapping("data.unwritable_file", path=path):
        container(suffix).write(path, rows)


def _by_first_bytes(path: Path) -> str | None:
    first = first_bytes(path)
    for magic, suffix in ((b"PAR1", ".parquet"), (b"ARROW1", ".arrow"), (b"\xff\xff\xff\xff", ".arrow")):
        if first.startswith(magic):
            return suffix
    match first.lstrip(_SPACE)[:1]:
        case b"[":
            return ".json"
        case b"{":
            objects = import_module("noisyir.data.json_objects")
            return OBJECT if objects.is_one_object(path, first) else ".jsonl"
    return None
