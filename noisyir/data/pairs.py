"""A file of (query, document) pairs as people have them, with the documents' texts in it or in a corpus file."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from noisyir.data.records import Document, Judgement, Query
from noisyir.data.row_files import RowFile
from noisyir.data.settings import PairColumn
from noisyir.engine.provenance import files_digest
from noisyir.errors import DataError
from noisyir.settings import Split

Names = Mapping[PairColumn, tuple[str, ...]]

# In this order, each takes the first of its names that no other has taken: {title, text} are query and document.
_NAMES: Names = {
    "query_id": ("query_id", "qid", "_id", "id"),
    "doc_id": ("doc_id", "docid", "pid", "corpus_id"),
    "document": ("document", "positive", "passage", "answer", "code", "context", "sentence2", "pos", "text"),
    "query": ("query", "question", "anchor", "text", "sentence1", "title"),
    "title": ("title",),
    "source": ("source", "topic", "domain"),
    "split": ("split",),
}
_CORPUS_NAMES: Names = {"doc_id": ("_id", "doc_id", "id"), "title": ("title",), "document": ("text",)}
_OF_CORPUS: tuple[PairColumn, ...] = ("document", "title")
_OF_DOCUMENT: tuple[PairColumn, ...] = ("doc_id", "document", "title")
_SPLITS: dict[str, Split] = {
    "": "train",
    "train": "train",
    "dev": "dev",
    "valid": "dev",
    "validation": "dev",
    "test": "test",
}


class Pair(NamedTuple):
    """One pair of the file; with a corpus file, title and document are empty."""

    query_id: str
    query: str
    doc_id: str
    title: str
    document: str
    source: str | None
    split: Split
    number: int


@dataclass
class _Asked:
    """Distinct queries and pairs, and how many rows repeat a pair."""

    queries: list[Query]
    judgements: list[Judgement]
    repeated: int


@dataclass(frozen=True)
class PairsFile:
    """Ids that the file does not give are hashes of the text: equal texts are one query, or one document.

    The file is read twice, so that the documents' texts need not stay in memory.
    """

    name: str
    pairs: RowFile
    columns: dict[PairColumn, str]
    corpus: RowFile | None

    @classmethod
    def open(cls, path: str | None, corpus: str | None, mapping: Mapping[PairColumn, str | None]) -> "PairsFile":
        """DataError when a file is missing or of another format, or a column that is needed is not there."""
        if path is None:
            raise DataError("dataset pairs needs a file: data.path=FILE (jsonl, csv, tsv or parquet)")
        pairs = RowFile.open(path, "data.path")
        if corpus is None:
            columns = choose_columns(pairs, mapping, _NAMES)
            _need_texts(pairs, columns)
            return cls(_name(pairs.path), pairs, columns, None)
        if texts := [column for column in _OF_CORPUS if mapping.get(column)]:
            raise DataError(f"data.columns maps {', '.join(texts)}, but with data.corpus the texts come from there")
        names = {column: known for column, known in _NAMES.items() if column not in _OF_CORPUS}
        columns = choose_columns(pairs, mapping, names)
        _need(pairs, columns, ("query", "doc_id"), _NAMES)
        return cls(_name(pairs.path), pairs, columns, open_corpus(corpus, "data.corpus"))

    def digest(self) -> str:
        """A hash of the bytes and names of the pairs file and of the corpus file, wherever the two lie."""
        files = [file.path for file in (self.pairs, self.corpus) if file]
        return sha256("\n".join(files_digest(path.parent, [path]) for path in files).encode()).hexdigest()

    def documents(self) -> Iterator[Document]:
        """The corpus file's documents, or the distinct ones that the pairs hold, in the order of the file."""
        if self.corpus:
            yield from corpus_documents(self.corpus)
            return
        met = _Met("doc_id", self.pairs.place)
        for pair in self.pairs_in_order():
            if met.is_new(pair.doc_id, (pair.title, pair.document), pair.number):
                yield Document(pair.doc_id, pair.title, pair.document, self.pairs.place, pair.number)

    def queries(self) -> Iterator[Query]:
        """The distinct queries, in the order of the file."""
        return iter(self._asked.queries)

    def judgements(self) -> Iterator[Judgement]:
        """The distinct pairs: those of dev and test as relevant, those of train as judged by nobody."""
        return iter(self._asked.judgements)

    def facts(self) -> dict[str, Any]:
        """Which column was taken for what, and how many rows repeat an earlier pair."""
        return {"columns": self.columns, "repeated_pairs": self._asked.repeated}

    @cached_property
    def _asked(self) -> _Asked:
        asked, met, place = _Asked([], [], 0), _Met("query_id", self.pairs.place), self.pairs.place
        splits: dict[tuple[str, str], Split] = {}
        for query_id, query, doc_id, _, _, source, split, number in self.pairs_in_order():
            if met.is_new(query_id, query, number):
                asked.queries.append(Query(query_id, query, (), place, number))
            if splits.get((query_id, doc_id)) == split:
                asked.repeated += 1
                continue
            splits[query_id, doc_id] = split
            relevance = None if split == "train" else 1
            asked.judgements.append(Judgement(query_id, doc_id, relevance, split, source, place, number))
        return asked

    def pairs_in_order(self) -> Iterator[Pair]:
        """Every row with a pair in it, with its place; rows that name several documents give several."""
        number, place = 0, self.pairs.place
        for number, row in self.pairs.rows(list(dict.fromkeys(self.columns.values()))):
            values = {column: row[name] for column, name in self.columns.items()}
            for one in _documents_of(values, place, number):
                yield self._pair(_Cells(one, self.columns, place, number))
        if not number:
            raise DataError(f"{self.pairs.path} holds no pairs")

    def _pair(self, cell: "_Cells") -> Pair:
        query, title, document = cell.text("query"), cell.text("title"), cell.text("document")
        named = cell.text("split")
        split = _SPLITS.get(named)
        if split is None:
            raise DataError(
                f"{cell.where}: {self.columns['split']!r} must be train, dev or test, found {named!r:.60}; "
                "data.columns={split: null} makes all pairs training pairs"
            )
        query_id = cell.name("query_id") if "query_id" in self.columns else cell.content_id(query)
        doc_id = cell.name("doc_id") if "doc_id" in self.columns else cell.content_id(title, document)
        source = cell.name("source") if "source" in self.columns else ""
        return Pair(query_id, query, doc_id, title, document, source or None, split, cell.number)


