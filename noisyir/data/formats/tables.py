"""The tables that `noisyir import` writes: documents, queries, judgements, negatives."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.parquet as pq
from pydantic import Field

from noisyir.base.errors import DataError
from noisyir.base.settings import Location
from noisyir.data.collection import SCHEMAS, Collection
from noisyir.data.containers.arrow_file import BROKEN
from noisyir.data.containers.split_folder import SPLIT_WORDS
from noisyir.data.formats import FormatOfRows
from noisyir.data.leniency import row
from noisyir.data.records import Document, Judgement, Negative, Query, Record
from noisyir.engine.provenance import files_digest

_BATCH_ROWS = 4096


class Tables(FormatOfRows, kind="tables"):
    """A folder that `noisyir import` wrote."""

    written: ClassVar[str | None] = ""
    holds_weights: ClassVar[bool] = True
    path: Location = Field(None, description="the folder")

    def open(self, workers: int | None = None) -> "TablesFolder":
        """The folder, if its tables have the right columns."""
        root = Path(self.path or "")
        if self.path is None or not is_import(root):
            raise DataError("data.import_folder_missing", path=self.path)
        for name, schema in SCHEMAS.items():
            with DataError.wrapping("data.damaged_table", *BROKEN, path=root / f"{name}.parquet"):
                found = pq.read_schema(root / f"{name}.parquet")
            if found.names != schema.names:
                raise DataError("data.wrong_table_columns", root=root / name, names=", ".join(found.names))
        return TablesFolder(root.name, root)

    @property
    def has_weights(self) -> bool:
        """Whether any judgement has one."""
        if not self._is_there:
            return False
        weights = pq.read_table(self.open().root / "judgements.parquet", columns=["weight"])["weight"]
        return bool(weights.null_count < len(weights))

    @classmethod
    def write(cls, collection: Collection, target: Path) -> None:
        """The four tables, without loss."""
        target.mkdir(parents=True, exist_ok=True)
        for name in SCHEMAS:
            pq.write_table(getattr(collection, name), target / f"{name}.parquet")


def is_import(folder: Path) -> bool:
    """Whether all tables exist."""
    return all((folder / f"{name}.parquet").is_file() for name in SCHEMAS)


@dataclass(frozen=True)
class TablesFolder:
    """The rows of the tables, batch by batch."""

    name: str
    root: Path

    def digest(self) -> str:
        """A hash of the tables' bytes."""
        return files_digest(self.root, [self.root / f"{name}.parquet" for name in SCHEMAS])

    def documents(self) -> Iterator[Document]:
        """The table of documents."""
        for place, number, values in self._rows("documents"):
            with row(place, number):
                yield Document(values["doc_id"], values["title"], values["text"], place, number)

    def queries(self) -> Iterator[Query]:
        """The table of queries; the split of a judged one comes from its judgements."""
        for place, number, values in self._rows("queries"):
            with row(place, number):
                split = None if values["query_id"] in self._judged else values["split"]
                answers = tuple(values["answers"] or ())
                yield Query(values["query_id"], values["text"], answers, place, number, split)

    def judgements(self) -> Iterator[Judgement]:
        """The table of judgements."""
        for place, number, values in self._rows("judgements"):
            with row(place, number):
                query_id, doc_id, split, relevance, source, weight, score = values.values()
                yield Judgement(query_id, doc_id, relevance, SPLIT_WORDS[split], source, place, number, weight, score)

    def negatives(self) -> Iterator[Negative]:
        """The table of negatives."""
        for place, number, values in self._rows("negatives"):
            with row(place, number):
                yield Negative(values["query_id"], values["doc_id"], values["score"], place, number)

    def records(self) -> Iterator[Record]:
        """Documents, then queries, then judgements, then negatives."""
        return chain(self.documents(), self.queries(), self.judgements(), self.negatives())

    def facts(self) -> dict[str, Any]:
        """Number of rows in each table."""
        return {name: pq.read_metadata(self.root / f"{name}.parquet").num_rows for name in SCHEMAS}

    @cached_property
    def _judged(self) -> set[str]:
        path = self.root / "judgements.parquet"
        with DataError.wrapping("data.damaged_table", *BROKEN, path=path):
            return set(pq.read_table(path, columns=["query_id"])["query_id"].to_pylist())

    def _rows(self, name: str) -> Iterator[tuple[str, int, dict[str, Any]]]:
        path, number = self.root / f"{name}.parquet", 0
        with DataError.wrapping("data.damaged_table", *BROKEN, path=path):
            for batch in pq.ParquetFile(path).iter_batches(batch_size=_BATCH_ROWS):
                for values in batch.to_pylist():
                    number += 1
                    yield f"{path} row", number, values
