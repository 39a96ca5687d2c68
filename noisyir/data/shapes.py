"""Parts of rows that several formats share: passages as objects, and lists of them."""

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import islice, product
from statistics import median
from typing import Any

from noisyir.base.command_line import with_columns
from noisyir.base.errors import DataError
from noisyir.data.columns import NAMES, PairColumn, corpus_documents, found_in, open_corpus
from noisyir.data.containers import FIRST_ROWS, FLAT
from noisyir.data.containers.split_folder import SPLIT_WORDS
from noisyir.data.examples import Example, Passage
from noisyir.data.labels import JUDGING
from noisyir.data.leniency import glance
from noisyir.data.records import as_id
from noisyir.data.row_files import RowFile, plain_name
from noisyir.data.spelt import is_missing, list_in, number_in, text_in

# Keys of a document that is an object
TEXTS = ("text", "content", "contents", "page_content", "passage", "document", "body")
IDS = ("docid", "passage_id", "psg_id", "doc_id", "pid", "_id", "id")
_READ = {"title", *TEXTS, *IDS}
_SPELT_OBJECT = re.compile(r"""\s*\[?\s*\{\s*['"]\w+['"]\s*:""")
_EMPTY: tuple[Any, ...] = (None, "", [], {})
OF_DOCUMENT: tuple[PairColumn, ...] = ("doc_id", "document", "title", "weight", "score", "label")
_SPLIT = re.compile("(.*_)?(split|split_name|partition|subset|fold|set)")  # if all values are names of splits
_ASKING, _FEW = ("?", "\uff1f", "\u061f"), 10  # signs; rows, below which none are called swapped
_ADDRESS = re.compile(r"(https?://|www\.)\S+|[\w./\\-]+\.(pdf|html?|txt|docx?|md)")
_NO_TEXTS = {
    "are addresses": _ADDRESS,
    "are ids": re.compile(r"(?=\S*[A-Z_:-])(?=\S*[A-Za-z])(?=\S*\d)[\w:-]{4,40}"),
    "join several texts": re.compile(r".*\S\s*(\|\||\[SEP\]|<sep>)\s*\S.*", re.DOTALL | re.IGNORECASE),
}
_FLOAT = re.compile(r"\d+\.0")
_LONG = 20  # signs; where most texts have so many, these are none, the errors of spreadsheets among them
_NOTHING = re.compile(
    r"\s*(\(?(none|null|nan)\)?|n[/.]?a\.?|\\n|undefined|tbd|#n/a|#[a-z0-9/]+[!?]|[-\u2013\u2014]+|[.?]+|\[\]|\{\}|''|"
    r"[\"\u3003]|ditto)\s*",
    re.IGNORECASE,
)
_PEEKED, _REPEATED = 1000, 0.01  # rows, and the share with an earlier query above which ids that all differ are rows'
_IDS: tuple[PairColumn, ...] = ("doc_id", "negative_id")
_IDS_OF_ANY = ("question_id", "_id", "id")  # query_id says that it is the query's, as names of doc_id do


def open_rows(kind: str, path: str | None, needed: Sequence[str]) -> RowFile:
    """The rows of a format, if the file has the columns that it needs."""
    if path is None:
        raise DataError("data.format_file_missing", kind=kind)
    rows = RowFile.open(path, "data.path")
    if missing := [name for name in needed if name not in rows.columns]:
        lacks, has = ", ".join(missing), found_in(rows)
        raise DataError("data.format_columns_missing", path=path, kind=kind, missing=lacks, found_in=has)
    return rows


def corpus_of(kind: str, path: str | None) -> RowFile:
    """The documents' file, for rows that name documents by id."""
    if path is None:
        raise DataError("data.corpus_file_missing", kind=kind)
    return open_corpus(path, "data.corpus", named="")


def text(row: Mapping[str, Any], name: str, where: str) -> str:
    """A text, empty if missing."""
    return text_in(row.get(name), name, where)


def text_of(row: Mapping[str, Any], name: str, where: str) -> str:
    """A text that must be there, perhaps empty."""
    return text(_having(row, name, where), name, where)


