"""A file of (query, document) pairs, with texts in it or in a corpus file."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from noisyir.base.command_line import with_columns
from noisyir.base.errors import DataError
from noisyir.base.settings import Location, Split
from noisyir.data import shapes
from noisyir.data.collection import Collection
from noisyir.data.columns import (
    NAMES,
    Cells,
    PairColumn,
    choose_columns,
    corpus_documents,
    found_in,
    names_that_mean,
    need,
    numbered_negatives,
    open_corpus,
)
from noisyir.data.containers import stem, write_rows
from noisyir.data.examples import SPLITS, Example, ExampleSource, Passage, Placed, content_id
from noisyir.data.formats import COUNTED, FormatOfRows
from noisyir.data.labels import JUDGING, LabelColumn, holds_judgements, labels_of, parsed
from noisyir.data.leniency import glance, strict
from noisyir.data.records import Document, Record
from noisyir.data.row_files import RowFile, plain_name
from noisyir.data.spelt import list_in

_OF_CORPUS: tuple[PairColumn, ...] = ("document", "title", "negative")
_OF_NEGATIVE: tuple[PairColumn, ...] = ("negative", "negative_id", "negative_score")
# Earlier versions read these otherwise: the digest says so, and their builds are not taken for new ones
_AFTER_CONTEXT, _NEW_NEGATIVES = {"answer", "code", "snippet"}, {"rejected_response", "rejected", "hard_neg"}
_NEW_SCORES = {"chosen_score", "score_chosen", "rejected_score", "score_rejected"}
_UNTITLED = {"answer", "response"}  # their title is the question's
_NUMBERED = re.compile(r"[^A-Z ]*\d")
_INDEX = re.compile(r"\s*|Unnamed: \d+|__index_level_\d+__")
_WRITTEN = (
    "query_id", "query", "doc_id", "title", "document", "split", "source", "weight", "pos_scores", "label", "answers",
    "negative", "neg_scores",
)  # fmt: skip


class Pairs(FormatOfRows, kind="pairs"):
    """A file of (query, document) pairs."""

    written: ClassVar[str | None] = ".jsonl"
    holds_weights: ClassVar[bool] = True
    path: Location = Field(None, description="the file")
    corpus: Location = Field(None, description="the documents' file, where the pairs only name them, or more documents")
    columns: dict[PairColumn, str | None] = Field(
        {}, description="which column is what, where the usual names do not tell; null: none is"
    )

    def _names_splits(self, source: "PairsFile") -> bool:
        return "split" in source.columns

    def _splits(self, source: "PairsFile") -> Iterator[Split]:
        return (example.split for example, _ in source.right_pairs())

    @classmethod
    def write(cls, collection: Collection, target: Path) -> None:
        """A row a pair; a query's negatives are in its first row, titles precede their texts.

        Empty columns are left out.
        """
        rows = (row for example in collection.examples(labels=True) for row in _written(example))
        used = {name for row in (row for example in collection.examples(labels=True) for row in _written(example))
                for name, value in row.items() if value not in (None, "", [])}  # fmt: skip
        names = [name for name in _WRITTEN if name in {"query", "document"} | used]
        write_rows(target, ({name: row[name] for name in names} for row in rows))

    def open(self, workers: int | None = None) -> "PairsFile":
        """The file, if it has the columns that it needs; an unchanged one is looked into once."""
        if self.path is None:
            raise DataError("data.pairs_file_missing")
        rows = RowFile.open(self.path, "data.path")
        return self._remembered("columns", partial(self._opened, rows), shared=False)

    def _opened(self, rows: RowFile) -> "PairsFile":
        found = choose_columns(rows, {what: name for what, name in self.columns.items() if what != "label"}, NAMES)
        if self.corpus is None or ("document" in found and "doc_id" not in found):
            opened = open_pairs(rows, None, self.columns, self.columns)
            return with_more(opened, self.corpus)
        if texts := [column for column in _OF_CORPUS if self.columns.get(column)]:
            raise DataError("data.texts_mapped_with_corpus", texts=", ".join(texts))
        return open_pairs(rows, self.corpus, self.columns, self.columns)


def open_pairs(
    pairs: RowFile, corpus: str | None, mapping: Mapping[PairColumn, str | None], given: Mapping[PairColumn, str | None]
) -> "PairsFile":
    """The file, if it has the columns that it needs; `mapping` has the format's and the user's, `given` the user's."""
    names = {column: known for column, known in NAMES.items() if not corpus or column not in _OF_CORPUS}
    asked = given.get("label")
    columns = choose_columns(pairs, {**mapping, **({"label": parsed(asked, pairs.columns)[0]} if asked else {})}, names)
    for what in [what for what in columns if what in ("document", "negative") and what not in mapping]:
        if holds_judgements(pairs, columns[what]):
            del columns[what]
    wanted = not corpus and ("negative" not in mapping or mapping["negative"] is not None)
    if "split" not in {*columns, *mapping} and (split := shapes.split_column(pairs, columns)):
        columns["split"] = split
    if others_ids := "query_id" not in mapping and shapes.ids_of_others(pairs, columns):
        del columns["query_id"]
    if of_query := "title" in columns.keys() - mapping and plain_name(columns.get("document", "")) in _UNTITLED:
        del columns["title"]
    numbered = numbered_negatives(pairs, list(columns.values())) if wanted else ()
    if corpus:
        need(pairs, columns, ("query", "doc_id"), NAMES)
    else:
        _need_texts(pairs, columns, given)
    shapes.refuse_spelt_objects(pairs, shapes.text_columns(columns, numbered))
    listed = shapes.listed_in(pairs, columns, texts_in=not corpus)
    labels = labels_of(pairs, {name for what, name in columns.items() if what != "label"}.union(numbered), given)
    if not labels and "label" not in given:  # SQuAD's, which may say that a text does not answer
        shapes.refuse_spelt_objects(pairs, [name for name in pairs.columns if plain_name(name) == "answers"])
    documents = open_corpus(corpus, "data.corpus", named=columns["doc_id"]) if corpus else None
    found = {what: name for what, name in columns.items() if what not in given}
    return PairsFile(
        stem(pairs.path.name),
        pairs,
        columns | ({"label": labels.column} if labels else {}),
        documents,
        names_that_mean(mapping, names) | (frozenset() if "label" in given else JUDGING),
        numbered,
        labels,
        _newer(pairs, found, numbered, others_ids=others_ids, of_query=of_query)
        + ("-queries" if "query" in listed else "")
        + ("-values" if labels and (labels.right or labels.names) else "")
        + ("-label" if labels and "label" not in given else ""),
        listed,
        unread_keys=shapes.unread_keys(pairs, columns, numbered),
        float_ids=shapes.float_ids(pairs, columns, documents) if documents else (),
        long=shapes.long_texts(pairs, shapes.text_columns(columns, numbered)),
    )


