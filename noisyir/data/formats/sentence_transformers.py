"""The columns that sentence-transformers trains on: anchor, positive and negatives, or two sentences with a label."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from noisyir.data.collection import Collection
from noisyir.data.columns import PairColumn, found_in
from noisyir.data.containers import write_rows
from noisyir.data.formats.pairs import Pairs, PairsFile
from noisyir.data.formats_of_rows import FormatOfRows
from noisyir.data.shapes import columns_there, joined, open_rows
from noisyir.errors import DataError
from noisyir.settings import Location

_TRIPLETS: dict[PairColumn, str] = {
    "query": "anchor", "document": "positive", "negative": "negative", "split": "split",
}  # fmt: skip
_LABELLED: dict[PairColumn, str] = {
    "query": "sentence1", "document": "sentence2", "label": "label", "score": "score", "split": "split",
}  # fmt: skip


class SentenceTransformers(FormatOfRows):
    """The columns that sentence-transformers trains on; a label of 0 is a judgement that a pair is wrong."""

    kind: Literal["sentence_transformers"] = "sentence_transformers"
    written: ClassVar[str | None] = ".jsonl"
    path: Location = Field(None, description="the file, or a folder that `datasets` saved")

    @classmethod
    def fits(cls, row: Mapping[str, Any]) -> bool:
        """By the names of its columns."""
        return any({*pair} <= set(row) for pair in (("anchor", "positive"), ("sentence1", "sentence2")))

    def open(self, workers: int | None = None) -> PairsFile:
        """DataError when there is no file, or it is of another format."""
        rows = open_rows("sentence_transformers", self.path, ())
        if not self.fits(dict.fromkeys(rows.columns)):
            raise DataError(
                f"{rows.path} is not of format sentence_transformers: it has neither anchor and positive nor sentence1 "
                f"and sentence2; {found_in(rows)}; leave data.kind (--format) out, or name another"
            )
        names = _TRIPLETS if "anchor" in rows.columns else _LABELLED
        columns = {**columns_there(rows, names)}
        if "negative" not in rows.columns:
            columns.pop("negative")  # numbered ones may be there
        return replace(Pairs(path=self.path, columns=columns).open(), meaningful=frozenset(names.values()))

    @classmethod
    def write(cls, collection: Collection, target: Path) -> None:
        """A row a pair: anchor, positive, and as many negatives as the query with most has; ids are not kept.

        Where queries have fewer, the cells are empty: sentence-transformers wants as many in all rows.  Titles are put
        before the texts.
        """
        most = max((len(example.negatives) for example in collection.examples()), default=0)
        write_rows(target, _rows(collection, most))


def _rows(collection: Collection, most: int) -> Iterator[dict[str, Any]]:
    splits = collection.splits != ["train"]
    for example in collection.examples():
        wrong = [joined(passage) for passage in example.negatives]
        named = {f"negative_{place + 1}": wrong[place] if place < len(wrong) else None for place in range(most)}
        for passage in example.positives:
            row = {"anchor": example.query, "positive": joined(passage), **named}
            yield {**row, "split": example.split} if splits else row
