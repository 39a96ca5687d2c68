"""NeMo Automodel's retrieval data: JSON with the ids of a corpus, or lines with the texts in them."""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from noisyir.base.errors import DataError
from noisyir.base.settings import Location
from noisyir.data import shapes
from noisyir.data.collection import Collection
from noisyir.data.containers import OBJECT, write_rows
from noisyir.data.examples import Example, Passage, ShapedRows
from noisyir.data.formats import FormatOfRows
from noisyir.data.row_files import RowFile
from noisyir.data.text_files import open_to_write, read_object

_POSITIVES, _NEGATIVES = "pos_doc", "neg_doc"
_COLUMNS = ("question_id", "query_id", "question", "query", _POSITIVES, _NEGATIVES, "answers")


class Nemo(FormatOfRows, kind="nemo"):
    """NeMo Automodel's retrieval data, of either schema."""

    written: ClassVar[str | None] = ".jsonl"
    path: Location = Field(None, description="the file: json with ids of a corpus, or jsonl with the texts")
    corpus: Location = Field(None, description="the documents, if not in the place that the json names")

    @classmethod
    def fits(cls, row: Mapping[str, Any]) -> bool:
        """By its positives."""
        return _POSITIVES in row and bool({"question", "query"} & set(row))

    def open(self, workers: int | None = None) -> ShapedRows:
        """The file's rows, and the corpus of ids."""
        rows = shapes.open_rows("nemo", self.path, (_POSITIVES,))
        corpus = self.corpus or _corpus_of(rows)
        shape = partial(_example, held="text" if corpus is None else "id")
        opened = None if corpus is None else shapes.corpus_of("nemo", corpus)
        return ShapedRows(rows.path.stem, rows, _COLUMNS, shape, opened, None, (_NEGATIVES,), _POSITIVES)

    @classmethod
    def write(cls, collection: Collection, target: Path) -> None:
        """Lines with the texts, titles before them; or as .json the ids of a corpus, which is a folder next to it.

        Scores, weights and grades are dropped, in lines also the ids of documents.
        """
        if target.suffix != ".json":
            write_rows(target, _rows(collection), nested=True)
            return
        corpus = target.with_name(f"{target.stem}-corpus")
        corpus.mkdir()
        names, titles, texts = (column.to_pylist() for column in collection.documents.columns)
        joined = map(shapes.joined, map(Passage, titles, texts))
        write_rows(
            corpus / "train.parquet", ({"id": name, "text": text} for name, text in zip(names, joined, strict=True))
        )
        about = {"class": "TextQADataset", "corpus_id": corpus.name}
        (corpus / "merlin_metadata.json").write_text(json.dumps(about), encoding="utf-8")
        data = [*_rows(collection, corpus.name)]
        with open_to_write(target) as out:
            out.write(json.dumps({"corpus": [{"path": corpus.name}], "data": data}, ensure_ascii=False).encode())


def _corpus_of(rows: RowFile) -> str | None:
    """The one place of documents that the JSON names, seen from the file."""
    given = read_object(rows.path).get("corpus") if rows.suffix == OBJECT else None
    listed = given if isinstance(given, list) else [given]
    named = [one.get("path") if isinstance(one, dict) else one for one in listed if one is not None]
    match named:
        case []:
            return None
        case [str(path)]:
            return str(rows.path.parent / path)
    raise DataError("data.several_corpora", path=rows.path, corpora=named)


def _example(row: Mapping[str, Any], where: str, held: Literal["text", "id"]) -> Example:
    ids = (shapes.identity(row, name, where) for name in ("question_id", "query_id"))
    return Example(
        shapes.text(row, "question", where) or shapes.text(row, "query", where),
        list(_passages(row, _POSITIVES, where, held)),
        list(_passages(row, _NEGATIVES, where, held)),
        next((found for found in ids if found is not None), None),
        shapes.texts(row, "answers", where),
    )


def _passages(row: Mapping[str, Any], name: str, where: str, held: Literal["text", "id"]) -> Iterator[Passage]:
    """The documents of a list, or a single one: objects, or texts or ids themselves."""
    given = row.get(name)
    for one in given if isinstance(given, list) else [] if given is None else [given]:
        value = one if isinstance(one, dict) else {held: one}
        doc_id = shapes.identity(value, "id", where)
        if held == "id":
            yield Passage("", "", doc_id)
        elif "text" not in value:
            raise DataError("data.document_without_text", where=where, name=name, value=one)
        else:
            yield Passage(shapes.text(value, "title", where), shapes.text(value, "text", where), doc_id)


def _rows(collection: Collection, corpus: str | None = None) -> Iterator[dict[str, Any]]:
    """Rows with the texts, or with the ids of a corpus."""
    for example in collection.examples():
        sides = {_POSITIVES: example.positives, _NEGATIVES: example.negatives}
        if corpus is None:
            row = {"query_id": example.query_id, "query": example.query}
            found: dict[str, Any] = {name: [*map(shapes.joined, some)] for name, some in sides.items()}
        else:
            row = {"question_id": example.query_id, "question": example.query, "corpus_id": corpus}
            found = {name: [{"id": one.doc_id} for one in some] for name, some in sides.items()}
        yield {**row, **found, **shapes.beyond(example)}
