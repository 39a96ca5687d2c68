"""A data set as four tables, from and to which formats are converted."""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from noisyir.base.errors import DataError
from noisyir.base.settings import Split
from noisyir.data.examples import Example, Passage

SCHEMAS = {
    "documents": pa.schema([("doc_id", pa.string()), ("title", pa.string()), ("text", pa.string())]),
    "queries": pa.schema(
        [("query_id", pa.string()), ("text", pa.string()), ("split", pa.string()), ("answers", pa.list_(pa.string()))]
    ),
    "judgements": pa.schema(
        [
            ("query_id", pa.string()),
            ("doc_id", pa.string()),
            ("split", pa.string()),
            ("relevance", pa.int32()),
            ("source", pa.string()),
            ("weight", pa.float64()),
            ("score", pa.float64()),
        ]
    ),
    "negatives": pa.schema([("query_id", pa.string()), ("doc_id", pa.string()), ("score", pa.float64())]),
}


@dataclass(frozen=True)
class Collection:
    """Documents, queries, judgements and negatives, with the columns of SCHEMAS.

    A judgement's relevance is null if it is unjudged; a query's split is null if it is unknown and unjudged.
    """

    documents: pa.Table
    queries: pa.Table
    judgements: pa.Table
    negatives: pa.Table

    @classmethod
    def load(cls, folder: Path) -> "Collection":
        """Load the tables that `noisyir import` wrote; a missing or damaged one is a DataError."""
        with DataError.wrapping("data.damaged_import", OSError, pa.ArrowInvalid, folder=folder):
            tables = {name: pq.read_table(folder / f"{name}.parquet") for name in SCHEMAS}
        return cls(**{name: table.select(SCHEMAS[name].names) for name, table in tables.items()})

    @classmethod
    def completed(cls, **tables: pa.Table) -> "Collection":
        """The collection of tables that may lack columns, which become empty."""
        empty = {name: SCHEMAS[name].empty_table() for name in tables}
        full = {name: pa.concat_tables([empty[name], tables[name]], promote_options="permissive") for name in tables}
        return cls(**{name: table.select(SCHEMAS[name].names).cast(SCHEMAS[name]) for name, table in full.items()})

    def rows(self, name: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a table."""
        return zip(*(column.to_pylist() for column in getattr(self, name).columns), strict=True)

    def refuse_ids(self, kind: str, unfit: str = r"[\t\r\n\0]") -> None:
        """Refuse ids that a line of a format would cut or change, by a pattern: tabs and line ends unless given."""
        for table, column in ((self.documents, "doc_id"), (self.queries, "query_id")):
            for name in table[column].to_pylist():
                if re.search(unfit, name):
                    raise DataError("data.id_ends_here", id=name, kind=kind)

    @property
    def splits(self) -> list[Split]:
        """The splits of the judgements, in the order train, dev, test."""
        there = set(self.judgements["split"].unique().to_pylist())
        return [split for split in ("train", "dev", "test") if split in there]

    def of_split(self, split: Split) -> "Collection":
        """The queries of one split, with all documents."""
        queries = self.queries.filter(pc.equal(self.queries["split"], split))
        mine = queries["query_id"].combine_chunks()
        judgements, negatives = (
            table.filter(pc.is_in(table["query_id"], value_set=mine)) for table in (self.judgements, self.negatives)
        )
        return Collection(self.documents, queries, judgements, negatives)

    def examples(self, *, labels: bool = False) -> Iterator[Example]:
        """Each query with a judgement or negative; documents judged irrelevant are negatives unless `labels`."""
        positives, negatives = self._positives, self._negatives
        for query_id, text, split, answers in self.rows("queries"):
            if query_id not in positives and query_id not in negatives:
                continue
            wrong = [self._passage(doc_id, score) for doc_id, score in negatives[query_id]]
            right: list[Passage] = []
            source = None
            for doc_id, split, relevance, source, weight, score in positives[query_id]:  # noqa: B007
                passage = self._passage(doc_id, score)._replace(weight=weight, relevance=relevance)
                (wrong if relevance is not None and relevance <= 0 and not labels else right).append(passage)
            yield Example(text, right, wrong, query_id, tuple(answers or ()), split or "train", source)

    def grades(self, split: Split) -> Iterator[tuple[Example, dict[str | None, int]]]:
        """Each query of a split with the grades of its documents: 1 if unjudged, 0 of negatives."""
        for example in self.examples(labels=True):
            if example.split == split:
                judged = {one.doc_id: 1 if one.relevance is None else one.relevance for one in example.positives}
                yield example, judged | {one.doc_id: 0 for one in example.negatives if one.doc_id not in judged}

    def pairs(self, *, wrong: bool = True) -> Iterator[tuple[Example, Passage]]:
        """The query and document of every judgement, of irrelevant ones if `wrong`, in the order of the queries."""
        for example in self.examples(labels=wrong):
            for passage in example.positives:
                yield example, passage

    def _passage(self, doc_id: str, score: float | None) -> Passage:
        row = self._row_of.get(doc_id)
        if row is None:
            return Passage("", "", doc_id, score)
        return Passage(self._titles[row].as_py(), self._texts[row].as_py(), doc_id, score)

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {doc_id: row for row, doc_id in enumerate(self.documents["doc_id"].to_pylist())}

    @cached_property
    def _titles(self) -> pa.Array:
        return self.documents["title"].combine_chunks()

    @cached_property
    def _texts(self) -> pa.ChunkedArray:
        return self.documents["text"]

    @cached_property
    def _positives(self) -> defaultdict[str, list[Any]]:
        return self._by_query("judgements")

    @cached_property
    def _negatives(self) -> defaultdict[str, list[Any]]:
        return self._by_query("negatives")

    def _by_query(self, name: str) -> defaultdict[str, list[Any]]:
        found = defaultdict(list)
        for query_id, *rest in self.rows(name):
            found[query_id].append(tuple(rest))
        return found
