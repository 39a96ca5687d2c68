"""Tevatron's training rows: version 1 with the passages' texts, version 2 with their ids and a corpus beside them."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from noisyir.data.collection import Collection
from noisyir.data.containers import write_rows
from noisyir.data.examples import Example, Passage, ShapedRows
from noisyir.data.formats_of_rows import FormatOfRows
from noisyir.data.shapes import beyond, corpus_of, identities, identity, number, objects, open_rows, text, texts
from noisyir.errors import DataError
from noisyir.settings import Location

_TEXTS = ("query_id", "query", "positive_passages", "negative_passages", "answers")
_IDS = ("query_id", "query_text", "query", "positive_document_ids", "negative_document_ids", "answers", "source")


class Tevatron(FormatOfRows):
    """Tevatron's training rows, of either version."""

    kind: Literal["tevatron"] = "tevatron"
    written: ClassVar[str | None] = ".jsonl"
    path: Location = Field(None, description="the file (jsonl, json array, parquet), or a folder of one each split")
    corpus: Location = Field(None, description="the documents' file, docid and text: of version 2")

    @classmethod
    def fits(cls, row: Mapping[str, Any]) -> bool:
        """By the column of positives of either version."""
        return bool({"positive_passages", "positive_document_ids"} & set(row))

    def open(self, workers: int | None = None) -> ShapedRows:
        """DataError when there is no file, it is of another format, or version 2 has no corpus."""
        rows = open_rows("tevatron", self.path, ())
        if "positive_passages" in rows.columns:
            return ShapedRows(rows.path.stem, rows, _TEXTS, _with_texts)
        if "positive_document_ids" not in rows.columns:
            raise DataError(
                f"{rows.path} is not of format tevatron: it has neither positive_passages nor positive_document_ids; "
                "leave data.kind (--format) out, or name another"
            )
        return ShapedRows(rows.path.stem, rows, _IDS, _with_ids, corpus_of("tevatron", self.corpus))

    @classmethod
    def write(cls, collection: Collection, target: Path) -> None:
        """Version 1; weights, grades and sources are not kept."""
        write_rows(target, _rows(collection), nested=True)


def _with_texts(row: Mapping[str, Any], where: str) -> Example:
    return Example(
        text(row, "query", where),
        [_passage(one, where) for one in objects(row, "positive_passages", where)],
        [_passage(one, where) for one in objects(row, "negative_passages", where)],
        identity(row, "query_id", where),
        texts(row, "answers", where),
    )


def _passage(given: Mapping[str, Any], where: str) -> Passage:
    doc_id, score = identity(given, "docid", where), number(given, "score", where)
    return Passage(text(given, "title", where), text(given, "text", where), doc_id, score)


def _with_ids(row: Mapping[str, Any], where: str) -> Example:
    return Example(
        text(row, "query_text", where) or text(row, "query", where),
        [Passage("", "", name) for name in identities(row, "positive_document_ids", where)],
        [Passage("", "", name) for name in identities(row, "negative_document_ids", where)],
        identity(row, "query_id", where),
        texts(row, "answers", where),
        source=text(row, "source", where) or None,
    )


def _rows(collection: Collection) -> Iterator[dict[str, Any]]:
    for example in collection.examples():
        yield {
            "query_id": example.query_id,
            "query": example.query,
            "positive_passages": [_written(passage) for passage in example.positives],
            "negative_passages": [_written(passage) for passage in example.negatives],
            **beyond(example),
        }


def _written(passage: Passage) -> dict[str, Any]:
    score = {} if passage.score is None else {"score": passage.score}
    return {"docid": passage.doc_id, "title": passage.title, "text": passage.text, **score}
