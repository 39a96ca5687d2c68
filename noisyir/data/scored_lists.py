"""Files of scored lists in five shapes: a query's documents with a teacher's scores, read and written."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from noisyir.base.errors import DataError
from noisyir.data.containers import write_rows
from noisyir.data.examples import Passage
from noisyir.data.formats.trainers import passage_row
from noisyir.data.formats.trec import trec_role
from noisyir.data.row_files import RowFile
from noisyir.data.shapes import identities, identity, joined, number, objects, text
from noisyir.data.text_files import open_to_write, utf8_lines

_PADDING = (100.0, 0.0)


@dataclass(frozen=True)
class ScoredList:
    """The scored documents of one query, positives first; files of texts have no ids, files of ids no texts."""

    query_id: str | None
    query: str
    documents: Sequence[Passage]
    given: int

    @property
    def scores(self) -> list[float]:
        """Scores in the order of the documents; NaN if missing."""
        return [float("nan") if one.score is None else one.score for one in self.documents]

    @property
    def is_padded(self) -> bool:
        """Whether its scores are 100 and then zeros, which trainers write if there is no teacher."""
        first, rest = self.scores[:1], self.scores[1:]
        return len(rest) > 0 and first == [_PADDING[0]] and set(rest) == {_PADDING[1]}


class ListLayout(NamedTuple):
    """A layout of scored lists: its columns, a reader of rows and a writer of lists."""

    columns: tuple[str, ...]
    read: Callable[[Mapping[str, Any], str], ScoredList]
    write: Callable[[Iterable[ScoredList]], Iterator[dict[str, Any]]]


def read_scored_lists(path: Path) -> list[ScoredList]:
    """Read all lists of a file, or raise DataError for an unknown shape or a score that is not finite."""
    lists = list(_trec(path) if _is_run(path) else _of_rows(path))
    _refuse_broken(path, lists)
    return lists


def write_scored_lists(shape: str, lists: Iterable[ScoredList], target: Path) -> None:
    """Write a new file."""
    if shape == "trec":
        _write_run(lists, target)
    else:
        write_rows(target, SHAPES[shape].write(lists), nested=True)


def _refuse_broken(path: Path, lists: Sequence[ScoredList]) -> None:
    bad = Counter(not isfinite(score) for one in lists for score in one.scores)
    if bad[True]:
        raise DataError("data.broken_scores", path=path, n_bad=bad[True], n_scores=bad.total())
    if not lists:
        raise DataError("data.no_lists", path=path)


def _is_run(path: Path) -> bool:
    if not path.is_file():
        raise DataError("data.not_a_teacher_file", path=path)
    return path.suffix not in (".parquet", ".arrow", ".feather", ".xlsx") and trec_role(path) == "run"


def _of_rows(path: Path) -> Iterator[ScoredList]:
    rows = RowFile.open(str(path), "teacher.path")
    there = {*rows.columns}
    shape = next((one for one in SHAPES.values() if {*one.columns} <= there), None)
    if shape is None:
        known = "; ".join(f"{name}: {', '.join(one.columns)}" for name, one in SHAPES.items())
        raise DataError("data.unknown_list_columns", path=path, columns=", ".join(rows.columns), known=known)
    for row_number, row in rows.rows(rows.columns):
        yield shape.read(row, f"{rows.place} {row_number}")


# Shapes -----------------------------------------------------------------------------------------------------


def _numbers(row: Mapping[str, Any], name: str, where: str, count: int) -> list[float | None]:
    """The scores of `count` documents."""
    values = row.get(name)
    if not isinstance(values, list) or len(values) != count:
        found = f"{len(values):,} scores" if isinstance(values, list) else f"{values!r:.60}"
        raise DataError("data.wrong_score_count", where=where, name=name, count=count, found=found)
    return [None if _is_nan(value) else number({name: value}, name, where) for value in values]


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and not isfinite(value)  # counted, and refused with all others of the file


def _id_list(row: Mapping[str, Any], where: str) -> ScoredList:
    names, right = identities(row, "document_ids", where), {*identities(row, "positive_ids", where)}
    scores = _numbers(row, "scores", where, len(names))
    found = [Passage("", "", name, score) for name, score in zip(names, scores, strict=True)]
    found.sort(key=lambda one: one.doc_id not in right)
    return ScoredList(identity(row, "query_id", where), text(row, "query", where), found, len(right & {*names}))


def _id_rows(lists: Iterable[ScoredList]) -> Iterator[dict[str, Any]]:
    for one in lists:
        names = [document.doc_id for document in one.documents]
        right = names[: one.given]
        yield {"query_id": one.query_id, "document_ids": names, "scores": one.scores, "positive_ids": right}


def _flag_embedding(row: Mapping[str, Any], where: str) -> ScoredList:
    sides = []
    for side in ("pos", "neg"):
        texts = identities(row, side, where)
        names: list[Any] = identities(row, f"{side}_id", where) or [None] * len(texts)
        scores = _numbers(row, f"{side}_scores", where, len(texts))
        sides.append([Passage("", one, name, score) for one, name, score in zip(texts, names, scores, strict=True)])
    right, wrong = sides
    return ScoredList(identity(row, "query_id", where), text(row, "query", where), [*right, *wrong], len(right))


def _flag_embedding_rows(lists: Iterable[ScoredList]) -> Iterator[dict[str, Any]]:
    for one in lists:
        row: dict[str, Any] = {"query_id": one.query_id, "query": one.query}
        for side, some in (("pos", one.documents[: one.given]), ("neg", one.documents[one.given :])):
            row[side] = [joined(document) for document in some]
            row[f"{side}_scores"] = [document.score for document in some]
            row[f"{side}_id"] = [document.doc_id for document in some]
        yield row


def _sentence_transformers(row: Mapping[str, Any], where: str) -> ScoredList:
    """A query, its documents in the order of the columns, and their scores, or margins below the first one's."""
    names = [name for name in row if name == "positive" or name.startswith("negative")]
    texts = [text(row, name, where) for name in names if row[name] is not None]
    label = row.get("label")
    margins = isinstance(label, list) and len(label) == len(texts) - 1
    scores = _numbers(row, "label", where, len(texts) - margins)
    if margins:
        scores = [0.0, *(None if margin is None else -margin for margin in scores)]
    found = [Passage("", one, None, score) for one, score in zip(texts, scores, strict=True)]
    return ScoredList(None, text(row, "query", where), found, 1)


