"""Records of raw data, whatever its format: documents, queries and judgements, each with its place."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from noisyir.base.errors import DataError
from noisyir.base.settings import Split
from noisyir.data import leniency

_INTEGER = re.compile(r"-?[0-9]{1,9}")


class Document(NamedTuple):
    """A document; `where` and `number` say its place in messages: "corpus.jsonl line" and 7."""

    doc_id: str
    title: str
    text: str
    where: str
    number: int


class Query(NamedTuple):
    """A query and, in question answering, the texts that count as its answer.

    split: of one without judgements, None where the data does not say; else judgements say it.
    """

    query_id: str
    text: str
    answers: tuple[str, ...]
    where: str
    number: int
    split: Split | None = None


class Judgement(NamedTuple):
    """How relevant a document is to a query: above 0 is relevant, None is a pair that nobody judged.

    `source` is where the pair came from (an article, a package), None where the data does not say.  weight: what the
    pair counts in training; score: what a model gave it; None where the data does not say.
    """

    query_id: str
    doc_id: str
    relevance: int | None
    split: Split
    source: str | None
    where: str
    number: int
    weight: float | None = None
    score: float | None = None


class Negative(NamedTuple):
    """A document that the data gives as a wrong one for a query; score: what a model gave the two, None: not said."""

    query_id: str
    doc_id: str
    score: float | None
    where: str
    number: int


class Documents(NamedTuple):
    """Many documents at once: a table of id, title and text, none of them null; `number` is that of the first."""

    table: pa.Table
    where: str
    number: int


Record = Document | Documents | Query | Judgement | Negative


def relevance_of(text: str, where: str) -> int:
    """The relevance that a line of qrels states.  DataError, starting with `where`, when it is not an integer."""
    if not _INTEGER.fullmatch(text):
        raise DataError("data.wrong_relevance", where=where, value=text)
    return int(text)


class Source(Protocol):
    """One raw data set.  Opening it is cheap and checks that its files are there; records are read as a stream."""

    @property
    def name(self) -> str:
        """The data set's name in messages and reports."""

    def digest(self) -> str:
        """A hash of the raw content: equal digests give equal records."""

    def records(self) -> Iterator[Record]:
        """All that there is, each file read once: a judgement or negative comes after its document and its query.

        Documents stand in the order that decides `doc_row`.  A query's split is that of its judgements, if it has any.
        """

    def facts(self) -> dict[str, Any]:
        """Facts about how the data was made (JSON); known once the records were read."""


def one_by_one(records: Iterable[Record]) -> Iterator[Document | Query | Judgement | Negative]:
    """The records, with each of many documents by itself and as a row of its own."""
    for record in records:
        if isinstance(record, Documents):
            table, where, first = record
            columns = (column.to_pylist() for column in table.columns)
            for number, (doc_id, title, text) in enumerate(zip(*columns, strict=True), first):
                with leniency.row(where, number):
                    yield Document(doc_id, title, text, where, number)
        else:
            yield record


class RecordsByKind:
    """A source's records, read once: documents pass through, all others are kept in lists by their kind."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.queries: list[Query] = []
        self.judgements: list[Judgement] = []
        self.negatives: list[Negative] = []

    def documents(self) -> Iterator[Document]:
        """Every document; when the last has passed, the lists are whole."""
        for record in one_by_one(self.source.records()):
            match record:
                case Document():
                    yield record
                case Query():
                    self.queries.append(record)
                case Judgement():
                    self.judgements.append(record)
                case Negative():
                    self.negatives.append(record)