def _newer(pairs: RowFile, found: Mapping[PairColumn, str], numbered: Sequence[str], **read: bool) -> str:
    """What earlier versions read otherwise, by the columns that were found by their names."""
    plain = {what: plain_name(name) for what, name in found.items()}
    before = plain.get("document") in ("context", "contexts") and _AFTER_CONTEXT & {*map(plain_name, pairs.columns)}
    newer = {
        "-context": before,
        "-header": any(re.search(r"[^\w.-]|[a-z]{2}[A-Z]", name.strip()) for name in found.values()),
        "-ids": read["others_ids"] or plain.get("query_id") == "question_id",
        "-title": read["of_query"],
        "-split": plain.get("split", "split") != "split",
        "-scores": not _NEW_SCORES.isdisjoint(plain.values()),
        "-negatives": plain.get("negative") in _NEW_NEGATIVES or not all(map(_NUMBERED.fullmatch, numbered)),
    }
    return "".join(name for name, there in newer.items() if there)


@dataclass(frozen=True)
class PairsFile(ExampleSource):
    """A row is a query, or a list of them, with one or more documents, and perhaps wrong ones.

    Args:
        numbered: Columns with one negative each, next to the one with several.
        pool: Documents besides the pairs' own.
        float_ids: Ids of documents that are such as 7.0, and 7 in the corpus, as pandas makes of them.
        long: Columns of long texts, among which words such as None and N/A are missing ones.
        unread_keys: Keys of objects that are read for their texts, each with its column: "document.url".
        meaningful: Names of columns that would be read if they existed.
        labels: How the column of labels is read.
        newer: What earlier versions read otherwise.
        listed: Parts of documents that are lists, spelt in the cells of a csv, tsv or workbook; queries in any file.
    """

    is_mapped: ClassVar[bool] = True
    name: str
    pairs: RowFile
    columns: dict[PairColumn, str]
    corpus: RowFile | None
    meaningful: frozenset[str] = frozenset()
    numbered: tuple[str, ...] = ()
    labels: LabelColumn | None = None
    newer: str = ""
    listed: tuple[PairColumn, ...] = ()
    pool: RowFile | None = None
    unread_keys: tuple[str, ...] = ()
    long: tuple[str, ...] = ()
    float_ids: tuple[PairColumn, ...] = ()

    def digest(self) -> str:
        """A hash of the bytes and names of all files, and of what earlier versions read otherwise."""
        return f"{super().digest()}{self.newer}"

    def paths(self) -> Sequence[Path]:
        """The file, and the file of documents."""
        return [path for file in (self.pairs, self.corpus, self.pool) if file for path in file.files]

    def records(self) -> Iterator[Record]:
        """The records of the rows, then the pool's documents; one without an id is its text, and may be there."""
        named = set[str]()
        for record in super().records():
            named |= {record.doc_id} if self.pool and isinstance(record, Document) else set()
            yield record
        for found in corpus_documents(self.pool) if self.pool else ():
            doc_id = found.doc_id or content_id(found.number, found.title, found.text)
            if found.doc_id or doc_id not in named:
                named.add(doc_id)
                yield found._replace(doc_id=doc_id)

    def named(self, column: PairColumn) -> str:
        """The file's own name of a column."""
        return self.columns.get(column, column)

    @property
    def has_a_query_a_row(self) -> bool:
        """Whether no row lists several queries; a cleaned copy of lists has a row a pair."""
        return "query" not in self.listed

    @property
    def negatives_at(self) -> tuple[RowFile, tuple[str, ...]]:
        """The file, and the columns of negatives with their ids and scores."""
        names = (self.columns.get(name) for name in _OF_NEGATIVE)
        return self.pairs, (*filter(None, names), *self.numbered)

    def facts(self) -> dict[str, Any]:
        """The use of each column."""
        numbered = {"numbered_negatives": list(self.numbered)} if self.numbered else {}
        unread = {"unread": self.unread} if self.unread else {}
        return {"columns": self.columns, **numbered, **unread, **super().facts()}

    @property
    def unread(self) -> list[str]:
        """Columns that mean nothing here, and such keys of objects; pandas' index is none."""
        read = *self.columns.values(), *self.numbered
        columns = [name for name in self.pairs.columns if name not in read and not _INDEX.fullmatch(name)]
        return [*columns, *self.unread_keys]

    def rows(self) -> Iterator[Placed]:
        """The rows of the file, at least one; a row with a list of queries counts once for each."""
        number, place = 0, self.pairs.place
        wanted = list(dict.fromkeys([*self.columns.values(), *self.numbered]))
        query, texts = self.columns["query"], shapes.text_columns(self.columns, self.numbered)
        for number, values in self.pairs.rows(wanted, self.meaningful):
            for name in texts:
                shapes.refuse_judging_keys(values[name], f"{place} {number}", name)
                values[name] = None if name in self.long and shapes.is_nothing(values[name]) else values[name]
            if self.has_a_query_a_row:
                yield Placed(place, number, values)
                continue
            cell, documents = values[query], values.get(self.columns.get("document", ""))
            queries = cell if isinstance(cell, list) else list_in(str(cell))
            listed = list_in(documents) if "document" in self.listed and isinstance(documents, str) else documents
            if queries and isinstance(listed, list) and min(len(queries), len(listed)) > 1:
                raise DataError("data.several_of_both", place=place, number=number, query=query)
            yield from (Placed(place, number, {**values, query: one}) for one in queries or [cell])
        if not number:
            with strict():
                next(self.pairs.rows(wanted), None)
            raise DataError("data.no_pairs", pairs=self.pairs.path)

    def example(self, found: Placed) -> Example:
        """The values of the mapped columns."""
        place, number, row = found
        values = {column: row[name] for column, name in self.columns.items()}
        if self.listed:
            spelt = {column: list_in(str(values[column])) for column in self.listed if column != "query"}
            values |= {column: found for column, found in spelt.items() if found is not None}
        for column in self.float_ids:
            values[column] = one.removesuffix(".0") if isinstance(one := values[column], str) else one
        cell = Cells(values, self.columns, place, number)
        if (split := SPLITS.get(cell.text("split").strip().lower())) is None:
            raise cell.wrong("split", "be train, dev or test")
        rows_of = (Cells(one, self.columns, place, number) for one in _documents_of(values, place, number))
        query = shapes.passage(cell.values["query"], cell.where, self.columns["query"])
        return Example(
            shapes.joined(query),
            [self._positive(one) for one in rows_of],
            self._negatives(cell, row),
            (cell.name("query_id") or None) if "query_id" in self.columns else query.doc_id,
            _answers(cell),
            split,
            (cell.name("source") if "source" in self.columns else "") or None,
        )

    def _positive(self, cell: Cells) -> Passage:
        found = shapes.passage(cell.values.get("document"), cell.where, self.columns.get("document", ""))
        doc_id = cell.name("doc_id") if "doc_id" in self.columns else found.doc_id
        score = next(iter(cell.numbers("score")), None)
        doc_id = doc_id or (None if self.corpus is None else doc_id)
        grade = self.labels.grade(cell.values.get("label"), cell.where) if self.labels else None
        return Passage(cell.text("title") or found.title, found.text, doc_id, score, cell.weight(), grade)

    def _negatives(self, cell: Cells, row: Mapping[str, Any]) -> list[Passage]:
        if self.corpus:
            given = [Passage("", "", name) for name in cell.names("negative_id")]
        else:
            ids = cell.names("negative_id") if "negative_id" in self.columns else []
            given = [shapes.passage(one, cell.where, self.columns["negative"]) for one in cell.items("negative")]
            if ids and len(ids) != len(given):
                raise DataError("data.unequal_negatives", other="negative_id", name="negative", where=cell.where)
            given = [one._replace(doc_id=name) for one, name in zip(given, ids, strict=True)] if ids else given
            for name in self.numbered:
                one = Cells({"negative": row[name]}, {"negative": name}, cell.place, cell.number)
                given += [shapes.passage(item, cell.where, name) for item in one.items("negative")]
        scores = cell.numbers("negative_score")
        if scores and len(scores) != len(given):
            raise DataError("data.unequal_negatives", other="negative", name="negative_score", where=cell.where)
        return [one._replace(score=score) for one, score in zip(given, scores, strict=True)] if scores else given


