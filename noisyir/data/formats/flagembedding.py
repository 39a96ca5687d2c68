"""FlagEmbedding's (bge's) training rows: a query, lists of positives and negatives, perhaps with a teacher's scores."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from noisyir.data.collection import Collection
from noisyir.data.columns import PairColumn
from noisyir.data.containers import write_rows
from noisyir.data.examples import Passage
from noisyir.data.formats.pairs import Pairs, PairsFile
from noisyir.data.formats_of_rows import FormatOfRows
from noisyir.data.shapes import beyond, columns_there, joined, open_rows
from noisyir.settings import Location

_COLUMNS: dict[PairColumn, str] = {
    "query": "query", "query_id": "query_id", "document": "pos", "doc_id": "pos_id", "score": "pos_scores",
    "negative": "neg", "negative_id": "neg_id", "negative_score": "neg_scores", "split": "split", "answers": "answers",
}  # fmt: skip


class FlagEmbedding(FormatOfRows):
    """FlagEmbedding's training rows."""

    kind: Literal["flagembedding"] = "flagembedding"
    written: ClassVar[str | None] = ".jsonl"
    path: Location = Field(None, description="the file (jsonl, json array, parquet), or a folder of one each split")

    @classmethod
    def fits(cls, row: Mapping[str, Any]) -> bool:
        """By the names of its lists."""
        return {"query", "pos"} <= set(row) and bool({"neg", "pos_scores", "neg_scores"} & set(row))

    def open(self, workers: int | None = None) -> PairsFile:
        """DataError when there is no file, or it is of another format."""
        rows = open_rows("flagembedding", self.path, ("query", "pos"))
        found = Pairs(path=self.path, columns=columns_there(rows, _COLUMNS)).open()
        return replace(found, meaningful=frozenset(_COLUMNS.values()))

    @classmethod
    def write(cls, collection: Collection, target: Path) -> None:
        """The scores of a side are written where all of its documents have one; titles are put before the texts."""
        write_rows(target, _rows(collection), nested=True)


def _rows(collection: Collection) -> Iterator[dict[str, Any]]:
    for example in collection.examples():
        yield {
            "query_id": example.query_id,
            "query": example.query,
            "pos": [joined(passage) for passage in example.positives],
            "neg": [joined(passage) for passage in example.negatives],
            **_scores("pos_scores", example.positives),
            **_scores("neg_scores", example.negatives),
            "pos_id": [passage.doc_id for passage in example.positives],
            "neg_id": [passage.doc_id for passage in example.negatives],
            **beyond(example),
        }


def _scores(name: str, passages: Sequence[Passage]) -> dict[str, list[float | None]]:
    scores = [passage.score for passage in passages]
    return {name: scores} if scores and None not in scores else {}
