"""The pairs that an audit is applied to: a file of pairs in its own format, or a data set's table."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from noisyir.audits.files import write_jsonl
from noisyir.audits.rewriting import Edit, NewColumn, Row, rewrite
from noisyir.audits.texts import texts_of
from noisyir.base.errors import DataError
from noisyir.data.columns import PairColumn
from noisyir.data.containers import stem
from noisyir.data.examples import ExampleSource, ShapedRows
from noisyir.data.fewer_negatives import rows_with, without
from noisyir.data.formats.pairs import PairsFile
from noisyir.data.records import Document, one_by_one
from noisyir.data.shapes import IDS, TEXTS
from noisyir.detection.judgements import Pair
from noisyir.engine.tables import pair_ids

Action = Literal["keep", "weigh", "relabel", "drop"]

_PARTS: tuple[PairColumn, ...] = ("doc_id", "title", "document", "weight", "label")


class Fate(NamedTuple):
    """The fate of an audited pair; new_doc_id: the document that the query gets instead."""

    action: Action
    new_doc_id: str | None
    weight: float
    p_clean: float
    reason: str
    flagged: bool = False


class Text(NamedTuple):
    """A document's two parts."""

    title: str
    text: str


TextById: TypeAlias = Mapping[str, Text]
Fates: TypeAlias = Mapping[int, Sequence[Fate | None]]  # by row, one for each of its pairs; None stays unchanged


class PairChanges(NamedTuple):
    """Changes by row, for each of its pairs; a row outside `fates` is unchanged, one outside `weights` counts whole.

    Attributes:
        negatives: Negatives to leave out, of any row.
    """

    fates: Fates
    weights: Mapping[int, Sequence[float]] | None = None
    negatives: Collection[Pair] = ()


class FileOfPairs:
    """A file of rows: a row without a fate keeps its bytes, except for an added weight.

    A new document changes a row's id, title and text, and in a file that only names documents also cells that repeat
    the text or the title.

    Args:
        least: The least label of a right pair.
    """

    def __init__(self, source: PairsFile | ShapedRows, least: int = 1) -> None:
        self.source, (self.file, _), self.least = source, source.negatives_at, least
        path = self.file.path
        self.name, self.stem = str(path), stem(path.name)
        self.suffix = path.name[len(self.stem) :]

    def pairs(self) -> Iterator[tuple[int, Pair]]:
        """In the order of the file; a row's number is its line, or its row in Parquet."""
        return ((one.number, (one.query_id, one.doc_id)) for one in self.source.judgements())

    def not_right(self) -> set[Pair]:
        """The pairs that the source's own labels do not call right, which no audit reads."""
        judged = (one for one in self.source.judgements() if one.relevance is not None and one.relevance < self.least)
        return {(one.query_id, one.doc_id) for one in judged}

    def write(self, target: Path, changes: PairChanges) -> None:
        """Write in the format of the source.

        Raises:
            DataError: If a new document is unknown, or a column `weight` has another meaning.
        """
        source, fates, cells = self.source, changes.fates, rows_with(self.source, changes.negatives)
        change = self._by_columns(source, fates) if isinstance(source, PairsFile) else self._by_items(source, fates)

        def edit(number: int, row: Row) -> Row | None:
            row = without(row, cells.get(number, {}))
            return change(number, row) if number in fates else row

        rewrite(self.file, target, fates.keys() | cells.keys(), edit, self._weights(changes.weights))

    def _by_columns(self, source: PairsFile, fates: Fates) -> Edit:
        """Change the columns for the parts of documents."""
        old_ids = {number: pair[1] for number, pair in self.pairs() if number in fates} if source.corpus else {}
        where = source.corpus.path if source.corpus else self.file.path
        texts = _texts_of(source, _new_ids(fates), str(where), old_ids.values())
        return lambda number, row: edited(row, source.columns, fates[number], texts, texts.get(old_ids.get(number, "")))

    def _by_items(self, source: ShapedRows, fates: Fates) -> Edit:
        """Change a list of documents, as DPR and Tevatron have it."""
        texts, name = _texts_of(source, _new_ids(fates), self.name), source.positives

        def edit(number: int, row: Row) -> Row | None:
            given = row[name] if isinstance(row[name], list) else [row[name]]
            kept = [(old, fate) for old, fate in zip(given, fates[number], strict=True) if not fate or fate.new_doc_id]
            items = [_instead(old, fate, texts, by_id=bool(source.corpus)) for old, fate in kept]
            return {**row, name: items} if items else None

        return edit

    def _weights(self, weights: Mapping[int, Sequence[float]] | None) -> NewColumn | None:
        """A number in each row, or a list if any row lists several documents."""
        if weights is None:
            return None
        if not isinstance(self.source, PairsFile):
            return NewColumn("weight", lambda number: list(weights.get(number, ())))
        if "weight" not in self.source.columns and "weight" in self.file.columns:
            raise DataError("audits.weight_column_taken", name=self.name)
        name = self.source.columns.get("weight", "weight")
        if any(len(of_row) > 1 for of_row in weights.values()):
            return NewColumn(name, lambda number: list(weights.get(number, [1.0])))
        return NewColumn(name, lambda number: weights.get(number, [1.0])[0])


