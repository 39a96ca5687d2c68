"""Parts of rows that several formats share: passages as objects, and lists of them."""

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Any

from noisyir.base.errors import DataError
from noisyir.data.columns import NAMES, PairColumn, found_in, open_corpus
from noisyir.data.containers import FIRST_ROWS, FLAT
from noisyir.data.examples import Example, Passage
from noisyir.data.labels import MEANINGFUL
from noisyir.data.leniency import glance
from noisyir.data.records import as_id
from noisyir.data.row_files import RowFile, plain_name
from noisyir.data.spelt import list_in, number_in

# Keys of a document that is an object
TEXTS = ("text", "content", "contents", "page_content", "passage", "document", "body")
IDS = ("docid", "passage_id", "psg_id", "doc_id", "pid", "_id", "id")
_READ = {"title", *TEXTS, *IDS}
_SPELT_OBJECT = re.compile(r"""\s*\[?\s*\{\s*['"]\w+['"]\s*:""")
_EMPTY: tuple[Any, ...] = (None, "", [], {})


def open_rows(kind: str, path: str | None, needed: Sequence[str]) -> RowFile:
    """The rows of a format, if the file has the columns that it needs."""
    if path is None:
        raise DataError("data.format_file_missing", kind=kind)
    rows = RowFile.open(path, "data.path")
    if missing := [name for name in needed if name not in rows.columns]:
        raise DataError(
            "data.format_columns_missing", path=path, kind=kind, missing=", ".join(missing), found_in=found_in(rows)
        )
    return rows


def corpus_of(kind: str, path: str | None) -> RowFile:
    """The documents' file, for rows that name documents by id."""
    if path is None:
        raise DataError("data.corpus_file_missing", kind=kind)
    return open_corpus(path, "data.corpus")


def text(row: Mapping[str, Any], name: str, where: str) -> str:
    """A text, empty if missing."""
    value = row.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DataError("data.wrong_value", expected="text", where=where, name=name, value=value)
    return value


def text_of(row: Mapping[str, Any], name: str, where: str) -> str:
    """A text that must be there, perhaps empty."""
    return text(_having(row, name, where), name, where)


def identity(row: Mapping[str, Any], name: str, where: str) -> str | None:
    """An id, a text or a whole number; None if missing."""
    value = as_id(row.get(name))
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise DataError("data.wrong_value", expected="an id", where=where, name=name, value=value)
    return value


def number(row: Mapping[str, Any], name: str, where: str) -> float | None:
    """A score, perhaps written as text; None if missing."""
    value = row.get(name)
    if value is None or value == "":
        return None
    if (found := number_in(value)) is None:
        raise DataError("data.wrong_value", expected="a number", where=where, name=name, value=value)
    return found


def texts(row: Mapping[str, Any], name: str, where: str) -> tuple[str, ...]:
    """The distinct texts of a list, without blank ones."""
    return tuple(dict.fromkeys(one for one in _list(row, name, where, str) if one.strip()))


def identities(row: Mapping[str, Any], name: str, where: str) -> list[str]:
    """The ids of a list."""
    return [
        found for one in _list(row, name, where, str | int | float) if (found := identity({name: one}, name, where))
    ]


def objects(row: Mapping[str, Any], name: str, where: str) -> list[Mapping[str, Any]]:
    """The objects of a list, none if it is missing."""
    found: list[Mapping[str, Any]] = _list(row, name, where, dict)
    return found


def objects_of(row: Mapping[str, Any], name: str, where: str) -> list[Mapping[str, Any]]:
    """The objects of a list that must be there."""
    return objects(_having(row, name, where), name, where)


def _having(row: Mapping[str, Any], name: str, where: str) -> Mapping[str, Any]:
    if row.get(name) is None:
        fields = ", ".join(key for key, value in row.items() if value is not None) or "no fields"
        raise DataError("data.missing_field", where=where, name=name, fields=fields)
    return row


def _list(row: Mapping[str, Any], name: str, where: str, of: Any) -> list[Any]:
    value = row.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(one, of) for one in value):
        expected = f"a list of {'objects' if of is dict else 'texts'}"
        raise DataError("data.wrong_value", where=where, name=name, expected=expected, value=value)
    return value


def passage(given: Any, where: str, name: str) -> Passage:
    """A document that is a text, or an object with a text, perhaps with a title and an id."""
    if not isinstance(given, dict):
        return Passage("", text({name: given}, name, where))
    of_text, of_id = (next((key for key in keys if given.get(key) is not None), "") for keys in (TEXTS, IDS))
    if not of_text:
        raise DataError("data.wrong_value", expected="text or hold it", where=where, name=name, value=given)
    return Passage(text(given, "title", where), text(given, of_text, where), identity(given, of_id, where))


def refuse_judging_keys(cell: Any, where: str, column: str, read: Collection[str] = ()) -> None:
    """Refuse objects with keys, but `read` ones, that may say how right a pair is, and a chat's turns."""
    keys = {plain_name(key): key for key in unread_in(cell) if key not in read}
    if judging := sorted(keys.keys() & MEANINGFUL):
        raise DataError("data.label_in_object", where=where, column=column, key=keys[judging[0]])
    if "role" in keys:
        raise DataError("data.chat_in_cell", where=where, column=column)


def refuse_spelt_objects(rows: RowFile, columns: Sequence[str]) -> None:
    """Refuse columns of csv, tsv or a workbook with objects as texts, where their keys would be read as text."""
    with glance():
        first = [row for _, row in islice(rows.rows(columns), FIRST_ROWS)] if rows.suffix in FLAT else []
    for name in columns:
        cells = [str(row[name]) for row in first if row[name]]
        if cells and all(map(_SPELT_OBJECT.match, cells)):
            raise DataError("data.objects_in_cells", path=rows.path, column=name)


def are_lists(rows: RowFile, column: str | None) -> bool:
    """Whether all cells of a column that are not empty spell lists of texts, in the first rows.

    Raises:
        DataError: If most cells of a csv, tsv or workbook do, and others do not.
    """
    if column is None:
        return False
    with glance():
        cells = [list_in(str(row[column])) for _, row in islice(rows.rows([column]), FIRST_ROWS) if row[column]]
    found = [bool(texts and all(isinstance(text, str) for text in texts)) for texts in cells]
    if rows.suffix in FLAT and len(found) / 2 < sum(found) < len(found):
        raise DataError("data.lists_and_texts", path=rows.path, column=column)
    return bool(found) and all(found)


def unread_in(cell: Any) -> list[str]:
    """The keys with a value that `passage` does not read, of an object or of a list of them."""
    objects = (one for one in (cell if isinstance(cell, list) else (cell,)) if isinstance(one, dict))
    return sorted({key for one in objects for key, value in one.items() if value not in _EMPTY} - _READ)


def beyond(example: Example) -> dict[str, Any]:
    """Fields of a written row next to its format's own: split, if not train, and answers."""
    split = {"split": example.split} if example.split != "train" else {}
    return {**split, **({"answers": list(example.answers)} if example.answers else {})}


def joined(passage: Passage) -> str:
    """Title and text as one, for formats without titles."""
    return f"{passage.title}\n{passage.text}" if passage.title else passage.text


def columns_there(rows: RowFile, names: Mapping[PairColumn, str]) -> dict[PairColumn, str | None]:
    """A mapping to the existing ones of these columns."""
    return {**dict.fromkeys(NAMES), **{column: name for column, name in names.items() if name in rows.columns}}
