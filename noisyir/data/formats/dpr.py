"""DPR's release: Wikipedia passages, questions with answers, training contexts (Karpukhin et al., EMNLP 2020)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from noisyir.base.errors import DataError
from noisyir.base.settings import Location, Split
from noisyir.data.collection import Collection
from noisyir.data.containers.csv_file import csv_record
from noisyir.data.formats import Format
from noisyir.data.formats.trainers import DprJson
from noisyir.data.json_arrays import json_array
from noisyir.data.leniency import bad_row, row
from noisyir.data.records import Document, Judgement, Query, Record
from noisyir.data.shapes import objects_of, text_of, texts
from noisyir.data.spelt import texts_in
from noisyir.data.text_files import folder_with, one_of, open_to_write, spaced, tab_separated
from noisyir.engine.provenance import files_digest

_COLLECTION = ("psgs_w100.tsv",)
_CONTEXTS = ("biencoder-{subset}-{split}.json", "{subset}-{split}.json")
_QUESTIONS = ("{subset}-{split}.qa.csv", "{subset}-{split}.csv", "{subset}-{split}.tsv")
_PARTS = ("wikipedia_split/", "retriever/", "retriever/qas/")
_FOLDERS = ("", *_PARTS, *(f"downloads/data/{part}" for part in _PARTS))  # flat, or as DPR's script downloads them
_HEADER = ["id", "text", "title"]
_EXAMPLE = "question<TAB>['an answer', 'another']"


class DprData(Format, kind="dpr"):
    """DPR's release."""

    written: ClassVar[str | None] = ""
    path: Location = Field(None, description="folder of its files")
    subset: str = Field("nq", pattern="^[a-z0-9]+$", description="the questions' name in the file names")
    positives: Literal["first", "all"] = Field(
        "first", description="which of a question's positive_ctxs make pairs; DPR trains on the first"
    )

    @classmethod
    def write(cls, collection: Collection, target: Path) -> None:
        """A folder: passages, contexts of train and dev with all positives, answers of dev and test.

        Tabs and line ends become spaces; of test only the answers are kept.
        """
        collection.refuse_ids("dpr", r"^\s|\s$|\s\s|[^\S ]|\0")
        target.mkdir(parents=True, exist_ok=True)
        with open_to_write(target / _COLLECTION[0]) as out:
            out.write(_line(_HEADER))
            out.writelines(_line((name, text, title)) for name, title, text in collection.rows("documents"))
        for split in collection.splits:
            if split == "test":
                rows = [(text, repr(answers)) for _, text, of, answers in collection.rows("queries") if of == split]
                with open_to_write(target / "nq-test.qa.csv") as out:
                    out.writelines(_line(cells) for cells in rows)
            else:
                DprJson.write(collection.of_split(split), target / f"biencoder-nq-{split}.json")

    def open(self, workers: int | None = None) -> "DprFolder":
        """The folder, if it has passages and questions."""
        root = folder_with(self.path, "dpr", (), holds=_COLLECTION[0])
        collection = _found(root, _COLLECTION)
        if collection is None:
            raise DataError("data.dpr_passages_missing", root=root, collection=_COLLECTION[0])

        def of(names: tuple[str, ...], *splits: Split) -> dict[Split, Path]:
            called = {split: [name.format(subset=self.subset, split=split) for name in names] for split in splits}
            return {split: file for split, some in called.items() if (file := _found(root, some))}

        contexts, questions = of(_CONTEXTS, "train", "dev"), of(_QUESTIONS, "dev", "test")
        if not contexts and not questions:
            raise DataError("data.dpr_questions_missing", root=root, subset=self.subset)
        return DprFolder(f"dpr {self.subset}", root, collection, contexts, questions, self.positives)


class _DprQuestion(NamedTuple):
    """A question of the file of contexts, and the passages with its answer."""

    query: Query
    doc_ids: tuple[str, ...]
    split: Split


