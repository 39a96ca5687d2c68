"""All records of a data set as tables, whatever is wrong with single rows, with an account of every row."""

from array import array
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from noisyir.base.settings import Split
from noisyir.data.collection import SCHEMAS
from noisyir.data.id_texts import text_key
from noisyir.data.leniency import Exclusions, Tally, lenient
from noisyir.data.records import Document, Documents, Judgement, Negative, Query, Record, Source, one_by_one
from noisyir.data.validate import MAX_CHARACTERS

_AT_ONCE = 10_000  # rows of a table that are written together
_LOST, _LOST_CHARACTER = "\N{REPLACEMENT CHARACTER}", "documents with the mark of a lost character (U+FFFD)"


@dataclass
class ImportCounts:
    """Counts of the tables' rows.

    Args:
        lengths: Characters of each text.
        same_text: Documents and queries with the text of an earlier one under another id.
        odd: Unusual things that were kept, by description.
    """

    account: Exclusions
    rows: Counter[str] = field(default_factory=Counter)
    lengths: "dict[str, array[int]]" = field(default_factory=lambda: {"documents": array("I"), "queries": array("I")})
    same_text: Counter[str] = field(default_factory=Counter)
    pairs: Counter[str] = field(default_factory=Counter)
    judged: Counter[int | None] = field(default_factory=Counter)
    scored: Counter[str] = field(default_factory=Counter)
    odd: dict[str, Tally] = field(default_factory=dict)
    shared: dict[str, int] = field(default_factory=dict)

    def count_odd(self, what: str, number: int) -> None:
        """Count something unusual."""
        self.odd.setdefault(what, Tally()).add(number)


def take_in(source: Source, folder: Path, progress: Callable[[int], None] = lambda _: None) -> ImportCounts:
    """Write the tables of SCHEMAS to an existing folder; `progress` gets the number of records now and then.

    Raises:
        DataError: If reading cannot go on.
    """
    with lenient() as account, _Writers(folder) as out:
        importer = _Importer(account, out)
        for count, record in enumerate(source.records()):
            importer.take(record)
            if not count % _AT_ONCE:
                progress(count)
        return importer.finished()


class _Writers:
    """The four tables, written in parts."""

    def __init__(self, folder: Path) -> None:
        self._writers = {name: pq.ParquetWriter(folder / f"{name}.parquet", schema) for name, schema in SCHEMAS.items()}
        self._rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in SCHEMAS}

    def __enter__(self) -> "_Writers":
        return self

    def __exit__(self, *_: object) -> None:
        for name in SCHEMAS:
            self._flush(name)
            self._writers[name].close()

    def append(self, name: str, row: tuple[Any, ...]) -> None:
        """Append a row to a table."""
        rows = self._rows[name]
        rows.append(row)
        if len(rows) == _AT_ONCE:
            self._flush(name)

    def append_all(self, name: str, table: pa.Table) -> None:
        """Append a table after the rows that were appended before."""
        self._flush(name)
        self._writers[name].write_table(table.rename_columns(SCHEMAS[name].names))

    def _flush(self, name: str) -> None:
        if rows := self._rows[name]:
            schema = SCHEMAS[name]
            columns = [pa.array(column, of.type) for column, of in zip(zip(*rows, strict=True), schema, strict=True)]
            self._writers[name].write_batch(pa.record_batch(columns, schema))
            rows.clear()


@dataclass
class _ImportedQuery:
    """A query that was kept, with the split of its judgements or else the data's."""

    record: Query
    row: int
    key: int
    split: Split | None


