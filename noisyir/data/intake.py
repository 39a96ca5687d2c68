"""The rules for records, the same for run, import and check: a record is kept, left out for a reason, or an error."""

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.errors import DataError
from noisyir.base.settings import Split
from noisyir.data.records import Document, Documents, Judgement, Negative, Query, Record, SingleRecord, place_of
from noisyir.data.settings import RecordParams

MAX_CHARACTERS = 1_000_000
AGAIN, JUDGED_OTHERWISE = "there before", "there before, and judged otherwise"
TOLERANT = RecordParams(on_empty="exclude", on_unknown="exclude")
_NO_TEXT, TOO_LONG = "no text", f"longer than {MAX_CHARACTERS:,} characters"
_NO_DOCUMENT, _NO_KEPT_DOCUMENT = "its document is not in the corpus", "its document is left out"
_NO_KEPT_QUERY = "its query is left out"
_IN_WORDS = {  # the faults in an account of rows
    "data.empty_id": "{kind} without an id",
    _NO_TEXT: "{kind} without text",
    TOO_LONG: f"{{kind}} {TOO_LONG}",
    "data.repeated_document_id": "document id that occurs again",
    "data.repeated_query_id": "query id that occurs again",
    "data.unknown_query": "a query that is not there",
    _NO_KEPT_QUERY: "a query that is not there",
    "data.unknown_document_of_negative": "a document that is not there",
    _NO_DOCUMENT: "a document that is not there",
    _NO_KEPT_DOCUMENT: "a document that is not there",
    "data.two_splits": "a query that is in split {split}, too",
}


@dataclass(slots=True)
class TakenQuery:
    """A query, its number among all queries, and what gives its split: the first kept judgement, else the query."""

    record: Query
    row: int
    split_from: Query | Judgement

    @property
    def split(self) -> Split | None:
        """The split, None if it is unknown."""
        return self.split_from.split


