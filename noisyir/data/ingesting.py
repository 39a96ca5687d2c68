"""Records as the tables of a run: faults are errors with their place, exclusions are counted."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from noisyir.base.artifact import Artifact
from noisyir.base.errors import DataError
from noisyir.base.settings import PROMOTION, Split
from noisyir.data.artifacts import ANSWERS, CORPUS, EXCLUDED, GIVEN_NEGATIVES, PAIRS, QRELS, QUERIES
from noisyir.data.intake import AGAIN, JUDGED_OTHERWISE, Intake, TakenQuery, hashed
from noisyir.data.records import Document, Judgement, Negative, Record, SingleRecord, one_by_one
from noisyir.data.settings import RecordParams
from noisyir.engine.tables import table_of

PART_DOCUMENTS = 50_000
_KINDS = ("document", "query", "judgement")  # in the order of exclusion
TRAINING: tuple[Split, ...] = ("train", "dev")  # dev pairs serve early stopping, never the gradient


class IngestedRecords(Intake):
    """Takes a source's records as they come, and makes tables of them.

    Queries and judgements stay in memory; texts of documents pass through.
    """

    def __init__(self, name: str, params: RecordParams, *, may_repeat: bool = False) -> None:
        super().__init__(name, params, may_repeat=may_repeat)
        self.repeated = 0  # judgements of a pair that was judged before
        self._judged: list[Judgement] = []
        self._negatives: list[Negative] = []
        self._judged_in_vain: set[str] = set()  # ids of queries with a judgement that is left out

    def documents(self, records: Iterable[Record]) -> Iterator[pa.Table]:
        """Take in all records, and yield the corpus in parts of at most 50,000 rows; a faulty record is a DataError."""
        part: list[Document] = []
        rows, self.rest = 0, one_by_one(records)
        for record in self.rest:
            if reason := self.take(record):
                self._leave_out(record, reason)
            elif isinstance(record, Document):
                part.append(record)
            elif isinstance(record, Judgement):
                self._judged.append(record)
            elif isinstance(record, Negative):
                self._negatives.append(record)
            if len(part) == PART_DOCUMENTS:
                yield _corpus_part(part, rows)
                rows += len(part)
                part.clear()
        yield _corpus_part(part, rows)
        self.refuse_empty(self.kept_documents)

    def _leave_out(self, record: SingleRecord, reason: str) -> None:
        if not isinstance(record, Judgement):
            return
        if reason in (AGAIN, JUDGED_OTHERWISE):
            self.repeated += 1
        else:
            self._judged_in_vain.add(record.query_id)
            self.left_out["judgement", f"{record.query_id} {record.doc_id}"] = reason

    def tables(self) -> dict[str, pa.Table]:
        """Every artifact but the corpus, by name; nothing to train on or to score is a DataError."""
        if not self._judged and not any(map(self._is_answered, self.queries.values())):
            raise DataError("data.no_joined_judgement", name=self.name)
        self.left_out = dict(sorted(self.left_out.items(), key=lambda of: _KINDS.index(of[0][0])))
        splits = self._splits()
        judged = [record for record in self._judged if record.query_id in splits]
        kept = [query.record for query_id, query in self.queries.items() if query_id in splits]
        training = [record for record in judged if record.is_right and splits[record.query_id] in TRAINING]
        rows: list[tuple[Artifact, Sequence[Sequence[Any]]]] = [
            (QUERIES, [(query.query_id, query.text, splits[query.query_id]) for query in kept]),
            (ANSWERS, [(query.query_id, query.answers) for query in kept if query.answers]),
            (PAIRS, [(record.query_id, record.doc_id, record.split, record.source) for record in training]),
            (QRELS, [record[:3] for record in judged if record.relevance is not None]),
            (GIVEN_NEGATIVES, [record[:3] for record in self._negatives if record.query_id in splits]),
            (EXCLUDED, [(reason, kind, name) for (kind, name), reason in self.left_out.items()]),
        ]
        return {artifact.name: table_of(found, artifact.schema) for artifact, found in rows}

    def excluded_counts(self) -> dict[str, int]:
        """Numbers of excluded records, by kind and reason."""
        return dict(Counter(f"{kind}: {reason}" for (kind, _), reason in self.left_out.items()))

    def _splits(self) -> dict[str, Split]:
        """The split of every query that is kept: by its judgements, else as its answers or place allow."""
        splits = {record.query_id: record.split for record in self._judged}
        for query_id, query in self.queries.items():
            if query_id in splits or ("query", query_id) in self.left_out:
                continue
            if split := self._split_of_unjudged(query):
                splits[query_id] = split
            else:
                self.left_out["query", query_id] = "no judgement of a kept document"
        for query_id, split in splits.items():
            if split == "dev" and hashed(f"{PROMOTION}/{query_id}") < self.params.promotion_share:
                splits[query_id] = PROMOTION
        for query_id in self._beyond(splits):
            self.left_out["query", query_id] = "beyond max_held_out"
            del splits[query_id]
        return splits

    def _split_of_unjudged(self, query: TakenQuery) -> Split | None:
        """The split of a query without a kept judgement; None if it is left out."""
        if self._is_answered(query):
            return query.record.split
        may_train = self.params.unlabelled == "train" and query.record.split in (None, "train")
        return "train" if may_train and query.record.query_id not in self._judged_in_vain else None

    def _beyond(self, splits: Mapping[str, Split]) -> Iterator[str]:
        """Queries beyond `max_held_out` in each held-out split; the least hashed ids stay."""
        if self.params.max_held_out is None:
            return
        by_split: dict[Split, list[str]] = {}
        for query_id, split in splits.items():
            if split != "train":
                by_split.setdefault(split, []).append(query_id)
        for queries in by_split.values():
            yield from sorted(queries, key=hashed)[self.params.max_held_out :]

    def _is_answered(self, query: TakenQuery) -> bool:
        """Whether its answers alone can score a query."""
        query_id, _, answers, _, _, split = query.record
        kept = ("query", query_id) not in self.left_out
        return kept and split is not None and any(answer.strip() for answer in answers)


def _corpus_part(part: Sequence[Document], first: int) -> pa.Table:
    return table_of([(doc.doc_id, first + row, doc.title, doc.text) for row, doc in enumerate(part)], CORPUS.schema)