@dataclass(frozen=True)
class DprFolder:
    """Training questions have contexts; dev and test questions have answers alone.

    A question's id is its split and row; a dev question in both files has the id of the file of questions.
    """

    name: str
    root: Path
    collection: Path
    contexts: dict[Split, Path]
    questions: dict[Split, Path]
    positives: Literal["first", "all"]

    def digest(self) -> str:
        """A hash of the bytes of all files that are read."""
        return files_digest(self.root, [self.collection, *self.contexts.values(), *self.questions.values()])

    def documents(self) -> Iterator[Document]:
        """The rows of psgs_w100.tsv."""
        rows = tab_separated(self.collection, 3, "id<TAB>text<TAB>title", quoted=True)
        _, header = next(rows, (1, []))
        if header != _HEADER:
            raise DataError(
                "data.wrong_header", path=self.collection, expected="<TAB>".join(_HEADER), found="<TAB>".join(header)
            )
        place = f"{self.collection} line"
        for number, (doc_id, text, title) in rows:
            with row(place, number):
                yield Document(doc_id, title, text, place, number)

    def records(self) -> Iterator[Record]:
        """The passages, the questions with answers, and those with contexts: unjudged in train, relevant in dev."""
        yield from self.documents()
        for query in self._held_out:
            with row(query.where, query.number):
                yield query
        known = {query.query_id for query in self._held_out}
        for question in self._context_questions:
            with row(question.query.where, question.query.number):
                if question.query.query_id not in known:
                    yield question.query
                yield from _pairs(question)

    def judgements(self) -> Iterator[Judgement]:
        """The contexts' pairs as they are read, to be counted: dev questions have other ids in the records."""
        for split, path in self.contexts.items():
            for question in self._contexts_of(path, split, {}):
                yield from _pairs(question)

    def facts(self) -> dict[str, Any]:
        """Names of the files."""
        files = [self.collection, *self.contexts.values(), *self.questions.values()]
        return {"files": [file.relative_to(self.root).as_posix() for file in files]}

    @cached_property
    def _held_out(self) -> list[Query]:
        return [query for split, path in self.questions.items() for query in _questions(path, split)]

    @cached_property
    def _context_questions(self) -> list[_DprQuestion]:
        """The questions of the files of contexts, read once because these are large."""
        ids = {query.text: query.query_id for query in reversed(self._held_out) if query.split == "dev"}
        return [question for split, path in self.contexts.items() for question in self._contexts_of(path, split, ids)]

    def _contexts_of(self, path: Path, split: Split, ids: dict[str, str]) -> Iterator[_DprQuestion]:
        unlisted = f"{split}-contexts" if split in self.questions else split
        for number, item in json_array(path):
            where = f"{path} item {number}"
            try:
                text = _plain(text_of(item, "question", where))
                answers = texts(item, "answers", where)
                found = [_passage_id(context, where) for context in objects_of(item, "positive_ctxs", where)]
            except DataError as error:
                bad_row(f"{path} item", number, error)
                continue
            query_id = ids.pop(text, None) if split == "dev" else None
            query = Query(query_id or f"{unlisted}-{number}", text, answers, f"{path} item", number)
            yield _DprQuestion(query, tuple(dict.fromkeys(found[:1] if self.positives == "first" else found)), split)


def _pairs(question: _DprQuestion) -> Iterator[Judgement]:
    query, doc_ids, split = question
    for doc_id in doc_ids:
        yield Judgement(query.query_id, doc_id, None if split == "train" else 1, split, None, query.where, query.number)


def _line(cells: Sequence[str]) -> bytes:
    return (csv_record(map(spaced, cells), "\t") + "\n").encode()


def _found(root: Path, names: Iterable[str]) -> Path | None:
    return one_of(root, [f"{folder}{name}" for folder in _FOLDERS for name in names])


def _questions(path: Path, split: Split) -> Iterator[Query]:
    count = 0
    for count, (number, (text, literal)) in enumerate(tab_separated(path, 2, _EXAMPLE, quoted=True), 1):
        if (answers := texts_in(literal)) is None:
            fault = DataError("data.answers_not_a_list", where=f"{path} line {number}", value=literal)
            bad_row(f"{path} line", number, fault)
            continue
        yield Query(f"{split}-{count}", _plain(text), answers, f"{path} line", number, split)
    if not count:
        raise DataError("data.empty_file", path=path)


def _passage_id(context: Mapping[str, Any], where: str) -> str:
    found = context.get("passage_id", context.get("psg_id"))
    if isinstance(found, bool) or not isinstance(found, str | int):
        raise DataError("data.missing_passage_id", where=where, found=found)
    return str(found)


def _plain(question: str) -> str:
    """The question as DPR has it: a typographic apostrophe becomes a plain one."""
    return question.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
