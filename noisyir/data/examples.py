"""Rows that hold a query with its documents, and data sets of such rows."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from noisyir.base.errors import DataError
from noisyir.base.settings import PROMOTION, Split
from noisyir.data.columns import Cells, PairColumn, corpus_documents, unread
from noisyir.data.containers.split_folder import SPLIT_WORDS
from noisyir.data.labels import JUDGING, LabelColumn
from noisyir.data.leniency import row
from noisyir.data.records import Document, Judgement, Negative, Query, Record
from noisyir.data.row_files import RowFile
from noisyir.engine.provenance import files_digest

SPLITS: Mapping[str, Split] = {"": "train", PROMOTION: PROMOTION, **SPLIT_WORDS}


class Passage(NamedTuple):
    """A document in a row; with a corpus file, title and text are empty.

    Args:
        doc_id: None if it follows from the text.
        score: By a model.
        relevance: As a person judged; None if unjudged.
    """

    title: str
    text: str
    doc_id: str | None = None
    score: float | None = None
    weight: float | None = None
    relevance: int | None = None


class Example(NamedTuple):
    """A query with its documents and wrong ones; query_id is None if it follows from the text."""

    query: str
    positives: Sequence[Passage] = ()
    negatives: Sequence[Passage] = ()
    query_id: str | None = None
    answers: tuple[str, ...] = ()
    split: Split = "train"
    source: str | None = None


class Placed(NamedTuple):
    """A row's raw values, and its place."""

    place: str
    number: int
    value: Any

    @property
    def where(self) -> str:
        """The row's place in messages."""
        return f"{self.place} {self.number}"


class ExampleSource(ABC):
    """A data set of examples.  Missing ids are hashes of the text: equal texts are one query or document.

    Args:
        repeats_pairs: Whether several rows may hold one pair.
        is_mapped: Whether users may say which of its columns is what.
    """

    repeats_pairs: ClassVar[bool] = True
    is_mapped: ClassVar[bool] = False
    name: str
    corpus: RowFile | None = None
    labels: LabelColumn | None = None

    @abstractmethod
    def paths(self) -> Sequence[Path]:
        """All files that are read."""

    @abstractmethod
    def rows(self) -> Iterator[Placed]:
        """Every row of every file."""

    @abstractmethod
    def example(self, found: Placed) -> Example:
        """The example in a row, or DataError."""

    @property
    def negatives_at(self) -> tuple[RowFile, tuple[str, ...]] | None:
        """The file and the columns that hold the negatives, in the order of an example's; None if it has none."""
        return None

    def named(self, column: PairColumn) -> str:
        """The name of a column in messages."""
        return column

    def given_documents(self) -> Iterator[Document] | None:
        """The documents of a separate file, None if the rows hold their texts."""
        return corpus_documents(self.corpus) if self.corpus else None

    def digest(self) -> str:
        """A hash of the bytes and names of all files, wherever they are."""
        return sha256("\n".join(files_digest(path.parent, [path]) for path in self.paths()).encode()).hexdigest()

    def records(self) -> Iterator[Record]:
        """The corpus file's documents, then each row's new query, new documents and pairs."""
        given = self.given_documents()
        yield from given or ()
        queries, documents = _SeenIds("query_id", self), None if given else _SeenIds("doc_id", self)
        for found in self.rows():
            with row(found.place, found.number):
                yield from self._records(found, self.example(found), queries, documents)

    def _records(
        self, found: Placed, given: Example, queries: "_SeenIds", documents: "_SeenIds | None"
    ) -> Iterator[Record]:
        place, number = found.place, found.number
        query_id = given.query_id if given.query_id is not None else content_id(number, given.query)
        if queries.is_new(query_id, given.query, found):
            split = given.split if given.answers else None
            yield Query(query_id, given.query, given.answers, place, number, split)
        for passages, wrong in ((given.positives, False), (given.negatives, True)):
            for title, text, named, score, weight, judged in passages:
                doc_id = named if named is not None else content_id(number, title, text)
                if documents and documents.is_new(doc_id, (title, text), found):
                    yield Document(doc_id, title, text, place, number)
                if wrong:
                    yield Negative(query_id, doc_id, score, place, number)
                else:
                    relevance = 1 if judged is None and given.split != "train" else judged
                    yield Judgement(
                        query_id, doc_id, relevance, given.split, given.source, place, number, weight, score
                    )

    def judgements(self) -> Iterator[Judgement]:
        """Every pair, repeated or not: relevant in dev and test, unjudged in train."""
        queries, documents = _SeenIds("query_id", self), None if self.corpus else _SeenIds("doc_id", self)
        for found in self.rows():
            records = self._records(found, self.example(found), queries, documents)
            yield from (record for record in records if isinstance(record, Judgement))

    def right_pairs(self) -> Iterator[tuple[Example, Passage]]:
        """Every query with each document that no label calls wrong."""
        for example in map(self.example, self.rows()):
            yield from ((example, one) for one in example.positives if one.relevance is None or one.relevance > 0)

    def facts(self) -> dict[str, Any]:
        """What its labels mean, if there are any."""
        return {"labels": self.labels.said} if self.labels else {}


