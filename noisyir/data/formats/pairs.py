"""A file of (query, document) pairs as people have them, with the documents' texts in it or in a corpus file."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from pydantic import Field

from noisyir.data.columns import (
    NAMES,
    Cells,
    PairColumn,
    choose_columns,
    corpus_documents,
    found_in,
    names_that_mean,
    need,
    open_corpus,
)
from noisyir.data.formats import Format
from noisyir.data.records import Document, Judgement, Query
from noisyir.data.row_files import RowFile
from noisyir.engine.provenance import files_digest
from noisyir.errors import DataError
from noisyir.settings import HELD_OUT, Location, Split

_OF_CORPUS: tuple[PairColumn, ...] = ("document", "title")
_OF_DOCUMENT: tuple[PairColumn, ...] = ("doc_id", "document", "title", "weight")
_SPLITS: Mapping[str, Split] = {
    "": "train",
    **{split: split for split in get_args(Split)},
    "valid": "dev",
    "validation": "dev",
}


class Pairs(Format):
    """A file of (query, document) pairs."""

    kind: Literal["pairs"] = "pairs"
    path: Location = Field(None, description="the file")
    corpus: Location = Field(None, description="the documents' file, where the pairs only name them")
    columns: dict[PairColumn, str | None] = Field(
        {}, description="which column is what, where the usual names do not tell; null: none is"
    )

    @property
    def has_weights(self) -> bool:
        """Whether the file has a column of weights; a file that is not there has none."""
        return self._is_there and "weight" in self.open().columns

    def held_out_splits(self) -> frozenset[Split]:
        """Those that a column of the file names; none where there is no such column, and no such file."""
        if not self._is_there or "split" not in (source := self.open()).columns:
            return frozenset()
        found: set[Split] = set()
        for pair in source.pairs_in_order():
            found.add(pair.split)
            if found.issuperset(HELD_OUT):
                break
        return frozenset(found.intersection(HELD_OUT))

    def count_pairs(self, at_most: int) -> int:
        """The rows of the file, read until there are so many."""
        if not self._is_there:
            return at_most
        return sum(1 for _ in islice(self.open().pairs_in_order(), at_most))

    @property
    def _is_there(self) -> bool:
        return self.path is not None and Path(self.path).is_file()

    def open(self, workers: int | None = None) -> "PairsFile":
        """DataError when a file is missing or of another format, or a column that is needed is not there."""
        if self.path is None:
            raise DataError("format pairs needs a file: data.path=FILE (jsonl, csv, tsv or parquet)")
        pairs = RowFile.open(self.path, "data.path")
        name = pairs.path.name.split(".")[0]
        if self.corpus is None:
            columns = choose_columns(pairs, self.columns, NAMES)
            _need_texts(pairs, columns)
            return PairsFile(name, pairs, columns, None, names_that_mean(self.columns, NAMES))
        if texts := [column for column in _OF_CORPUS if self.columns.get(column)]:
            raise DataError(f"data.columns maps {', '.join(texts)}, but with data.corpus the texts come from there")
        names = {column: known for column, known in NAMES.items() if column not in _OF_CORPUS}
        columns = choose_columns(pairs, self.columns, names)
        need(pairs, columns, ("query", "doc_id"), NAMES)
        corpus = open_corpus(self.corpus, "data.corpus")
        return PairsFile(name, pairs, columns, corpus, names_that_mean(self.columns, names))


class Pair(NamedTuple):
    """One pair of the file; with a corpus file, title and document are empty."""

    query_id: str
    query: str
    doc_id: str
    title: str
    document: str
    source: str | None
    split: Split
    weight: float | None
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

    meaningful: names of columns that would be read if the file had them.

    The file is read twice, so that the documents' texts need not stay in memory.
    """

    name: str
    pairs: RowFile
    columns: dict[PairColumn, str]
    corpus: RowFile | None
    meaningful: frozenset[str] = frozenset()

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

    def weights(self) -> Iterator[tuple[str, str, float]]:
        """(query_id, doc_id, weight) of the distinct training pairs to which the file gives one."""
        seen: set[tuple[str, str]] = set()
        for pair in self.pairs_in_order():
            ids = pair.query_id, pair.doc_id
            if pair.split == "train" and ids not in seen:
                seen.add(ids)
                if pair.weight is not None:
                    yield *ids, pair.weight

    def facts(self) -> dict[str, Any]:
        """Which column was taken for what, and how many rows repeat an earlier pair."""
        return {"columns": self.columns, "repeated_pairs": self._asked.repeated}

    @cached_property
    def _asked(self) -> _Asked:
        asked, met, place = _Asked([], [], 0), _Met("query_id", self.pairs.place), self.pairs.place
        splits: dict[tuple[str, str], Split] = {}
        for query_id, query, doc_id, _, _, source, split, _, number in self.pairs_in_order():
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
        for number, row in self.pairs.rows(list(dict.fromkeys(self.columns.values())), self.meaningful):
            values = {column: row[name] for column, name in self.columns.items()}
            for one in _documents_of(values, place, number):
                yield self._pair(Cells(one, self.columns, place, number))
        if not number:
            raise DataError(f"{self.pairs.path} holds no pairs: give it a row for each")

    def _pair(self, cell: Cells) -> Pair:
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
        return Pair(query_id, query, doc_id, title, document, source or None, split, cell.weight(), cell.number)


def _need_texts(pairs: RowFile, columns: Mapping[PairColumn, str]) -> None:
    need(pairs, columns, ("query",), NAMES)
    if "document" not in columns:
        named = f"names documents ({columns['doc_id']!r})" if "doc_id" in columns else "has no column for document"
        raise DataError(
            f"pairs without a corpus: {pairs.path} {named} but holds no text of theirs; {found_in(pairs)}; "
            "map the text with data.columns={document: NAME}, or give data.corpus=FILE and map doc_id"
        )


def _documents_of(values: dict[PairColumn, Any], place: str, number: int) -> Iterator[dict[PairColumn, Any]]:
    """One pair for each document, where a row lists several (`pos: [.., ..]`)."""
    lists = {column: values[column] or [None] for column in _OF_DOCUMENT if isinstance(values.get(column), list)}
    if lists.keys() == {"weight"} and len(lists["weight"]) > 1:
        raise DataError(f"{place} {number}: weight lists {len(lists['weight'])} numbers for one document: leave one")
    if len({len(items) for items in lists.values()}) > 1:
        raise DataError(f"{place} {number}: {' and '.join(lists)} list different numbers of documents: give each one")
    if not lists:
        yield values
    for items in zip(*lists.values(), strict=True):
        yield {**values, **dict(zip(lists, items, strict=True))}


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
