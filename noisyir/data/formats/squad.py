"""SQuAD v1.1 as open-domain retrieval: every paragraph is a document (Rajpurkar et al., EMNLP 2016)."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from noisyir.base.errors import DataError
from noisyir.base.settings import Location, Split
from noisyir.data import shapes
from noisyir.data.collection import Collection
from noisyir.data.examples import content_id
from noisyir.data.formats import Format
from noisyir.data.leniency import not_kept, row
from noisyir.data.records import Document, Judgement, Query, Record
from noisyir.data.text_files import folder_with, open_to_write, read_object
from noisyir.engine.provenance import files_digest

# dev first: a limit on the number of documents then keeps the held-out questions' own
_FILES: dict[Split, str] = {"dev": "dev-v1.1.json", "train": "train-v1.1.json"}


class Squad(Format, kind="squad"):
    """Both files of SQuAD v1.1, or one file in its layout."""

    written: ClassVar[str | None] = ".json"
    holds_negatives: ClassVar[bool] = False
    path: Location = Field(None, description="folder of its files, or one file: of dev where its name says so")

    def open(self, workers: int | None = None) -> "SquadFolder":
        """The folder or file."""
        if self.path is not None and Path(self.path).is_file():
            file = Path(self.path)
            split: Split = "dev" if "dev" in file.name.lower() else "train"
            return SquadFolder(file.stem, file.parent, {split: file.name})
        return SquadFolder("squad", folder_with(self.path, "squad", tuple(_FILES.values())), _FILES)

    @classmethod
    def write(cls, collection: Collection, target: Path) -> None:
        """One split's pairs, an article for each title, answers without offsets.

        Ids of documents, negatives, weights and grades are dropped.
        """
        if len(collection.splits) > 1:
            raise DataError("data.squad_several_splits", target=target, splits=", ".join(collection.splits))
        articles: dict[str, dict[str, list[dict[str, Any]]]] = {}
        for example in collection.examples():
            answers = [{"text": answer, "answer_start": -1} for answer in example.answers]
            for passage in example.positives:
                question = {"id": example.query_id, "question": example.query, "answers": answers}
                articles.setdefault(passage.title, {}).setdefault(passage.text, []).append(question)
        data = [
            {"title": title, "paragraphs": [{"context": text, "qas": asked} for text, asked in paragraphs.items()]}
            for title, paragraphs in articles.items()
        ]
        with open_to_write(target) as out:
            out.write(json.dumps({"version": "1.1", "data": data}, ensure_ascii=False).encode())


@dataclass(frozen=True)
class _Paragraph:
    document: Document
    questions: list[Mapping[str, Any]]
    split: Split
    where: str


@dataclass(frozen=True)
class SquadFolder:
    """Question ids are SQuAD's; a document's id is `split-title-n`, n counting an article's paragraphs from 0.

    Five paragraphs occur twice: both copies are documents, and relevant to the questions of either.
    """

    name: str
    root: Path
    files: Mapping[Split, str]

    def digest(self) -> str:
        """A hash of the files' bytes."""
        return files_digest(self.root, [self.root / name for name in self.files.values()])

    def documents(self) -> Iterator[Document]:
        """Every paragraph, with its article's title."""
        for paragraph in self._paragraphs:
            with row(*paragraph.document[3:]):
                yield paragraph.document

    def records(self) -> Iterator[Record]:
        """The paragraphs, then every question with its distinct answers and its judgements.

        A question is judged with its own paragraph and any copy of it; the source is its article.
        """
        return chain(self.documents(), self._questions())

    def _questions(self) -> Iterator[Query | Judgement]:
        for split, name in self.files.items():
            paragraphs = [paragraph for paragraph in self._paragraphs if paragraph.split == split]
            questions = ((paragraph, question) for paragraph in paragraphs for question in paragraph.questions)
            for number, (paragraph, question) in enumerate(questions, 1):
                place = f"{self.root / name} question"
                with row(place, number):
                    yield from self._question_records(paragraph, question, place, number)

    def _question_records(
        self, paragraph: _Paragraph, question: Mapping[str, Any], place: str, number: int
    ) -> Iterator[Query | Judgement]:
        where, (_, title, text, paragraphs, at) = paragraph.where, paragraph.document
        answers = [shapes.text_of(item, "text", where) for item in shapes.objects_of(question, "answers", where)]
        distinct = tuple(dict.fromkeys(answer for answer in answers if answer.strip()))
        query = shapes.text_of(question, "question", where)
        query_id = shapes.identity(question, "id", where) or content_id(number, str(number), query)
        yield Query(query_id, query, distinct, place, number)
        if question.get("is_impossible") is True:  # SQuAD 2: the paragraph does not answer it
            not_kept("a question that its paragraph does not answer (is_impossible)")
            return
        for doc_id in self._ids_by_text[text]:
            yield Judgement(query_id, doc_id, 1, paragraph.split, title, paragraphs, at)

    def facts(self) -> dict[str, Any]:
        """Number of paragraphs with a copy."""
        return {"paragraphs_with_a_copy": sum(len(ids) for ids in self._ids_by_text.values() if len(ids) > 1)}

    @cached_property
    def _paragraphs(self) -> list[_Paragraph]:
        return [found for split, name in self.files.items() for found in _paragraphs(self.root / name, split)]

    @cached_property
    def _ids_by_text(self) -> dict[str, list[str]]:
        ids = defaultdict(list)
        for paragraph in self._paragraphs:
            ids[paragraph.document.text].append(paragraph.document.doc_id)
        return dict(ids)


def _paragraphs(path: Path, split: Split) -> Iterator[_Paragraph]:
    seen: Counter[str] = Counter()
    for article in shapes.objects_of(read_object(path), "data", str(path)):
        title = shapes.text(article, "title", f"{path}, article {len(seen) + 1}")
        for paragraph in shapes.objects_of(article, "paragraphs", f"{path}, article {title!r}"):
            where = f"{path}, article {title!r}, paragraph {seen[title]}"
            text = shapes.text_of(paragraph, "context", where)
            doc_id = f"{split}-{title}-{seen[title]}"
            seen[title] += 1
            document = Document(doc_id, title.replace("_", " "), text, f"{path} paragraph", seen.total())
            yield _Paragraph(document, shapes.objects_of(paragraph, "qas", where), split, where)