@dataclass(frozen=True)
class ShapedRows(ExampleSource):
    """Rows of one shape in any container.

    Args:
        columns: Columns that `shape` reads.
        negatives: Columns of negatives.
        positives: The column with an item for each document, which an audit may rewrite.
        shape: Makes an example of a row's values and its place; the split is the row's own.
    """

    name: str
    file: RowFile
    columns: Sequence[str]
    shape: Callable[[Mapping[str, Any], str], Example]
    corpus: RowFile | None = None
    labels: LabelColumn | None = None
    negatives: tuple[str, ...] = ()
    positives: str = ""

    @property
    def negatives_at(self) -> tuple[RowFile, tuple[str, ...]]:
        """The file, and the columns of negatives."""
        return self.file, self.negatives

    def paths(self) -> Sequence[Path]:
        """The file and the corpus."""
        return [path for file in (self.file, self.corpus) if file for path in file.files]

    def rows(self) -> Iterator[Placed]:
        """The rows of the file, at least one."""
        number, place = 0, self.file.place
        used = [*self.columns, "split", "weight", *([self.labels.column] if self.labels else [])]
        names = [name for name in dict.fromkeys(used) if name in self.file.columns]
        for number, values in self.file.rows(names, JUDGING):
            yield Placed(place, number, values)
        if not number:
            raise DataError("data.no_rows", file=self.file.path)

    def example(self, found: Placed) -> Example:
        """The example by the shape, in the row's split."""
        given = self.shape(found.value, found.where)._replace(split=split_of(found.value.get("split"), found.where))
        if found.value.get("weight") is not None:
            given = given._replace(positives=_weighed(given.positives, found))
        if self.labels is None:
            return given
        grade = self.labels.grade(found.value[self.labels.column], found.where)
        return given._replace(positives=[one._replace(relevance=grade) for one in given.positives])

    def digest(self) -> str:
        """A hash of all files, and of the labels, which earlier versions did not read."""
        return f"{super().digest()}{'-label' if self.labels else ''}"


def _weighed(passages: Sequence[Passage], found: Placed) -> list[Passage]:
    """The documents of a row with its weights: one for each, or one for all."""
    place, number, row = found
    weights = row["weight"] if isinstance(row["weight"], list) else [row["weight"]] * len(passages)
    if len(weights) != len(passages):
        raise DataError("data.unequal_lists", place=place, number=number, lists="weight and the row")
    cells = (Cells({"weight": weight}, {"weight": "weight"}, place, number, is_mapped=False) for weight in weights)
    return [one._replace(weight=cell.weight()) for one, cell in zip(passages, cells, strict=True)]


def split_of(value: Any, where: str) -> Split:
    """The split in a cell, train if it is empty; any other word is a DataError."""
    split = SPLITS.get((value or "").lower()) if isinstance(value or "", str) else None
    if split is None:
        raise DataError("data.wrong_value", name="split", expected="train, dev or test", where=where, value=value)
    return split


def content_id(number: int, *texts: str) -> str:
    """16 hex digits that depend on the texts alone, or the row's number if they are empty."""
    if not "".join(texts).strip():
        return f"row {number}"
    return sha256("\0".join(texts).encode()).hexdigest()[:16]


class _SeenIds:
    """Ids so far, with a hash of their texts: the texts themselves may not fit into memory."""

    def __init__(self, column: PairColumn, source: ExampleSource) -> None:
        self.column, self.source = column, source
        self._first: dict[str, tuple[int, int]] = {}

    def is_new(self, name: str, content: object, found: Placed) -> bool:
        """Whether this id is new; DataError if it had another text before."""
        if name not in self._first:
            self._first[name] = hash(content), found.number
            return True
        first, at = self._first[name]
        if first != hash(content):
            column = self.source.named(self.column)
            null = unread(self.column, found.place, is_mapped=self.source.is_mapped)
            raise DataError("data.changed_text", where=found.where, column=column, name=name, first=at, unread=null)
        return False