def identity(row: Mapping[str, Any], name: str, where: str) -> str | None:
    """An id, a text or a whole number; None if missing."""
    value = as_id(row.get(name))
    if is_missing(value):
        return None
    if not isinstance(value, str):
        raise DataError("data.wrong_value", expected="an id", where=where, name=name, value=value)
    return value


def number(row: Mapping[str, Any], name: str, where: str) -> float | None:
    """A score, perhaps written as text; None if missing."""
    value = row.get(name)
    if is_missing(value):
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
    if isinstance(cell, str):  # as most are
        return
    keys = {plain_name(key): key for key in unread_in(cell) if key not in read}
    if judging := sorted(JUDGING.intersection(keys)):
        raise DataError("data.label_in_object", where=where, column=column, key=keys[judging[0]])
    if "role" in keys:
        raise DataError("data.chat_in_cell", where=where, column=column)


def refuse_spelt_objects(rows: RowFile, columns: Sequence[str]) -> None:
    """Refuse columns of csv, tsv or a workbook with objects as texts, where their keys would be read as text."""
    first = rows.first(columns) if rows.suffix in FLAT else []
    for name in columns:
        cells = [str(row[name]) for row in first if row[name]]
        if cells and all(map(_SPELT_OBJECT.match, cells)):
            raise DataError("data.objects_in_cells", path=rows.path, column=name)


def refuse_swapped(rows: RowFile, query: str, document: str) -> None:
    """Refuse documents that ask, with queries that do not and are longer."""
    pairs = [(row[query], row[document]) for row in rows.first([query, document])]
    pairs = [pair for pair in pairs if all(isinstance(text, str) and text for text in pair)]
    asked, read = (
        sum(text.rstrip().endswith(_ASKING) for text in texts) for texts in zip(*pairs or [("", "")], strict=True)
    )
    is_longer = median(len(one) - len(two) for one, two in pairs or [("", "")]) > 0
    if is_longer and len(pairs) >= _FEW and read > 0.8 * len(pairs) and asked < 0.2 * len(pairs):
        turned, kept = (with_columns({"query": one, "document": two}, rows.path)
                        for one, two in ((document, query), (query, document)))  # fmt: skip
        raise DataError("data.swapped", path=rows.path, query=query, document=document, turned=turned, kept=kept)


def refuse_dumped_posts(rows: RowFile, query: str, document: str) -> None:
    """Refuse titles with their bodies where a column says which other row is the answer."""
    plain = {plain_name(name): name for name in rows.columns}
    answer = plain.get("accepted_answer_id") or plain.get("parent_id")
    if answer and (plain_name(query), plain_name(document)) == ("title", "body"):
        kept = with_columns({"query": query, "document": document}, rows.path)
        raise DataError("data.answers_elsewhere", path=rows.path, column=answer, document=document, kept=kept)


def are_texts(texts: Sequence[str]) -> bool:
    """Whether texts may be queries or documents: several differ, and some are neither numbers nor addresses."""
    is_varied = len(texts) < _FEW or len({*texts}) > 1
    return is_varied and any(number_in(one) is None and not _ADDRESS.fullmatch(one) for one in texts)


def refuse_no_texts(rows: RowFile, columns: Mapping[PairColumn, str]) -> None:
    """Refuse columns of documents that hold mostly ids or addresses, or several texts in one."""
    sides: tuple[PairColumn, ...] = ("document", "negative")
    for what, (fault, pattern) in product([side for side in sides if side in columns], _NO_TEXTS.items()):
        column, given = columns[what], first_texts(rows, columns[what])
        if len(given) >= _FEW and len(found := [*filter(pattern.fullmatch, given)]) > 0.8 * len(given):
            kept, one = f"; {with_columns({what: column}, rows.path)} keeps them as they are", found[0]
            raise DataError("data.no_texts", path=rows.path, column=column, fault=fault, one=one, kept=kept)


def first_texts(rows: RowFile, column: str) -> list[str]:
    """The texts of a column's first rows, in lists or not."""
    cells = (row[column] for row in rows.first([column]))
    return [one for cell in cells for one in (cell if isinstance(cell, list) else [cell]) if isinstance(one, str)]


