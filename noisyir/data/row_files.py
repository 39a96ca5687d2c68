"""Files of rows with named columns, in any container."""

import re
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence, Set
from dataclasses import dataclass
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any

from noisyir.base.errors import DataError
from noisyir.data.containers import FIRST_ROWS, FOLDER, PLAIN, SUFFIXES, Row, container, suffix_of
from noisyir.data.containers.arrow_file import class_names
from noisyir.data.containers.split_folder import is_split_folder, parts_of
from noisyir.data.leniency import glance, strict
from noisyir.data.limits import COLUMNS, refuse_special
from noisyir.data.text_files import packing_of

__all__ = ["SUFFIXES", "Row", "RowFile"]

_NUMBERED = re.compile(r"(hard_)?neg(ative)?_?\d+")
_CAMEL = re.compile(r"(?<=[a-z]{2})(?=[A-Z])")
_RELATIVE = "; in an experiment's file, it may be relative to that file"
_REWRITTEN = (".jsonl", ".json", ".csv", ".tsv", ".parquet")  # their rows can be edited in place
_KNOWN = tomllib.loads(files("noisyir").joinpath("data", "known.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class RowFile:
    """One file; `place` and a row's number locate a row: "pairs.csv line" and 7, "pairs.parquet row" and 7."""

    path: Path
    suffix: str
    columns: tuple[str, ...]

    @classmethod
    def open(cls, path: str, setting: str) -> "RowFile":
        """Read the names of the columns; DataError, which names `setting`, if there is no file or no row."""
        file = Path(path)
        suffix = _suffix(file, setting)
        if suffix is None:
            known, plain = ", ".join(SUFFIXES), ", ".join(PLAIN)
            raise DataError("data.unknown_suffix", file=file, setting=setting, suffixes=known, plain=plain)
        with glance():
            columns = container(suffix).columns(file)
        if len(columns) > COLUMNS.most:
            n_columns, most = len(columns), COLUMNS.most
            raise DataError("data.too_many_columns", file=file, n_columns=n_columns, most=most, remedy=COLUMNS.remedy)
        if repeated := [name for name, count in Counter(name.strip().lower() for name in columns).items() if count > 1]:
            if not repeated[0].strip():
                raise DataError("data.nameless_columns", file=file)
            raise DataError("data.column_name_twice", file=file, repeated=repeated[0])
        if not columns:
            with strict():
                container(suffix).columns(file)
            raise DataError("data.empty_row_file", file=file, setting=setting)
        return cls(file, suffix, columns)

    @property
    def files(self) -> list[Path]:
        """The file, or the files of a folder."""
        return [part.path for part in parts_of(self.path)] if self.suffix == FOLDER else [self.path]

    def class_names(self) -> dict[str, tuple[str, ...]]:
        """The names that tables give to the numbers of a column, such as entailment to 0."""
        tables = [path for path in self.files if suffix_of(path) in (".parquet", ".arrow")]
        return {name: names for path in tables for name, names in class_names(path).items()}

    @property
    def is_rewritten(self) -> bool:
        """Whether single rows can be edited while the others stay byte by byte."""
        packing = packing_of(self.path) if self.suffix in _REWRITTEN else None
        return packing in ("", ".gz", ".zst") and self.path.name.lower().endswith(packing)

    @property
    def place(self) -> str:
        """The unit of a row's number: lines from 1, or rows or items."""
        return f"{self.path} {container(self.suffix).unit}"

    def rows(self, columns: Sequence[str], meaningful: Collection[str] = ()) -> Iterator[Row]:
        """Yield (number, {column: value}) of every row; empty cells are None.

        Args:
            meaningful: Plain names that, if they first appear after the rows that tell the columns, are a DataError.
        """
        known = frozenset(self.columns)

        def check(number: int, names: Set[str]) -> None:
            new = [] if names <= known else [name for name in names - known if _means(plain_name(name), meaningful)]
            if new:
                raise DataError("data.late_column", place=self.place, number=number, first=FIRST_ROWS, found=min(new))

        return container(self.suffix).rows(self.path, columns, check)

    def first(self, columns: Sequence[str], most: int = FIRST_ROWS) -> list[dict[str, Any]]:
        """The values of the first rows; their faults are met again, and counted, when the rows are read."""
        with glance():
            return [row for _, row in islice(self.rows(columns), most if columns else 0)]


def _suffix(file: Path, setting: str) -> str | None:
    if not file.exists():
        relative = _RELATIVE if setting in ("data.path", "data.corpus") and not file.is_absolute() else ""
        raise DataError("data.no_row_file", file=file.absolute(), setting=setting, relative=relative)
    if is_split_folder(file):
        return FOLDER
    if not file.is_file():
        raise DataError("data.not_a_row_file", file=file, setting=setting, suffixes=", ".join(SUFFIXES))
    refuse_special(file)
    return suffix_of(file)


def _means(name: str, meaningful: Collection[str]) -> bool:
    return name in meaningful or ("negative" in meaningful and is_numbered_negative(name))


def known_words(table: str) -> dict[Any, tuple[str, ...]]:
    """The names or words in a table of known.toml, by their meaning."""
    return {meaning: tuple(" ".join(words.split()).split(", ")) for meaning, words in _KNOWN[table].items()}


def is_numbered_negative(column: str) -> bool:
    """Whether a name is such as negative_1 and hard neg 2."""
    return bool(_NUMBERED.fullmatch(plain_name(column)))


def plain_name(column: str) -> str:
    """A column's name in the form in which names are compared: isRight, is-right and Is right are is_right."""
    return re.sub(r"[^\w.]+", " ", _CAMEL.sub(" ", column).lower()).strip().replace(" ", "_")