def with_more(pairs: PairsFile, corpus: Location) -> PairsFile:
    """The pairs with a file of texts, perhaps without ids, that join their own, which are not its ids."""
    if corpus is None:
        return pairs
    pool, column = open_corpus(corpus, "data.corpus", ("document",)), pairs.columns["document"]
    with glance():
        ids = {document.doc_id for document in islice(corpus_documents(pool), COUNTED)}
    texts = {*shapes.first_texts(pairs.pairs, column)}
    found = sorted(texts & ids - {""})
    if found and len(found) > len(texts) / 2:
        path, fault, one = pairs.pairs.path, "are ids of the corpus", found[0]
        raise DataError("data.no_texts", path=path, column=column, fault=fault, one=one, kept="")
    return replace(pairs, pool=pool)


def _written(example: Example) -> Iterator[dict[str, Any]]:
    """The rows of a query, none if it has negatives alone."""
    negatives = example.negatives
    scores = [one.score for one in negatives]
    rest: dict[str, Any] = {
        "answers": list(example.answers),
        "negative": [shapes.joined(one) for one in negatives],
        "neg_scores": scores if None not in scores else [],
    }
    split = "" if example.split == "train" else example.split
    for title, text, doc_id, score, weight, relevance in example.positives:
        label = relevance if example.split == "train" or relevance != 1 else None  # 1 is what held-out pairs count as
        of_pair = {"doc_id": doc_id, "title": title, "document": text, "weight": weight, "pos_scores": score}
        of_query = {"query_id": example.query_id, "query": example.query, "split": split, "source": example.source}
        yield {**of_query, **of_pair, "label": label, **rest}
        rest = {name: [] for name in rest}