def _sentence_transformers_rows(lists: Iterable[ScoredList]) -> Iterator[dict[str, Any]]:
    """The longest lists only, because its losses need equally many columns in all rows."""
    lists = list(lists)
    most = max((len(one.documents) for one in lists), default=0)
    for one in lists:
        if len(one.documents) == most:
            first, *rest = map(joined, one.documents)
            negatives = {f"negative_{place}": one for place, one in enumerate(rest, 1)}
            yield {"query": one.query, "positive": first, **negatives, "label": one.scores}


def _tevatron(row: Mapping[str, Any], where: str) -> ScoredList:
    right, wrong = (
        [Passage(text(one, "title", where), text(one, "text", where), identity(one, "docid", where),
                 None if _is_nan(one.get("score")) else number(one, "score", where))
         for one in objects(row, f"{side}_passages", where)] for side in ("positive", "negative")
    )  # fmt: skip
    return ScoredList(identity(row, "query_id", where), text(row, "query", where), [*right, *wrong], len(right))


def _tevatron_rows(lists: Iterable[ScoredList]) -> Iterator[dict[str, Any]]:
    for one in lists:
        passages = [*map(passage_row, one.documents)]
        right, wrong = passages[: one.given], passages[one.given :]
        yield {"query_id": one.query_id, "query": one.query, "positive_passages": right, "negative_passages": wrong}


SHAPES: Mapping[str, ListLayout] = {
    "ids": ListLayout(("query_id", "document_ids", "scores"), _id_list, _id_rows),
    "flagembedding": ListLayout(
        ("query", "pos", "neg", "pos_scores", "neg_scores"), _flag_embedding, _flag_embedding_rows
    ),
    "tevatron": ListLayout(("query", "positive_passages", "negative_passages"), _tevatron, _tevatron_rows),
    "sentence_transformers": ListLayout(
        ("query", "positive", "label"), _sentence_transformers, _sentence_transformers_rows
    ),
}  # fmt: skip


def _trec(path: Path) -> Iterator[ScoredList]:
    """The lists of a run, sorted by query, without positives."""
    lines = ((line_number, line.split()) for line_number, line in utf8_lines(path) if line.strip())
    for query_id, some in groupby(lines, lambda line: line[1][0]):
        yield ScoredList(query_id, "", [_hit(fields, f"{path} line {row}") for row, fields in some], 0)


def _hit(fields: list[str], where: str) -> Passage:
    if len(fields) < 6:
        raise DataError("data.not_scored_run_line", where=where, n_fields=len(fields))
    score = None if fields[4].lower() in ("nan", "inf", "-inf") else number({"score": fields[4]}, "score", where)
    return Passage("", "", fields[2], score)


def _write_run(lists: Iterable[ScoredList], target: Path) -> None:
    with open_to_write(target) as out:
        for one in lists:
            ordered = sorted(one.documents, key=lambda document: -(document.score or 0.0))
            for rank, document in enumerate(ordered, 1):
                out.write(f"{one.query_id} Q0 {document.doc_id} {rank} {document.score!r} noisyir\n".encode())
