"""StaQC's annotated rows: a question's title, a snippet of its answer, and whether people said that it solves it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from noisyir.data.collection import Collection
from noisyir.data.containers import write_rows
from noisyir.data.examples import Example, Passage, ShapedRows, split_of
from noisyir.data.formats_of_rows import FormatOfRows
from noisyir.data.shapes import identity, joined, number, open_rows, text
from noisyir.errors import DataError
from noisyir.settings import Location

_COLUMNS = ("qid", "title", "id", "code", "label", "split")


class Staqc(FormatOfRows):
    """StaQC's annotated rows (Yao et al., WWW 2018): a label of 0 is a judgement that a pair is wrong."""

    kind: Literal["staqc"] = "staqc"
    written: ClassVar[str | None] = ".jsonl"
    path: Location = Field(None, description="the file (jsonl, csv, parquet)")

    @classmethod
    def fits(cls, row: Mapping[str, Any]) -> bool:
        """By the names of its columns."""
        return {"qid", "title", "code", "label"} <= set(row)

    def open(self, workers: int | None = None) -> ShapedRows:
        """DataError when there is no file, or it is of another format."""
        rows = open_rows("staqc", self.path, ("qid", "title", "code", "label"))
        return ShapedRows(rows.path.stem, rows, _COLUMNS, _example)

    @classmethod
    def write(cls, collection: Collection, target: Path) -> None:
        """A row a pair; its label is empty where nobody judged it.  Negatives are not kept; titles precede texts."""
        rows = (
            {
                "id": passage.doc_id,
                "qid": str(example.query_id).removesuffix(f"@{example.split}"),
                "title": example.query,
                "code": joined(passage),
                "label": passage.relevance,
                "split": example.split,
            }
            for example, passage in collection.pairs()
        )
        write_rows(target, rows)


def _example(row: Mapping[str, Any], where: str) -> Example:
    """StaQC puts snippets of one question into several splits: there it is a query in each."""
    qid, split, label = identity(row, "qid", where), split_of(row.get("split"), where), number(row, "label", where)
    if qid is None:
        raise DataError(f"{where}: lacks a qid: give it one")
    if label is not None and not label.is_integer():
        raise DataError(f"{where}: 'label' must be a whole number, found {label}")
    judged = None if label is None else int(label)
    snippet = Passage("", text(row, "code", where), identity(row, "id", where), relevance=judged)
    return Example(text(row, "title", where), [snippet], query_id=qid if split == "train" else f"{qid}@{split}")