def _instead(old: Any, fate: Fate | None, texts: TextById, *, by_id: bool) -> Any:
    """The item of a pair's document: the old one, or the new document's with no score of the old one."""
    if fate is None or fate.new_doc_id is None:
        return old
    new = texts[fate.new_doc_id]
    if isinstance(old, dict):
        return _other_object(old, fate.new_doc_id, new)
    return _like(old, fate.new_doc_id) if by_id else _joined(new)


def _other_object(old: Row, doc_id: str, new: Text) -> Row:
    """The new document under the old one's keys, without what else was of the old one, such as scores.

    A title without a key precedes the text.
    """
    text = new.text if "title" in old else _joined(new)
    parts = {**dict.fromkeys(TEXTS, text), "title": new.title}
    known = {name: _like(value, doc_id) if name in IDS else parts.get(name) for name, value in old.items()}
    return {name: value for name, value in known.items() if value is not None}


def _joined(new: Text) -> str:
    return f"{new.title}\n{new.text}".strip()


def _texts_of(source: ExampleSource, needed: set[str], where: str, old: Iterable[str] = ()) -> TextById:
    """The texts of new documents, and of old ones if there are new ones."""
    wanted = needed.union(old)
    documents = (one for one in one_by_one(source.records()) if isinstance(one, Document)) if needed else ()
    found = {doc.doc_id: Text(doc.title, doc.text) for doc in documents if doc.doc_id in wanted}
    _refuse_unknown(needed, found, where)
    return found