def choose_columns(file: RowFile, mapping: Mapping[PairColumn, str | None], names: Names) -> dict[PairColumn, str]:
    """The file's column for each thing of a pair: as mapped (None: no column), else the first of its usual names.

    Case does not matter, and `-` is `_`.  DataError for a mapped column that is not there.
    """
    chosen = {column: name for column, name in mapping.items() if name is not None}
    if unknown := {column: name for column, name in chosen.items() if name not in file.columns}:
        column, name = next(iter(unknown.items()))
        raise DataError(f"{file.path} has no column {name!r}, which data.columns maps to {column}; {_found(file)}")
    free = {name.lower().replace("-", "_"): name for name in file.columns if name not in chosen.values()}
    for column, usual in names.items():
        if column not in mapping and (fits := [name for name in usual if name in free]):
            chosen[column] = free.pop(fits[0])
    return chosen


def _need(file: RowFile, columns: Mapping[PairColumn, str], needed: Sequence[PairColumn], names: Names) -> None:
    for column in needed:
        if column not in columns:
            how = f"; map one with data.columns={{{column}: NAME}}" if names is _NAMES else ""
            raise DataError(f"{file.path} has no column for {column} ({', '.join(names[column])}); {_found(file)}{how}")


def _need_texts(pairs: RowFile, columns: Mapping[PairColumn, str]) -> None:
    _need(pairs, columns, ("query",), _NAMES)
    if "document" not in columns:
        named = f"names documents ({columns['doc_id']!r})" if "doc_id" in columns else "has no column for document"
        raise DataError(
            f"pairs without a corpus: {pairs.path} {named} but holds no text of theirs; {_found(pairs)}; "
            "map the text with data.columns={document: NAME}, or give data.corpus=FILE and map doc_id"
        )


def _found(file: RowFile) -> str:
    return f"it has {', '.join(file.columns)}"


def _name(path: Path) -> str:
    return path.name.split(".")[0]


def open_corpus(path: str, setting: str) -> RowFile:
    """A file of documents.  DataError, naming `setting`, when it is missing, or lacks their ids or texts."""
    file = RowFile.open(path, setting)
    _need(file, choose_columns(file, {}, _CORPUS_NAMES), ("doc_id", "document"), _CORPUS_NAMES)
    return file


def corpus_documents(file: RowFile) -> Iterator[Document]:
    """The documents of such a file, in its order."""
    columns = choose_columns(file, {}, _CORPUS_NAMES)
    for number, row in file.rows(list(columns.values())):
        values = {column: row[name] for column, name in columns.items()}
        cell = _Cells(values, columns, file.place, number)
        yield Document(cell.name("doc_id"), cell.text("title"), cell.text("document"), file.place, number)


def _documents_of(values: dict[PairColumn, Any], place: str, number: int) -> Iterator[dict[PairColumn, Any]]:
    """One pair for each document, where a row lists several (`pos: [.., ..]`)."""
    lists = {column: values[column] or [None] for column in _OF_DOCUMENT if isinstance(values.get(column), list)}
    if len({len(items) for items in lists.values()}) > 1:
        raise DataError(f"{place} {number}: {' and '.join(lists)} list different numbers of documents")
    if not lists:
        yield values
    for items in zip(*lists.values(), strict=True):
        yield {**values, **dict(zip(lists, items, strict=True))}


class _Cells(NamedTuple):
    """The values of a row, each as what it must be."""

    values: Mapping[PairColumn, Any]
    columns: Mapping[PairColumn, str]
    place: str
    number: int

    @property
    def where(self) -> str:
        """The row's place in messages."""
        return f"{self.place} {self.number}"

    def text(self, column: PairColumn) -> str:
        """A text; nothing is the empty text.  DataError for anything else."""
        value = self.values.get(column)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise DataError(f"{self.where}: {self.columns[column]!r} must be text, found {value!r:.60}")
        return value

    def name(self, column: PairColumn) -> str:
        """An id, a source: a text or a whole number."""
        value = self.values[column]
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        return self.text(column)

    def content_id(self, *texts: str) -> str:
        """16 hex digits that depend on the texts alone; the row's number where they are empty."""
        if not "".join(texts).strip():
            return f"row {self.number}"
        return sha256("\0".join(texts).encode()).hexdigest()[:16]


class _Met:
    """Which ids were met, and with what text: a hash of it, for the texts themselves may not fit in memory."""

    def __init__(self, column: PairColumn, place: str) -> None:
        self.column, self.place = column, place
        self._first: dict[str, tuple[int, int]] = {}

    def is_new(self, name: str, content: object, number: int) -> bool:
        """Whether this id was not met before.  DataError when it was, with another text."""
        if name not in self._first:
            self._first[name] = hash(content), number
            return True
        first, at = self._first[name]
        if first != hash(content):
            raise DataError(
                f"{self.place} {number}: {self.column} {name!r} has another text than at {at}; mend it, "
                f"or let ids follow from the texts with data.columns={{{self.column}: null}}"
            )
        return False
