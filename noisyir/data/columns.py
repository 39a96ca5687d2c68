"""Columns of a file of rows, as mapped or by their usual names, and files of documents."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from noisyir.base.command_line import with_columns
from noisyir.base.errors import DataError
from noisyir.data import leniency
from noisyir.data.labels import holds_judgements
from noisyir.data.records import Document, as_id
from noisyir.data.row_files import RowFile, is_numbered_negative, known_words, plain_name
from noisyir.data.spelt import is_missing, list_in, number_in, text_in

PairColumn = Literal[
    "query", "document", "query_id", "doc_id", "title", "source", "split", "weight", "score",
    "negative", "negative_id", "negative_score", "label", "answers",
]  # fmt: skip
Names = Mapping[PairColumn, tuple[str, ...]]

# `answers` are read only if they are mapped; labels.py decides on `label`.
NAMES: Names = known_words("pairs")
_CORPUS_NAMES: Names = known_words("corpus")
_SHOWN = 30  # columns in a message


def names_that_mean(mapping: Mapping[PairColumn, str | None], names: Names) -> frozenset[str]:
    """Names that `choose_columns` would take if a column had them."""
    return frozenset(name for column, usual in names.items() if column not in mapping for name in usual)


def choose_columns(file: RowFile, mapping: Mapping[PairColumn, str | None], names: Names) -> dict[PairColumn, str]:
    """The file's column for each part of a pair: as mapped (None: no column), else the first of its usual names.

    Case does not matter, and spaces, `-` and other signs are `_`.

    Raises:
        DataError: If a mapped column is missing, or query and document are mapped to one column.
    """
    plain = {plain_name(name): name for name in file.columns}
    chosen = {
        column: name if name in file.columns else plain.get(plain_name(name), name)
        for column, name in mapping.items() if name is not None
    }  # fmt: skip
    if unknown := {column: name for column, name in chosen.items() if name not in file.columns}:
        column, name = next(iter(unknown.items()))
        raise DataError("data.missing_mapped_column", file=file.path, name=name, column=column, found_in=found_in(file))
    if (both := chosen.get("query")) is not None and both == chosen.get("document"):
        raise DataError("data.column_mapped_twice", name=both, found_in=found_in(file))
    free = {plain_name(name): name for name in file.columns if name not in chosen.values()}
    for column, usual in names.items():
        if column not in mapping and (fits := [name for name in usual if name in free]):
            chosen[column] = free.pop(fits[0])
    return chosen


def numbered_negatives(file: RowFile, taken: Sequence[str]) -> tuple[str, ...]:
    """Columns such as negative_1 and negative_2, which hold a negative each, and others of negatives."""
    names = [name for name in file.columns if name not in taken]
    return tuple(
        name for name in names
        if is_numbered_negative(name) or (plain_name(name) in NAMES["negative"] and not holds_judgements(file, name))
    )  # fmt: skip


def need(file: RowFile, columns: Mapping[PairColumn, str], needed: Sequence[PairColumn], names: Names) -> None:
    """Raise DataError, with the usual names, for the first needed column that was not found."""
    for column in needed:
        if column not in columns:
            how = f"; map one with data.columns='{{{column}: NAME}}'" if names is NAMES else ""
            known, there = ", ".join(names[column]), found_in(file)
            raise DataError("data.unmapped_column", file=file.path, column=column, names=known, found_in=there, how=how)


def unread(column: PairColumn, place: str, *, is_mapped: bool) -> str:
    """What gives a column of a file no meaning, by the place of its rows: to type, if its columns can be mapped."""
    return with_columns({column: None}, Path(place.rpartition(" ")[0])) if is_mapped else "another name for it"


def found_in(file: RowFile) -> str:
    """The first columns of a file, for a message."""
    shown = [name if name.isprintable() else repr(name) for name in file.columns[:_SHOWN]]
    more = f" and {len(file.columns) - _SHOWN:,} more" if len(file.columns) > _SHOWN else ""
    return f"it has {', '.join(shown)}{more}"


def open_corpus(
    path: str, setting: str, needed: Sequence[PairColumn] = ("doc_id", "document"), named: str | None = None
) -> RowFile:
    """Open a file of documents, which pairs name by their column `named`; differing columns of ids are a DataError."""
    file = RowFile.open(path, setting)
    need(file, columns := choose_columns(file, {}, _CORPUS_NAMES), needed, _CORPUS_NAMES)
    ids = [name for name in file.columns if plain_name(name) in _CORPUS_NAMES["doc_id"] and named is not None]
    rows = file.first(ids) if len(ids) > 1 else []
    for other in ids:
        if columns["doc_id"] not in (other, named) and any(row[other] != row[columns["doc_id"]] for row in rows):
            raise DataError("data.two_id_columns", file=file.path, read=columns["doc_id"], other=other)
    return file


def corpus_documents(file: RowFile) -> Iterator[Document]:
    """The documents of such a file, in its order; an id is empty without a column of ids."""
    columns = choose_columns(file, {}, _CORPUS_NAMES)
    for number, row in file.rows(list(columns.values()), names_that_mean({}, _CORPUS_NAMES)):
        with leniency.row(file.place, number):
            values = {column: row[name] for column, name in columns.items()}
            cell = Cells(values, columns, file.place, number)
            doc_id = cell.name("doc_id") if "doc_id" in columns else ""
            yield Document(doc_id, cell.text("title"), cell.text("document"), file.place, number)


class Cells(NamedTuple):
    """The values of a row, each checked for its type."""

    values: Mapping[PairColumn, Any]
    columns: Mapping[PairColumn, str]
    place: str
    number: int
    is_mapped: bool = True

    @property
    def where(self) -> str:
        """The row's place in messages."""
        return f"{self.place} {self.number}"

    def text(self, column: PairColumn) -> str:
        """A text, empty if missing."""
        return text_in(self.values.get(column), self.columns.get(column, column), self.where)

    def wrong(self, column: PairColumn, must: str) -> DataError:
        """An error about a value, with what to type so that its column is not read."""
        name, value = self.columns[column], self.values[column]
        null = unread(column, self.place, is_mapped=self.is_mapped)
        return DataError("data.wrong_mapped_value", where=self.where, column=name, must=must, value=value, unread=null)

    def weight(self) -> float | None:
        """The weight of a pair in training, from 0 to 1; None if empty."""
        value = self.values.get("weight")
        if value is None or (isinstance(value, str) and not value.strip()):
            return None
        weight = number_in(value)
        if weight is None or not 0 <= weight <= 1:
            raise self.wrong("weight", "be a weight from 0 to 1")
        return weight

    def name(self, column: PairColumn) -> str:
        """An id or a source: a text or a whole number."""
        return self._replace(values={column: as_id(self.values[column])}).text(column)

    def items(self, column: PairColumn) -> list[Any]:
        """The values of a list, perhaps as JSON or Python's spelling in a cell; one value is a list of one."""
        value = self.values.get(column)
        if isinstance(value, str) and value.startswith("["):
            value = value if (found := list_in(value)) is None else found
        if is_missing(value):
            return []
        return list(value) if isinstance(value, list | tuple) else [value]

    def texts(self, column: PairColumn) -> list[str]:
        """The texts of a list."""
        return [self._replace(values={column: value}).text(column) for value in self.items(column)]

    def names(self, column: PairColumn) -> list[str]:
        """The ids of a list."""
        return [self._replace(values={column: value}).name(column) for value in self.items(column)]

    def numbers(self, column: PairColumn) -> list[float]:
        """The finite numbers of a list."""
        numbers = []
        for one in self.items(column):
            if (number := number_in(one)) is None:
                raise self.wrong(column, "hold numbers")
            numbers.append(number)
        return numbers