def are_lists(rows: RowFile, column: str | None) -> bool:
    """Whether all first cells that are not empty spell lists of texts; only most of a flat file is a DataError."""
    if column is None:
        return False
    cells = [list_in(str(row[column])) for row in rows.first([column]) if row[column]]
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


def split_column(pairs: RowFile, columns: Mapping[PairColumn, str]) -> str | None:
    """A free column of splits in the first rows: by its name, or with train among several."""
    free = [name for name in pairs.columns if name not in columns.values()]
    rows = pairs.first(free)
    for name in free:
        splits = {SPLIT_WORDS.get(str(cell).strip().lower()) for row in rows if (cell := row[name])}
        if splits and None not in splits and (_SPLIT.fullmatch(plain_name(name)) or {"train"} < splits):
            return name
    return None


def ids_of_others(pairs: RowFile, columns: Mapping[PairColumn, str]) -> bool:
    """Whether a column, with a name that does not say so, is no query's id: in the first rows an id has several.

    `id` is the row's where all differ, and queries are repeated.
    """
    if (id_name := plain_name(columns.get("query_id", ""))) not in _IDS_OF_ANY or "query" not in columns:
        return False
    names = [columns["query_id"], columns["query"]]
    rows = [tuple(" ".join(str(row[name] or "").split()) for name in names) for row in pairs.first(names, _PEEKED)]
    rows = [row for row in rows if row[1]]
    ids, queries = ({row[place] for row in rows} for place in (0, 1))
    number_rows = len(ids) == len(rows) and len(rows) - len(queries) > _REPEATED * len(rows)
    return len({row for row in rows if row[0]}) > len(ids - {""}) or (id_name != "question_id" and number_rows)


def listed_in(pairs: RowFile, columns: Mapping[PairColumn, str], *, texts_in: bool) -> tuple[PairColumn, ...]:
    """The queries, if they are lists, and the parts of documents that are lists spelt in cells."""
    found: list[PairColumn] = ["query"] if are_lists(pairs, columns.get("query")) else []
    if pairs.suffix in FLAT and texts_in and are_lists(pairs, columns.get("document")):
        found += [column for column in OF_DOCUMENT if column in columns]
    return tuple(found)


def unread_keys(pairs: RowFile, columns: Mapping[PairColumn, str], numbered: Sequence[str]) -> tuple[str, ...]:
    """COLUMN.KEY of what objects among the first texts hold besides a text, a title and an id."""
    named = text_columns(columns, numbered)
    rows = pairs.first(named)
    return tuple(f"{name}.{key}" for name in named for key in sorted({k for row in rows for k in unread_in(row[name])}))


def float_ids(pairs: RowFile, columns: Mapping[PairColumn, str], corpus: RowFile) -> tuple[PairColumn, ...]:
    """The columns of ids that all end with .0 in the first rows, if none does so in the corpus."""
    with glance():
        there = [document.doc_id for document in islice(corpus_documents(corpus), FIRST_ROWS)]
    if any(map(_FLOAT.fullmatch, there)):
        return ()
    named = {column: columns[column] for column in _IDS if column in columns}
    ids = {column: {str(row[name]) for row in pairs.first([name]) if row[name]} for column, name in named.items()}
    return tuple(column for column, some in ids.items() if some and all(map(_FLOAT.fullmatch, some)))


def long_texts(pairs: RowFile, named: Sequence[str]) -> tuple[str, ...]:
    """The columns of which most first texts are long, so that "None" is hardly an answer among them."""
    rows = pairs.first(named)
    texts = {name: [one for row in rows if isinstance(one := row[name], str) and not is_nothing(one)] for name in named}
    return tuple(name for name, some in texts.items() if some and median(map(len, some)) >= _LONG)


def is_nothing(value: Any) -> bool:
    """Whether a text says that there is none, such as N/A, - and #REF!."""
    return isinstance(value, str) and len(value) < _LONG and bool(_NOTHING.fullmatch(value))


def text_columns(columns: Mapping[PairColumn, str], numbered: Sequence[str]) -> list[str]:
    """The columns of queries, documents and negatives."""
    return [columns[what] for what in ("query", "document", "negative") if what in columns] + [*numbered]
