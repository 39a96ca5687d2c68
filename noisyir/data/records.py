"""What a raw data set consists of, whatever its format: documents, queries and judgements, each with its place."""

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple, Protocol, runtime_checkable

from noisyir.errors import DataError
from noisyir.settings import Split

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


Record = Document | Query | Judgement | Negative


def relevance_of(text: str, where: str) -> int:
    """The relevance that a line of qrels states.  DataError, starting with `where`, when it is not an integer."""
    if not _INTEGER.fullmatch(text):
        raise DataError(f"{where}: the relevance must be an integer, found {text!r}")
    return int(text)


class Source(Protocol):
    """One raw data set.  Opening it is cheap and checks that its files are there; records are read as a stream."""

    @property
    def name(self) -> str:
        """What messages and reports call the data set."""

    def digest(self) -> str:
        """A hash of the raw content: equal digests give equal records."""

    def documents(self) -> Iterator[Document]:
        """Every document, in the order that decides `doc_row`."""

    def queries(self) -> Iterator[Query]:
        """Every query."""

    def judgements(self) -> Iterator[Judgement]:
        """Every judgement; a query's split is that of its judgements, where it has any."""

    def facts(self) -> dict[str, Any]:
        """What is worth keeping about how the data was made (JSON); known once the records were read."""


@runtime_checkable
class GivesNegatives(Protocol):
    """A source that knows wrong documents, too."""

    def negatives(self) -> Iterator[Negative]:
        """Every document that the data gives as a wrong one for a query, once."""


@runtime_checkable
class OnePass(Protocol):
    """A source whose files are best read once."""

    def records(self) -> Iterator[Record]:
        """All that there is: a judgement or negative comes after its document and its query."""


def negatives_of(source: Source) -> Iterator[Negative]:
    """The wrong documents that a source gives; none of one that knows of none."""
    return source.negatives() if isinstance(source, GivesNegatives) else iter(())


def records_of(source: Source) -> Iterator[Record]:
    """All records of a source, documents and queries before what names them."""
    if isinstance(source, OnePass):
        return source.records()
    return chain(source.documents(), source.queries(), source.judgements(), negatives_of(source))