class Intake:
    """Takes records in their order; ids, queries and pairs stay in memory, texts of documents do not.

    Args:
        name: The data set's, in messages.
        params: Which records are left out, and which are errors.
        may_repeat: Whether a pair of one split may be judged again; the first judgement counts.
    """

    def __init__(self, name: str, params: RecordParams, *, may_repeat: bool) -> None:
        self.name, self.params, self.may_repeat = name, params, may_repeat
        self.rest: Iterable[Record] = ()  # the records to come, which an error may count
        self.queries: dict[str, TakenQuery] = {}  # kept or left out
        self.left_out: dict[tuple[str, str], str] = {}  # (kind, id) -> reason
        self.kept_documents = 0
        self.pairs: dict[int, int] = {}  # a kept judgement's key -> its number
        self.right: set[int] = set()  # of pairs, the relevant and the unjudged ones
        self.negatives: set[int] = set()
        self._documents: dict[str, int] = {}  # id -> row, kept or left out
        self._numbers = array("q")  # of documents, by row
        self._take: dict[type, Callable[[Any], str | None]] = {
            Document: self._document, Query: self._query, Judgement: self._judgement, Negative: self._negative,
        }  # fmt: skip

    def take(self, record: SingleRecord) -> str | None:
        """Return the reason why a record is left out, None if it is kept; a fault that must not be is a DataError."""
        return self._take[type(record)](record)

    def fault(self, record: SingleRecord) -> str | None:
        """Return the reason why a record is left out, or the code of its error; None if it is kept."""
        try:
            return self._take[type(record)](record)
        except DataError as error:
            return error.code

    def in_words(self, fault: str, record: SingleRecord) -> str:
        """A fault in the words of an account of rows."""
        query = self.queries.get(getattr(record, "query_id", ""))
        return _IN_WORDS[fault].format(kind=type(record).__name__.lower(), split=query and query.split)

    def take_all(self, record: Documents) -> bool:
        """Take many documents at once, or none of them if one may have a fault."""
        table, ids = record.table, record.table["_id"].to_pylist()
        blank = _is_blank(table["text"]) & _is_blank(table["title"]) | _is_blank(table["_id"])
        longest = pc.max(pc.add(pc.binary_length(table["title"]), pc.binary_length(table["text"]))).as_py()
        fresh = dict(zip(ids, range(len(self._documents), len(self._documents) + len(ids)), strict=True))
        if blank.any() or longest > MAX_CHARACTERS or len(fresh) < len(ids) or self._documents.keys() & fresh.keys():
            return False
        self._documents |= fresh
        self.kept_documents += len(fresh)
        self._numbers.frombytes(np.arange(record.number, record.number + len(ids), dtype=np.int64).tobytes())
        return True

    def key(self, record: Judgement | Negative) -> int:
        """A pair of known ids as one number: the query's row, then the document's in 32 bits."""
        return self.queries[record.query_id].row << 32 | self._documents[record.doc_id]

    def refuse_empty(self, documents: int) -> None:
        """Refuse a corpus without documents."""
        if not documents:
            raise DataError("data.empty_corpus", name=self.name)

    def _document(self, record: Document) -> str | None:
        if not record.doc_id.strip():
            raise DataError("data.empty_id", place=place_of(record), kind="document")
        row = self._documents.setdefault(record.doc_id, len(self._numbers))
        if row < len(self._numbers):
            place, first = place_of(record), self._numbers[row]
            raise DataError("data.repeated_document_id", place=place, doc_id=record.doc_id, first=first)
        self._numbers.append(record.number)
        reason = self._reason("document", record, record.title) or self._outside_slice(record.doc_id)
        if reason:
            self.left_out["document", record.doc_id] = reason
        self.kept_documents += not reason
        return reason

    def _query(self, record: Query) -> str | None:
        if not record.query_id.strip():
            raise DataError("data.empty_id", place=place_of(record), kind="query")
        if known := self.queries.get(record.query_id):
            place, first = place_of(record), place_of(known.record)
            raise DataError("data.repeated_query_id", place=place, query_id=record.query_id, first=first)
        self.queries[record.query_id] = TakenQuery(record, len(self.queries), record)
        reason = self._reason("query", record)
        if reason:
            self.left_out["query", record.query_id] = reason
        return reason

    def _judgement(self, record: Judgement) -> str | None:
        query, document = self._named(record)
        if document is None:
            return self._without_document(record)
        if (split := query.split) != record.split and split is not None:
            raise _two_splits(record, query)
        key = query.row << 32 | document
        if key in self.pairs:
            return self._again(record, key)
        if self.left_out and (reason := self._part_left_out(record)):
            return reason
        if split is None:
            query.split_from = record
        self.pairs[key] = record.number
        if record.is_right:
            self.right.add(key)
        return None

    def _negative(self, record: Negative) -> str | None:
        query, document = self._named(record)
        if document is None:
            raise DataError("data.unknown_document_of_negative", place=place_of(record), doc_id=record.doc_id)
        key = query.row << 32 | document
        if key in self.negatives:
            return AGAIN
        if self.left_out and (reason := self._part_left_out(record)):
            return reason
        self.negatives.add(key)
        return None

    def _named(self, record: Judgement | Negative) -> tuple[TakenQuery, int | None]:
        if (query := self.queries.get(record.query_id)) is None:
            raise DataError("data.unknown_query", place=place_of(record), query_id=record.query_id)
        return query, self._documents.get(record.doc_id)

    def _reason(self, kind: str, record: Document | Query, title: str = "") -> str | None:
        """The reason why a text is left out for itself."""
        text = record.text
        if (text and not text.isspace()) or (title and not title.isspace()):
            return TOO_LONG if len(title) + len(text) > MAX_CHARACTERS else None
        if self.params.on_empty == "error":
            raise DataError("data.empty_text", place=place_of(record), kind=kind, record_id=record[0])
        return _NO_TEXT

    def _outside_slice(self, doc_id: str) -> str | None:
        """The reason why a document is left out of a slice of the data."""
        share, most = self.params.document_share, self.params.max_documents
        if share < 1 and hashed(doc_id) >= share:
            return "beyond document_share"
        return "beyond max_documents" if most is not None and self.kept_documents >= most else None

    def _without_document(self, record: Judgement) -> str:
        if self.params.on_unknown == "exclude":
            return _NO_DOCUMENT
        self.refuse_empty(len(self._documents))
        named = {record.doc_id, *(other.doc_id for other in self.rest if isinstance(other, Judgement))}
        unknown = len(named - self._documents.keys())
        raise DataError("data.unknown_documents", place=place_of(record), doc_id=record.doc_id, n_unknown=unknown)

    def _again(self, record: Judgement, key: int) -> str:
        if self.may_repeat:
            return AGAIN if (key in self.right) == record.is_right else JUDGED_OTHERWISE
        place, first = place_of(record), self.pairs[key]
        raise DataError(
            "data.repeated_judgement", place=place, query_id=record.query_id, doc_id=record.doc_id, first=first
        )

    def _part_left_out(self, record: Judgement | Negative) -> str | None:
        if ("document", record.doc_id) in self.left_out:
            return _NO_KEPT_DOCUMENT
        return _NO_KEPT_QUERY if ("query", record.query_id) in self.left_out else None


def hashed(name: str) -> float:
    """A number in [0, 1) from an id: as good as random, and the same everywhere."""
    return int.from_bytes(sha256(name.encode()).digest()[:6]) / 2**48


def _two_splits(record: Judgement, query: TakenQuery) -> DataError:
    place, first, name, split = place_of(record), place_of(query.split_from), record.query_id, record.split
    return DataError("data.two_splits", place=place, query_id=name, split=split, first_split=query.split, first=first)


def _is_blank(column: pa.ChunkedArray) -> np.ndarray:
    blank: np.ndarray = (pc.binary_length(column).to_numpy() == 0) | pc.utf8_is_space(column).to_numpy()
    return blank
