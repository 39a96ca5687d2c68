"""Training files of other trainers: FlagEmbedding, sentence-transformers, Tevatron, DPR."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from noisyir.base.errors import DataError
from noisyir.base.settings import Location
from noisyir.data import shapes
from noisyir.data.collection import Collection
from noisyir.data.columns import PairColumn, found_in
from noisyir.data.containers import write_rows
from noisyir.data.examples import Example, Passage, ShapedRows
from noisyir.data.formats import FormatOfRows
from noisyir.data.formats.pairs import PairsFile, open_pairs, with_more
from noisyir.data.labels import JUDGING, labels_of
from noisyir.data.row_files import RowFile

_COLUMNS: dict[PairColumn, str] = {
    "query": "query", "query_id": "query_id", "document": "pos", "doc_id": "pos_id", "score": "pos_scores",
    "negative": "neg", "negative_id": "neg_id", "negative_score": "neg_scores", "split": "split", "answers": "answers",
    "weight": "weight", "source": "source",
}  # fmt: skip
_BESIDE: dict[PairColumn, str] = {name: name for name in ("query_id", "doc_id", "title", "source", "split", "weight")}
_TRIPLETS: dict[PairColumn, str] = {
    "query": "anchor", "document": "positive", "negative": "negative", **_BESIDE,
}  # fmt: skip
_LABELLED: dict[PairColumn, str] = {
    "query": "sentence1", "document": "sentence2", "score": "score", **_BESIDE,
}  # fmt: skip
_MAPPED = "columns that are read otherwise; null: none is"
_LABEL = "label: the column that says whether a row's documents are right; null: none does"
_TEXTS = ("query_id", "query", "positive_passages", "negative_passages", "answers", "weight")
_IDS = ("query_id", "query_text", "query", "positive_document_ids", "negative_document_ids", "answers", "source",
        "weight")  # fmt: skip
_NEGATIVES = ("hard_negative_ctxs", "negative_ctxs")
_PASSAGE_IDS = ("docid", "passage_id", "psg_id")
_DPR_JSON_COLUMNS = ("query_id", "question", "answers", "positive_ctxs", *_NEGATIVES, "weight")


class FlagEmbedding(FormatOfRows, kind="flagembedding"):
    """FlagEmbedding's training rows."""

    written: ClassVar[str | None] = ".jsonl"
    holds_weights: ClassVar[bool] = True
    path: Location = Field(None, description="the file (jsonl, json array, parquet), or a folder of one each split")
    columns: dict[PairColumn, str | None] = Field({}, description=_MAPPED)
    corpus: Location = Field(None, description="more documents")

    @classmethod
    def fits(cls, row: Mapping[str, Any]) -> bool:
        """By the names of its lists."""
        return {"query", "pos"} <= set(row) and bool({"neg", "pos_scores", "neg_scores"} & set(row))

    def open(self, workers: int | None = None) -> PairsFile:
        """The file's rows."""
        rows = shapes.open_rows("flagembedding", self.path, ("query", "pos"))
        return with_more(_opened(rows, _COLUMNS, shapes.columns_there(rows, _COLUMNS), self.columns), self.corpus)

    @classmethod
    def write(cls, collection: Collection, target: Path) -> None:
        """Scores are written if all documents of a side have one; titles precede texts."""
        write_rows(target, _rows(collection), nested=True)


def _opened(
    rows: RowFile,
    names: Mapping[PairColumn, str],
    columns: Mapping[PairColumn, str | None],
    given: Mapping[PairColumn, str | None],
) -> PairsFile:
    """The rows with these columns; the user's own come first, and labels are read as in any file."""
    found = open_pairs(rows, None, {**columns, **given}, given)
    return replace(found, meaningful=frozenset(names.values()) | (frozenset() if "label" in given else JUDGING))


def _rows(collection: Collection) -> Iterator[dict[str, Any]]:
    for example in collection.examples():
        yield {
            "query_id": example.query_id,
            "query": example.query,
            "pos": [shapes.joined(passage) for passage in example.positives],
            "neg": [shapes.joined(passage) for passage in example.negatives],
            **_scores("pos_scores", example.positives),
            **_scores("neg_scores", example.negatives),
            "pos_id": [passage.doc_id for passage in example.positives],
            "neg_id": [passage.doc_id for passage in example.negatives],
            **({"weight": weights} if None not in (weights := [each.weight for each in example.positives]) else {}),
            **shapes.beyond(example),
        }


