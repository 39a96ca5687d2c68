"""One check for all formats: faults are errors with their place, exclusions are counted."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Any

import pyarrow as pa

from noisyir.base.artifact import Artifact
from noisyir.base.errors import DataError
from noisyir.base.settings import PROMOTION, Split
from noisyir.data.artifacts import ANSWERS, CORPUS, EXCLUDED, GIVEN_NEGATIVES, PAIRS, QRELS, QUERIES
from noisyir.data.records import Document, Judgement, Negative, Query, Record, one_by_one
from noisyir.data.settings import RecordParams

MAX_CHARACTERS = 1_000_000
PART_DOCUMENTS = 50_000
_KINDS = ("document", "query", "judgement")  # in the order of what is left out
TRAINING: tuple[Split, ...] = ("train", "dev")  # dev pairs serve early stopping, never the gradient


class Validator:
    """Takes a source's records as they come, and makes tables of them.

    Ids, queries and judgements stay in memory; texts of documents pass through.

    Args:
        may_repeat: Whether a pair of one split may come again; the first counts, `repeated` counts the others.
    """

    def __init__(self, name: str, params: RecordParams, *, may_repeat: bool = False) -> None:
        self.name, self.params, self.may_repeat = name, params, may_repeat
        self.kept_documents = self.repeated = 0
        self._documents: dict[str, int] = {}  # every doc_id -> its number in the file
        self._queries: dict[str, Query] = {}
        self._pairs: dict[tuple[str, str], Judgement] = {}  # the first judgement of every query and document
        self._judged: dict[tuple[str, str], Judgement] = {}  # every judgement of a kept query and document
        self._negatives: dict[tuple[str, str], Negative] = {}
        self._split_from: dict[str, Judgement] = {}  # query_id -> the first judgement, which says the split
        self._left_out: dict[tuple[str, str], str] = {}  # (kind, id) -> reason

    def documents(self, records: Iterable[Record]) -> Iterator[pa.Table]:
        """Take in all records, and yield the corpus in parts of at most 50,000 rows; a faulty record is a DataError."""
        part: list[Document] = []
        records = one_by_one(records)
        others: dict[type, Callable[[Any], None]] = {
            Query: self._query, Judgement: partial(self._judgement, records), Negative: self._negative,
        }  # fmt: skip
        for record in records:
            if not isinstance(record, Document):
                others[type(record)](record)
            elif self._keeps_document(record):
                part.append(record)
            if len(part) == PART_DOCUMENTS:
                yield self._corpus_part(part)
                part = []
        yield self._corpus_part(part)
        self._refuse_empty(self.kept_documents)

    def _keeps_document(self, record: Document) -> bool:
        first = self._documents.setdefault(record.doc_id, record.number)
        if first != record.number:
            raise DataError("data.repeated_document_id", place=_place(record), doc_id=record.doc_id, first=first)
        kept = self._keeps("document", record.doc_id, f"{record.title}{record.text}", record)
        self.kept_documents += kept
        return kept

    def _query(self, record: Query) -> None:
        if first := self._queries.get(record.query_id):
            raise DataError(
                "data.repeated_query_id", place=_place(record), query_id=record.query_id, first=_place(first)
            )
        self._queries[record.query_id] = record
        self._keeps("query", record.query_id, record.text, record)

    def _judgement(self, rest: Iterator[Record], record: Judgement) -> None:
        first = self._pairs.setdefault((record.query_id, record.doc_id), record)
        if self.may_repeat and first is not record and first.split == record.split:
            self.repeated += 1
            return
        self._check_known(record, rest)
        if first.number != record.number:
            raise DataError(
                "data.repeated_judgement",
                place=_place(record),
                query_id=record.query_id,
                doc_id=record.doc_id,
                first=first.number,
            )
        self._keep_judgement(record)

    def _negative(self, record: Negative) -> None:
        pair, unknown = (record.query_id, record.doc_id), "of a negative: give its text, or leave it out"
        if record.query_id not in self._queries:
            raise DataError(
                "data.unknown_query_of_negative", place=_place(record), query_id=record.query_id, unknown=unknown
            )
        if record.doc_id not in self._documents:
            raise DataError(
                "data.unknown_document_of_negative", place=_place(record), doc_id=record.doc_id, unknown=unknown
            )
        if ("query", pair[0]) not in self._left_out and ("document", pair[1]) not in self._left_out:
            self._negatives.setdefault(pair, record)

    def tables(self) -> dict[str, pa.Table]:
        """Every artifact but the corpus, by name.

        Raises:
            DataError: If there is nothing to train on or to score.
        """
        if not self._judged and not any(map(self._is_answered, self._queries.values())):
            raise DataError("data.no_joined_judgement", name=self.name)
        self._left_out = dict(sorted(self._left_out.items(), key=lambda of: _KINDS.index(of[0][0])))
        splits = self._splits()
        judged = [record for record in self._judged.values() if record.query_id in splits]
        kept = [query for query in self._queries.values() if query.query_id in splits]
        positive = (record for record in judged if record.relevance is None or record.relevance > 0)
        training = [record for record in positive if splits[record.query_id] in TRAINING]
        rows: list[tuple[Artifact, Sequence[Sequence[Any]]]] = [
            (QUERIES, [(query.query_id, query.text, splits[query.query_id]) for query in kept]),
            (ANSWERS, [(query.query_id, query.answers) for query in kept if query.answers]),
            (PAIRS, [(record.query_id, record.doc_id, record.split, record.source) for record in training]),
            (QRELS, [record[:3] for record in judged if record.relevance is not None]),
            (GIVEN_NEGATIVES, [record[:3] for record in self._negatives.values() if record.query_id in splits]),
            (EXCLUDED, [(reason, kind, name) for (kind, name), reason in self._left_out.items()]),
        ]
        return {artifact.name: _table(artifact, found) for artifact, found in rows}

    def _splits(self) -> dict[str, Split]:
        """The split of every query that is kept: by its judgements, else as its answers or place allow."""
        splits = {record.query_id: record.split for record in self._judged.values()}
        for query_id, query in self._queries.items():
            if query_id in splits:
                continue
            if query.split is not None and self._is_answered(query):
                splits[query_id] = query.split
            elif self._may_train(query):
                splits[query_id] = "train"
            else:
                self._left_out.setdefault(("query", query_id), "no judgement of a kept document")
        for query_id, split in splits.items():
            if split == "dev" and _hashed(f"{PROMOTION}/{query_id}") < self.params.promotion_share:
                splits[query_id] = PROMOTION
        for query_id in self._beyond(splits):
            self._left_out["query", query_id] = "beyond max_held_out"
            del splits[query_id]
        return splits

    def _beyond(self, splits: Mapping[str, Split]) -> Iterator[str]:
        """Queries beyond `max_held_out` in each held-out split; the least hashed ids stay."""
        if self.params.max_held_out is None:
            return
        by_split: dict[Split, list[str]] = {}
        for query_id, split in splits.items():
            if split != "train":
                by_split.setdefault(split, []).append(query_id)
        for queries in by_split.values():
            yield from sorted(queries, key=_hashed)[self.params.max_held_out :]

    def excluded_counts(self) -> dict[str, int]:
        """Numbers of excluded records, by kind and reason."""
        return dict(Counter(f"{kind}: {reason}" for (kind, _), reason in self._left_out.items()))

    def _may_train(self, query: Query) -> bool:
        """Whether an unjudged query is kept for training."""
        wanted = self.params.unlabelled == "train" and query.split in (None, "train")
        return wanted and query.query_id not in self._split_from and ("query", query.query_id) not in self._left_out

    def _keeps(self, kind: str, record_id: str, text: str, record: Document | Query) -> bool:
        if reason := self._fault(kind, text, record):
            self._left_out[kind, record_id] = reason
        return not reason

    def _fault(self, kind: str, text: str, record: Document | Query) -> str | None:
        if not record[0].strip():
            raise DataError("data.empty_id", place=_place(record), kind=kind)
        if not text.strip():
            if self.params.on_empty == "error":
                raise DataError("data.empty_text", place=_place(record), kind=kind, record_id=record[0])
            return "no text"
        if len(text) > MAX_CHARACTERS:
            return f"longer than {MAX_CHARACTERS:,} characters"
        if kind == "document" and _hashed(record[0]) >= self.params.document_share:
            return "beyond document_share"
        most = self.params.max_documents
        beyond = kind == "document" and most is not None and self.kept_documents >= most
        return "beyond max_documents" if beyond else None

    def _is_answered(self, query: Query) -> bool:
        """Whether its answers alone can score a query."""
        kept = ("query", query.query_id) not in self._left_out
        return kept and query.split is not None and any(answer.strip() for answer in query.answers)

    def _check_known(self, record: Judgement, rest: Iterator[Record]) -> None:
        if record.query_id not in self._queries:
            raise DataError("data.unknown_query", place=_place(record), query_id=record.query_id)
        if record.doc_id not in self._documents and self.params.on_unknown == "error":
            self._refuse_empty(len(self._documents))
            named = (other.doc_id for other in rest if isinstance(other, Judgement))
            unknown = {record.doc_id, *(name for name in named if name not in self._documents)}
            raise DataError(
                "data.unknown_documents", place=_place(record), doc_id=record.doc_id, n_unknown=len(unknown)
            )
        first = self._split_from.setdefault(record.query_id, record)
        if first.split != record.split:
            raise DataError(
                "data.two_splits",
                place=_place(record),
                query_id=record.query_id,
                split=record.split,
                first_split=first.split,
                first=_place(first),
            )

    def _refuse_empty(self, documents: int) -> None:
        if not documents:
            raise DataError("data.empty_corpus", name=self.name)

    def _keep_judgement(self, record: Judgement) -> None:
        pair = record.query_id, record.doc_id
        if record.doc_id not in self._documents:
            self._left_out["judgement", " ".join(pair)] = "its document is not in the corpus"
        elif ("document", record.doc_id) in self._left_out:
            self._left_out["judgement", " ".join(pair)] = "its document is left out"
        elif ("query", record.query_id) in self._left_out:
            self._left_out["judgement", " ".join(pair)] = "its query is left out"
        else:
            self._judged[pair] = record

    def _corpus_part(self, part: Sequence[Document]) -> pa.Table:
        first = self.kept_documents - len(part)
        return _table(CORPUS, [(doc.doc_id, first + n, doc.title, doc.text) for n, doc in enumerate(part)])


def _table(artifact: Artifact, rows: Sequence[Sequence[Any]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(artifact.columns)
    schema = artifact.schema
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema)


def _hashed(name: str) -> float:
    """A number in [0, 1) from an id: as good as random, and the same everywhere."""
    return int.from_bytes(sha256(name.encode()).digest()[:6]) / 2**48


def _place(record: Document | Query | Judgement | Negative) -> str:
    return f"{record.where} {record.number}"
