"""Files of rows with named columns, whatever container they lie in; faults are named by their place."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from noisyir.data.containers import FOLDER, PLAIN, SUFFIXES, Row, container, suffix_of
from noisyir.data.containers.split_folder import is_split_folder, parts_of
from noisyir.data.leniency import glance
from noisyir.errors import DataError

__all__ = ["SUFFIXES", "Row", "RowFile"]

REWRITTEN = (".jsonl", ".csv", ".tsv", ".parquet")  # those whose rows can be edited in place


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
        if not file.is_file() and not is_split_folder(file):
            raise DataError(f"{file} is not a file: set {setting} to a {', '.join(SUFFIXES)} file")
        suffix = suffix_of(file) if file.is_file() else FOLDER
        if suffix is None:
            raise DataError(
                f"{file}: {setting} reads {', '.join(SUFFIXES)}; {', '.join(PLAIN)} also as .gz or .zst: rename it"
            )
        with glance():
            columns = container(suffix).columns(file)
        if repeated := [name for name in columns if columns.count(name) > 1]:
            raise DataError(f"two columns of {file} are called {repeated[0]!r}: rename one")
        if not columns:
            raise DataError(f"{file} is empty: {setting} must name a file with at least one row")
        return cls(file, suffix, columns)

    @property
    def files(self) -> list[Path]:
        """The file, or the files of a folder."""
        return [part.path for part in parts_of(self.path)] if self.suffix == FOLDER else [self.path]

    @property
    def is_rewritten(self) -> bool:
        """Whether single rows can be edited, the others staying byte by byte."""
        return self.suffix in REWRITTEN and not self.path.name.lower().endswith(".zst")

    @property
    def place(self) -> str:
        """What a row's number counts: lines of the file, from 1, or rows or items where there are no lines."""
        return f"{self.path} {container(self.suffix).unit}"

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        """(number, {column: value}) of every row; values are what the format holds, None where it holds nothing."""
        return container(self.suffix).rows(self.path, columns)