def _scores(name: str, passages: Sequence[Passage]) -> dict[str, list[float | None]]:
    scores = [passage.score for passage in passages]
    return {name: scores} if scores and None not in scores else {}


class SentenceTransformers(FormatOfRows, kind="sentence_transformers"):
    """The columns that sentence-transformers trains on, perhaps with labels."""

    written: ClassVar[str | None] = ".jsonl"
    holds_weights: ClassVar[bool] = True
    path: Location = Field(None, description="the file, or a folder that `datasets` saved")
    columns: dict[PairColumn, str | None] = Field({}, description=_MAPPED)
    corpus: Location = Field(None, description="more documents")

    @classmethod
    def fits(cls, row: Mapping[str, Any]) -> bool:
        """By the names of its columns."""
        return any({*pair} <= set(row) for pair in (("anchor", "positive"), ("sentence1", "sentence2")))

    def open(self, workers: int | None = None) -> PairsFile:
        """The file's rows."""
        rows = shapes.open_rows("sentence_transformers", self.path, ())
        if not self.fits(dict.fromkeys(rows.columns)):
            raise DataError("data.not_sentence_transformers", rows=rows.path, found_in=found_in(rows))
        names = _TRIPLETS if "anchor" in rows.columns else _LABELLED
        columns = shapes.columns_there(rows, names)
        if "negative" not in rows.columns:
            columns.pop("negative")  # numbered ones may be there
        if "label" not in rows.columns:
            columns.pop("score")  # it may say how right a pair is
        return with_more(_opened(rows, names, columns, self.columns), self.corpus)

    @classmethod
    def write(cls, collection: Collection, target: Path) -> None:
        """A row a pair with equally many cells of negatives, perhaps empty; ids are dropped, titles precede texts."""
        most = max((len(example.negatives) for example in collection.examples()), default=0)
        write_rows(target, _sentence_transformers_rows(collection, most))


def _sentence_transformers_rows(collection: Collection, most: int) -> Iterator[dict[str, Any]]:
    splits = collection.splits != ["train"]
    weighed = collection.judgements["weight"].null_count < len(collection.judgements)
    for example in collection.examples():
        wrong = [shapes.joined(passage) for passage in example.negatives]
        named = {f"negative_{place + 1}": wrong[place] if place < len(wrong) else None for place in range(most)}
        for passage in example.positives:
            row: dict[str, Any] = {"anchor": example.query, "positive": shapes.joined(passage), **named}
            row |= {"weight": passage.weight} if weighed else {}
            yield {**row, "split": example.split} if splits else row


class Tevatron(FormatOfRows, kind="tevatron"):
    """Tevatron's training rows, of either version."""

    written: ClassVar[str | None] = ".jsonl"
    path: Location = Field(None, description="the file (jsonl, json array, parquet), or a folder of one each split")
    corpus: Location = Field(None, description="the documents' file, docid and text: of version 2")
    columns: dict[Literal["label"], str | None] = Field({}, description=_LABEL)

    @classmethod
    def fits(cls, row: Mapping[str, Any]) -> bool:
        """By the column of positives of either version."""
        return bool({"positive_passages", "positive_document_ids"} & set(row))

    def open(self, workers: int | None = None) -> ShapedRows:
        """The file's rows; version 2 needs a corpus."""
        rows = shapes.open_rows("tevatron", self.path, ())
        if "positive_passages" in rows.columns:
            labels = labels_of(rows, _TEXTS, self.columns)
            sides = ("negative_passages",), "positive_passages"
            shape = partial(_shaped, query="query", right=sides[1], wrong=sides[0])
            return ShapedRows(rows.path.stem, rows, _TEXTS, shape, None, labels, *sides)
        if "positive_document_ids" not in rows.columns:
            raise DataError("data.not_tevatron", rows=rows.path)
        corpus, labels = shapes.corpus_of("tevatron", self.corpus), labels_of(rows, _IDS, self.columns)
        sides = ("negative_document_ids",), "positive_document_ids"
        return ShapedRows(rows.path.stem, rows, _IDS, _with_ids, corpus, labels, *sides)

    @classmethod
    def write(cls, collection: Collection, target: Path) -> None:
        """Version 1; weights, grades and sources are dropped."""
        write_rows(target, _tevatron_rows(collection), nested=True)