def _need_texts(pairs: RowFile, columns: Mapping[PairColumn, str], given: Mapping[PairColumn, Any]) -> None:
    need(pairs, columns, ("query",), NAMES)
    texts = columns.get("document", "")
    rows = pairs.first([texts]) if texts and "document" not in given else []
    is_empty = bool(rows) and not any(row[texts] for row in rows)
    if not texts or is_empty:
        named = f"names documents ({columns['doc_id']!r}) but has" if "doc_id" in columns else "has"
        named = f"has nothing in {texts!r}, and" if is_empty else named
        mapped, there = with_columns({"document": "NAME"}, pairs.path), found_in(pairs)
        raise DataError("data.pairs_without_texts", pairs=pairs.path, named=named, found_in=there, mapped=mapped)
    if "query" not in given and "document" not in given:
        shapes.refuse_swapped(pairs, columns["query"], texts)
        shapes.refuse_dumped_posts(pairs, columns["query"], texts)
    shapes.refuse_no_texts(pairs, {what: name for what, name in columns.items() if what not in given})


def _answers(cell: Cells) -> tuple[str, ...]:
    """The distinct texts of answers, which may be objects with a text or, as in `datasets`' SQuAD, with several."""
    given = [one.get("text") if isinstance(one, dict) else one for one in cell.items("answers")]
    texts = [text for one in given for text in (one if isinstance(one, list) else [one])]
    return tuple(dict.fromkeys(one for one in cell._replace(values={"answers": texts}).texts("answers") if one.strip()))


def _documents_of(values: dict[PairColumn, Any], place: str, number: int) -> Iterator[dict[PairColumn, Any]]:
    """One pair for each document if a row lists several (`pos: [.., ..]`), none if the list is empty."""
    lists = {column: values[column] or [None] for column in shapes.OF_DOCUMENT if isinstance(values.get(column), list)}
    if values.get("document") == []:
        return
    longest = max(map(len, lists.values()), default=0)
    if longest > 1 and "label" not in lists and isinstance(values.get("label"), str | int | float):
        raise DataError("data.one_label", place=place, number=number, label=values["label"], n_documents=longest)
    if longest > 1 and not lists.keys() & {"document", "doc_id"}:
        raise DataError("data.several_values", place=place, number=number, lists=" and ".join(lists), n_values=longest)
    if len({len(items) for items in lists.values()}) > 1:
        raise DataError("data.unequal_lists", place=place, number=number, lists=" and ".join(lists))
    if not lists:
        yield values
    for items in zip(*lists.values(), strict=True):
        yield {**values, **dict(zip(lists, items, strict=True))}
