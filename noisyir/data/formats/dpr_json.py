"""DPR's training file alone: questions with the texts of their contexts (Karpukhin et al., EMNLP 2020)."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from noisyir.data.collection import Collection
from noisyir.data.containers import write_rows
from noisyir.data.examples import Example, Passage, ShapedRows
from noisyir.data.formats_of_rows import FormatOfRows
from noisyir.data.shapes import beyond, identity, number, objects, open_rows, text, texts
from noisyir.settings import Location

_NEGATIVES = ("hard_negative_ctxs", "negative_ctxs")
_COLUMNS = ("query_id", "question", "answers", "positive_ctxs", *_NEGATIVES)


class DprJson(FormatOfRows):
    """DPR's biencoder-*.json."""

    kind: Literal["dpr_json"] = "dpr_json"
    written: ClassVar[str | None] = ".json"
    path: Location = Field(None, description="the file (json array, jsonl, parquet), or a folder of one each split")

    @classmethod
    def fits(cls, row: Mapping[str, Any]) -> bool:
        """By its contexts."""
        return {"question", "positive_ctxs"} <= set(row)

    def open(self, workers: int | None = None) -> ShapedRows:
        """DataError when there is no file, or it is of another format."""
        rows = open_rows("dpr_json", self.path, ("question", "positive_ctxs"))
        return ShapedRows(rows.path.stem, rows, _COLUMNS, _example)

    @classmethod
    def write(cls, collection: Collection, target: Path) -> None:
        """All negatives are hard ones; sources, weights and grades are not kept."""
        write_rows(target, _rows(collection), nested=True)


def _example(row: Mapping[str, Any], where: str) -> Example:
    return Example(
        text(row, "question", where),
        [_passage(one, where) for one in objects(row, "positive_ctxs", where)],
        [_passage(one, where) for name in _NEGATIVES for one in objects(row, name, where)],
        identity(row, "query_id", where),
        texts(row, "answers", where),
    )


def _passage(context: Mapping[str, Any], where: str) -> Passage:
    name = "passage_id" if context.get("passage_id") is not None else "psg_id"
    score = number(context, "score", where)
    return Passage(text(context, "title", where), text(context, "text", where), identity(context, name, where), score)


def _rows(collection: Collection) -> Iterator[dict[str, Any]]:
    for example in collection.examples():
        yield {
            "query_id": example.query_id,
            "question": example.query,
            "answers": list(example.answers),
            "positive_ctxs": [_context(passage) for passage in example.positives],
            "negative_ctxs": [],
            "hard_negative_ctxs": [_context(passage) for passage in example.negatives],
            **{name: value for name, value in beyond(example).items() if name == "split"},
        }


def _context(passage: Passage) -> dict[str, Any]:
    return {"title": passage.title, "text": passage.text, "score": passage.score, "passage_id": passage.doc_id}