def _shaped(row: Mapping[str, Any], where: str, query: str, right: str, wrong: Sequence[str]) -> Example:
    """A query with lists of passages."""
    return Example(
        shapes.text(row, query, where),
        [_passage(one, where, right) for one in shapes.objects(row, right, where)],
        [_passage(one, where) for name in wrong for one in shapes.objects(row, name, where)],
        shapes.identity(row, "query_id", where),
        shapes.texts(row, "answers", where),
    )


def _passage(given: Mapping[str, Any], where: str, right: str = "") -> Passage:
    if right:
        shapes.refuse_judging_keys(given, where, right, read=("score",))
    name = next((name for name in _PASSAGE_IDS if given.get(name) is not None), _PASSAGE_IDS[0])
    doc_id, score = shapes.identity(given, name, where), shapes.number(given, "score", where)
    return Passage(shapes.text(given, "title", where), shapes.text(given, "text", where), doc_id, score)


def _with_ids(row: Mapping[str, Any], where: str) -> Example:
    return Example(
        shapes.text(row, "query_text", where) or shapes.text(row, "query", where),
        [Passage("", "", name) for name in shapes.identities(row, "positive_document_ids", where)],
        [Passage("", "", name) for name in shapes.identities(row, "negative_document_ids", where)],
        shapes.identity(row, "query_id", where),
        shapes.texts(row, "answers", where),
        source=shapes.text(row, "source", where) or None,
    )


def _tevatron_rows(collection: Collection) -> Iterator[dict[str, Any]]:
    for example in collection.examples():
        yield {
            "query_id": example.query_id,
            "query": example.query,
            "positive_passages": [*map(passage_row, example.positives)],
            "negative_passages": [*map(passage_row, example.negatives)],
            **shapes.beyond(example),
        }


def passage_row(passage: Passage) -> dict[str, Any]:
    """A passage in a written row of Tevatron."""
    score = {} if passage.score is None else {"score": passage.score}
    return {"docid": passage.doc_id, "title": passage.title, "text": passage.text, **score}


class DprJson(FormatOfRows, kind="dpr_json"):
    """DPR's biencoder-*.json."""

    written: ClassVar[str | None] = ".json"
    path: Location = Field(None, description="the file (json array, jsonl, parquet), or a folder of one each split")
    columns: dict[Literal["label"], str | None] = Field({}, description=_LABEL)

    @classmethod
    def fits(cls, row: Mapping[str, Any]) -> bool:
        """By its contexts."""
        return {"question", "positive_ctxs"} <= set(row)

    def open(self, workers: int | None = None) -> ShapedRows:
        """The file's rows."""
        rows = shapes.open_rows("dpr_json", self.path, ("question", "positive_ctxs"))
        labels = labels_of(rows, _DPR_JSON_COLUMNS, self.columns)
        sides = _NEGATIVES, "positive_ctxs"
        shape = partial(_shaped, query="question", right=sides[1], wrong=sides[0])
        return ShapedRows(rows.path.stem, rows, _DPR_JSON_COLUMNS, shape, None, labels, *sides)

    @classmethod
    def write(cls, collection: Collection, target: Path) -> None:
        """All negatives are hard ones; sources, weights and grades are dropped."""
        write_rows(target, _dpr_json_rows(collection), nested=True)


def _dpr_json_rows(collection: Collection) -> Iterator[dict[str, Any]]:
    for example in collection.examples():
        yield {
            "query_id": example.query_id,
            "question": example.query,
            "answers": list(example.answers),
            "positive_ctxs": [_context(passage) for passage in example.positives],
            "negative_ctxs": [],
            "hard_negative_ctxs": [_context(passage) for passage in example.negatives],
            **{name: value for name, value in shapes.beyond(example).items() if name == "split"},
        }


def _context(passage: Passage) -> dict[str, Any]:
    return {"title": passage.title, "text": passage.text, "score": passage.score, "passage_id": passage.doc_id}
