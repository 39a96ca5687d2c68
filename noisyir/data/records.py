"""Records of raw data of any format: documents, queries, judgements and negatives, each with its place."""

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from noisyir.base.errors import DataError
from noisyir.base.settings import Split
from noisyir.data import leniency

INTEGER = re.compile(r"(-?[0-9]{1,9})(\.0+)?")  # pandas makes floats of whole numbers


class Document(NamedTuple):
    """A document; `where` and `number` are its place, such as "corpus.jsonl line" and 7."""

    doc_id: str
    title: str
    text: str
    where: str
    number: int


class Query(NamedTuple):
    """A query, with the texts that count as its answer in question answering.

    Args:
        split: Of a query without judgements, None if unknown; else its judgements have it.
    """

    query_id: str
    text: str
    answers: tuple[str, ...]
    where: str
    number: int
    split: Split | None = None


class Judgement(NamedTuple):
    """The relevance of a document to a query: above 0 is relevant, None is not judged.

    Args:
        source: Origin of the pair (an article, a package), None if unknown.
        weight: Weight of the pair in training, None if unknown.
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

    @property
    def is_right(self) -> bool:
        """Whether it is relevant or unjudged."""
        return self.relevance is None or self.relevance > 0


class Negative(NamedTuple):
    """A document that the data gives as wrong for a query, perhaps with a model's score."""

    query_id: str
    doc_id: str
    score: float | None
    where: str
    number: int


class Documents(NamedTuple):
    """Many documents at once: a table of id, title and text without nulls; `number` is the first one's."""

    table: pa.Table
    where: str
    number: int


SingleRecord = Document | Query | Judgement | Negative
Record = SingleRecord | Documents


def place_of(record: SingleRecord) -> str:
    """The place of a record, for people."""
    return f"{record.where} {record.number}"


def as_id(value: Any) -> Any:
    """A whole number, perhaps as a float, as an id's text; other values as they are."""
    if isinstance(value, float):
        value = int(value) if value.is_integer() else None if math.isnan(value) else value
    return str(value) if type(value) is int else value


def relevance_of(text: str, where: str) -> int:
    """The relevance in a line of qrels; any text but an integer is a DataError."""
    if (found := INTEGER.fullmatch(text)) is None:
        raise DataError("data.wrong_relevance", where=where, value=text)
    return int(found[1])


class Source(Protocol):
    """One raw data set: opening it checks that its files exist; records are read as a stream."""

    @property
    def name(self) -> str:
        """The data set's name in messages and reports."""

    def digest(self) -> str:
        """A hash of the raw content: equal digests give equal records."""

    def records(self) -> Iterator[Record]:
        """All records, each file read once: a judgement or negative follows its document and its query.

        The order of documents decides `doc_row`.  A query's split is its judgements', if it has any.
        """

    def facts(self) -> dict[str, Any]:
        """JSON facts on how the data was made, known after the records were read."""


def one_by_one(records: Iterable[Record]) -> Iterator[SingleRecord]:
    """The records, with each of many documents as a row of its own."""
    for record in records:
        if isinstance(record, Documents):
            table, where, first = record
            columns = (column.to_pylist() for column in table.columns)
            for number, (doc_id, title, text) in enumerate(zip(*columns, strict=True), first):
                with leniency.row(where, number):
                    yield Document(doc_id, title, text, where, number)
        else:
            yield record
