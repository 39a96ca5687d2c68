"""All records of a data set as tables, whatever is wrong with single rows, with an account of every row."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from noisyir.data.collection import SCHEMAS
from noisyir.data.intake import AGAIN, JUDGED_OTHERWISE, TOLERANT, Intake
from noisyir.data.leniency import Exclusions, Tally, lenient
from noisyir.data.records import Document, Documents, Judgement, Negative, SingleRecord, Source, one_by_one
from noisyir.engine.tables import table_of

_AT_ONCE = 10_000  # rows of a table that are written together
_LOST, _LOST_CHARACTER = "\N{REPLACEMENT CHARACTER}", "documents with the mark of a lost character (U+FFFD)"
_OTHERWISE = "pairs that are judged again, and otherwise: the first judgement counts"
_PAIRS = (Judgement, Negative)


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
            self._writers[name].write_table(table_of(rows, SCHEMAS[name]))
            rows.clear()


class ImportedRecords(Intake):
    """Takes records in as the rows of tables, and counts them.

    Attributes:
        odd: Unusual things that were kept, by description.
    """

    def __init__(self, name: str, account: Exclusions, out: _Writers) -> None:
        super().__init__(name, TOLERANT, may_repeat=True)
        self.account, self._out = account, out
        self.rows: dict[str, int] = {}
        self.splits, self.scored = Counter[str](), Counter[str]()
        self.judged: Counter[int | None] = Counter()
        self.odd: dict[str, Tally] = {}

    def add(self, record: SingleRecord) -> None:
        """Keep a record, or count the reason why not."""
        fault = self.fault(record)
        if fault is None:
            self._keep(record)
        elif fault in (AGAIN, JUDGED_OTHERWISE):
            self.account.repeated()
            if fault == JUDGED_OTHERWISE:
                self._count_odd(_OTHERWISE, record.number)
        else:
            self.account.refused(self.in_words(fault, record))

    def add_all(self, record: Documents) -> None:
        """Keep many documents at once if none has a fault, else each by itself."""
        if not self.take_all(record):
            for document in one_by_one([record]):
                self.add(document)
            return
        table, place, number = record
        for row in np.flatnonzero(pc.match_substring(table["text"], _LOST).to_numpy()):
            self._count_odd(_LOST_CHARACTER, number + int(row))
        self._out.append_all("documents", table)
        account = self.account.of(place)
        account.read += table.num_rows
        account.kept += table.num_rows

    def _keep(self, record: SingleRecord) -> None:
        self.account.kept(pair=isinstance(record, _PAIRS))
        if isinstance(record, Document):
            doc_id, title, text, _, number = record
            if _LOST in text:
                self._count_odd(_LOST_CHARACTER, number)
            self._out.append("documents", (doc_id, title, text))
        elif isinstance(record, Judgement):
            self.splits[record.split] += 1
            self.judged[record.relevance] += 1
            self.scored["judgements"] += record.score is not None
            self._out.append("judgements", (*record[:2], record.split, record.relevance, record.source, *record[7:]))
        elif isinstance(record, Negative):
            if self.key(record) in self.right:
                self._count_odd("pairs that are given as right and as wrong", record.number)
            self.scored["negatives"] += record.score is not None
            self._out.append("negatives", record[:3])

    def _count_odd(self, what: str, number: int) -> None:
        self.odd.setdefault(what, Tally()).add(number)

    def finish(self) -> None:
        """Write the queries with their splits, and count the rows of the tables."""
        queries = [one for name, one in self.queries.items() if ("query", name) not in self.left_out]
        for query in queries:
            query_id, text, answers, _, number, _ = query.record
            if query.split is None:
                self._count_odd("queries that nothing judges", number)
            self._out.append("queries", (query_id, text, query.split, list(answers)))
        self.rows = {
            "documents": self.kept_documents, "queries": len(queries), "judgements": len(self.pairs),
            "negatives": len(self.negatives),
        }  # fmt: skip


def take_in(source: Source, folder: Path, progress: Callable[[int], None] = lambda _: None) -> ImportedRecords:
    """Write the tables of SCHEMAS to an existing folder; `progress` gets the number of records now and then."""
    with lenient() as account, _Writers(folder) as out:
        found = ImportedRecords(source.name, account, out)
        for count, record in enumerate(source.records()):
            if isinstance(record, Documents):
                found.add_all(record)
            else:
                found.add(record)
            if not count % _AT_ONCE:
                progress(count)
        found.finish()
        return found