class _Importer:
    """The records so far: ids, queries, and a hash of each document's text."""

    def __init__(self, account: Exclusions, out: _Writers) -> None:
        self.found, self.account, self.out = ImportCounts(account), account, out
        self._documents: dict[str, int] = {}
        self._texts: set[int] = set()
        self._queries: dict[str, _ImportedQuery] = {}
        self._judged: dict[int, Split] = {}
        self._right: set[int] = set()
        self._negatives: set[int] = set()
        self._take: Mapping[type, Callable[[Any], str | None]] = {
            Document: self._document,
            Documents: self._many_documents,
            Query: self._query,
            Judgement: self._judgement,
            Negative: self._negative,
        }

    def take(self, record: Record) -> None:
        """Keep a record, or count the reason why not."""
        reason = self._take[type(record)](record)
        if reason is not None:
            self.account.refused(reason)

    def _many_documents(self, record: Documents) -> None:
        """Keep all at once if none has a fault, else each by itself."""
        table, place, number = record
        ids, titles, texts = (column.to_pylist() for column in table.columns)
        if not self._take_all(table, ids, titles, texts, number):
            for document in one_by_one([record]):
                self.take(document)
            return
        account = self.account.of(place)
        account.read += table.num_rows
        account.kept += table.num_rows

    def _take_all(self, table: pa.Table, ids: list[str], titles: list[str], texts: list[str], number: int) -> bool:
        blank = _is_blank(table["text"]) & _is_blank(table["title"])
        lengths = pc.add(pc.utf8_length(table["text"]), pc.utf8_length(table["title"])).to_numpy()
        if (blank | _is_blank(table["_id"])).any() or lengths.max() > MAX_CHARACTERS:
            return False
        fresh = dict(zip(ids, range(len(self._documents), len(self._documents) + len(ids)), strict=True))
        if len(fresh) < len(ids) or not self._documents.keys().isdisjoint(fresh):
            return False
        self._documents |= fresh
        before = len(self._texts)
        self._texts.update(map(_text_hash, titles, texts) if any(titles) else map(hash, texts))
        self.found.same_text["documents"] += before + len(ids) - len(self._texts)
        self.found.lengths["documents"].frombytes(lengths.astype(np.uint32).tobytes())
        for row in np.flatnonzero(pc.match_substring(table["text"], _LOST).to_numpy()):
            self.found.count_odd(_LOST_CHARACTER, number + int(row))
        self.out.append_all("documents", table)
        return True

    def _document(self, record: Document) -> str | None:
        doc_id, title, text, _, number = record
        if doc_id in self._documents:
            return "document id that occurs again"
        if reason := _unfit(doc_id, title, text, "document"):
            return reason
        self._documents[doc_id] = len(self._documents)
        key = _text_hash(title, text)
        self.found.same_text["documents"] += key in self._texts
        self._texts.add(key)
        self.found.lengths["documents"].append(len(title) + len(text))
        if _LOST in text:
            self.found.count_odd(_LOST_CHARACTER, number)
        self.out.append("documents", (doc_id, title, text))
        self.account.kept(pair=False)
        return None

    def _query(self, record: Query) -> str | None:
        if record.query_id in self._queries:
            return "query id that occurs again"
        if reason := _unfit(record.query_id, "", record.text, "query"):
            return reason
        key = text_key(record.text)
        self._queries[record.query_id] = _ImportedQuery(record, len(self._queries), key, record.split)
        self.found.lengths["queries"].append(len(record.text))
        self.account.kept(pair=False)
        return None

    def _judgement(self, record: Judgement) -> str | None:
        query, document = self._queries.get(record.query_id), self._documents.get(record.doc_id)
        if query is None or document is None:
            return "a query that is not there" if query is None else "a document that is not there"
        pair = query.row << 32 | document
        if pair in self._judged:
            if self._judged[pair] != record.split:
                return "a pair that is in another split, too"
            if (pair in self._right) != (record.relevance is None or record.relevance > 0):
                self.found.count_odd(
                    "pairs that are judged again, and otherwise: the first judgement counts", record.number
                )
            self.account.repeated()
            return None
        if query.split is not None and query.split != record.split:
            return f"a query that is in split {query.split}, too"
        self._judged[pair] = query.split = record.split
        if record.relevance is None or record.relevance > 0:
            self._right.add(pair)
        self.found.pairs[record.split] += 1
        self.found.judged[record.relevance] += 1
        self.found.scored["judgements"] += record.score is not None
        self.out.append("judgements", (*record[:2], record.split, record.relevance, record.source, *record[7:]))
        self.account.kept()
        return None

    def _negative(self, record: Negative) -> str | None:
        query, document = self._queries.get(record.query_id), self._documents.get(record.doc_id)
        if query is None or document is None:
            return "a query that is not there" if query is None else "a document that is not there"
        pair = query.row << 32 | document
        if pair in self._negatives:
            self.account.repeated()
            return None
        if pair in self._right:
            self.found.count_odd("pairs that are given as right and as wrong", record.number)
        self._negatives.add(pair)
        self.found.scored["negatives"] += record.score is not None
        self.out.append("negatives", (record.query_id, record.doc_id, record.score))
        self.account.kept()
        return None

    def finished(self) -> ImportCounts:
        """Write the queries, whose splits are known by now, and count what splits share."""
        keys: set[int] = set()
        for query in self._queries.values():
            query_id, text, answers, _, number, _ = query.record
            self.found.same_text["queries"] += query.key in keys
            keys.add(query.key)
            if query.split is None:
                self.found.count_odd("queries that nothing judges", number)
            self.out.append("queries", (query_id, text, query.split, list(answers)))
        self.found.rows.update(
            documents=len(self._documents), queries=len(self._queries), judgements=len(self._judged),
            negatives=len(self._negatives),
        )  # fmt: skip
        self.found.shared = self._shared()
        return self.found

    def _shared(self) -> dict[str, int]:
        """Numbers of held-out queries with a training query's text, or with a relevant training document."""
        trained = {query.key for query in self._queries.values() if query.split == "train"}
        in_training = {pair & 0xFFFFFFFF for pair, split in self._judged.items() if split == "train"}
        shared: dict[str, int] = {}
        for split in ("dev", "test"):
            if not self.found.pairs[split]:
                continue
            words = (query.key in trained for query in self._queries.values() if query.split == split)
            leaked = {
                pair >> 32
                for pair, judged in self._judged.items()
                if judged == split and pair & 0xFFFFFFFF in in_training
            }
            shared[f"{split} queries with a training query's words"] = sum(words)
            shared[f"{split} queries with a document that training pairs have"] = len(leaked)
        return shared


def _is_blank(column: pa.ChunkedArray) -> np.ndarray:
    blank: np.ndarray = (pc.binary_length(column).to_numpy() == 0) | pc.utf8_is_space(column).to_numpy()
    return blank


def _text_hash(title: str, text: str) -> int:
    """A hash of a document's text, equal to the text's own hash if there is no title."""
    return hash(text) ^ hash(title) * 3


def _unfit(name: str, title: str, text: str, kind: str) -> str | None:
    if not name.strip():
        return f"{kind} without an id"
    if (not text or text.isspace()) and (not title or title.isspace()):
        return f"{kind} without text"
    return f"{kind} longer than {MAX_CHARACTERS:,} characters" if len(title) + len(text) > MAX_CHARACTERS else None