class TableOfPairs:
    """A data set's training pairs, with texts from the audit, and from the corpus for new documents.

    Written as jsonl: query_id, doc_id, query, document, source if known, and weight if there are weights.
    """

    def __init__(self, pairs: pa.Table, audit: pa.Table, corpus: Iterable[pa.RecordBatch], dataset: str) -> None:
        self.training = pairs.filter(pc.equal(pairs["split"], "train"))
        self.audit, self.corpus, self.dataset = audit, corpus, dataset
        self.name, self.stem, self.suffix = f"the training pairs of {dataset}", dataset, ".jsonl"

    def pairs(self) -> Iterator[tuple[int, Pair]]:
        """In the order of the table."""
        return enumerate(pair_ids(self.training))

    def not_right(self) -> set[Pair]:
        """None, because no label calls a training pair wrong."""
        return set()

    def write(self, target: Path, changes: PairChanges) -> None:
        """Write as jsonl.

        Raises:
            DataError: If a new document is unknown, or a pair was not audited, because its text is unknown.
        """
        write_jsonl(self._rows(changes.fates, changes.weights), target)

    def _rows(self, fates: Fates, weights: Mapping[int, Sequence[float]] | None) -> Iterator[Row]:
        columns = ("query_id", "doc_id", "query", "document")
        audited = zip(*(self.audit[name].to_pylist() for name in columns), strict=True)
        texts = {(query_id, doc_id): parts for query_id, doc_id, *parts in audited}
        documents = self._documents(_new_ids(fates))
        sources = self.training["source"].to_pylist()
        for number, pair in self.pairs():
            if pair not in texts:
                raise DataError("audits.pair_not_in_audit", name=self.name, query_id=pair[0], doc_id=pair[1])
            (query_id, doc_id), (query, document) = pair, texts[pair]
            if fate := fates[number][0] if number in fates else None:
                if fate.new_doc_id is None:
                    continue
                doc_id, document = fate.new_doc_id, documents[fate.new_doc_id]
            known: Row = {"source": sources[number]} if sources[number] is not None else {}
            known |= {"weight": weights[number][0]} if weights is not None else {}
            yield {"query_id": query_id, "doc_id": doc_id, "query": query, "document": document} | known

    def _documents(self, wanted: set[str]) -> dict[str, str]:
        found = texts_of(self.corpus, wanted) if wanted else {}
        _refuse_unknown(wanted, found, f"the corpus of {self.dataset}")
        return found


PairsToClean: TypeAlias = FileOfPairs | TableOfPairs


def edited(
    row: Row, columns: Mapping[PairColumn, str], fates: Sequence[Fate | None], texts: TextById, old: Text | None
) -> Row | None:
    """The row with its pairs' fates applied; None if no pair is left.

    Dropped documents leave a row's lists.  `old` is the text of a document that the file only names; cells of unknown
    meaning that repeat it get the new text.
    """
    kept = [(number, fate) for number, fate in enumerate(fates) if fate is None or fate.new_doc_id is not None]
    if not kept:
        return None
    of_document = {columns[name]: name for name in _PARTS if name in columns}
    listed = any(isinstance(row.get(column), list) for column in of_document)
    new = dict(row)
    for column, name in of_document.items():
        value = row.get(column)
        if isinstance(value, list):
            new[column] = [_part(name, value[number] if value else None, fate, texts) for number, fate in kept]
        elif not listed:  # the shared part of a list stays
            part = _part(name, value, kept[0][1], texts)
            new |= {column: part} if part or column in row else {}  # no empty text in a row that has no such field
    fate = kept[0][1]
    if old is not None and not listed and fate is not None and fate.new_doc_id is not None:
        free = new.keys() - columns.values()
        new |= {column: _copied(column, new[column], old, texts[fate.new_doc_id]) for column in free}
    return new


def _part(name: PairColumn, value: Any, fate: Fate | None, texts: TextById) -> Any:
    """The new document's part in place of `value`; a numeric id stays a number."""
    if fate is None or fate.new_doc_id is None or name in ("weight", "label"):
        return value
    if name == "doc_id":
        return _like(value, fate.new_doc_id)
    new = texts[fate.new_doc_id]
    if isinstance(value, dict):
        return _other_object(value, fate.new_doc_id, new)
    return new.title if name == "title" else new.text


def _like(value: Any, name: str) -> int | str:
    return int(name) if isinstance(value, int) and name.isdecimal() and str(int(name)) == name else name


def _copied(column: str, value: Any, old: Text, new: Text) -> Any:
    if old.text and value == old.text:
        return new.text
    return new.title if old.title and value == old.title and column.lower() == "title" else value


def _new_ids(fates: Fates) -> set[str]:
    return {fate.new_doc_id for row in fates.values() for fate in row if fate and fate.new_doc_id}


def _refuse_unknown(wanted: set[str], found: Iterable[str], where: str) -> None:
    if missing := sorted(wanted.difference(found)):
        raise DataError("audits.unknown_replacements", n_missing=len(missing), where=where, example=missing[0])
