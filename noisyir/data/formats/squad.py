"""SQuAD v1.1 json as open-domain retrieval: every paragraph of both files is a document (Rajpurkar et al., 2016)."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from noisyir.data.formats import Format
from noisyir.data.records import Document, Judgement, Query
from noisyir.data.text_files import folder_with, list_of, read_object, text_of
from noisyir.engine.provenance import files_digest
from noisyir.settings import Location, Split

# dev first: a limit on the number of documents then keeps the held-out questions' own
_FILES: dict[Split, str] = {"dev": "dev-v1.1.json", "train": "train-v1.1.json"}


class Squad(Format):
    """Both files of SQuAD v1.1."""

    kind: Literal["squad"] = "squad"
    path: Location = Field(None, description="folder of its files")

    def open(self, workers: int | None = None) -> "SquadFolder":
        """DataError when the folder or one of its files is missing."""
        return SquadFolder("squad", folder_with(self.path, "squad", tuple(_FILES.values())))


@dataclass(frozen=True)
class _Paragraph:
    document: Document
    questions: list[dict[str, Any]]
    split: Split
    where: str


@dataclass(frozen=True)
class SquadFolder:
    """Question ids are SQuAD's; a document's id is `split-title-n`, n counting the article's paragraphs from 0.

    Five paragraphs occur twice: both copies stay documents, and both are relevant to either's questions.
    """

    name: str
    root: Path

    def digest(self) -> str:
        """A hash of both files' bytes."""
        return files_digest(self.root, [self.root / name for name in _FILES.values()])

    def documents(self) -> Iterator[Document]:
        """Every paragraph, with its article's title."""
        return (paragraph.document for paragraph in self._paragraphs)

    def queries(self) -> Iterator[Query]:
        """Every question with its distinct answers."""
        for split in _FILES:
            mine = [paragraph for paragraph in self._paragraphs if paragraph.split == split]
            asked = ((paragraph, question) for paragraph in mine for question in paragraph.questions)
            for number, (paragraph, question) in enumerate(asked, 1):
                where = paragraph.where
                answers = [text_of(item, "text", where) for item in list_of(question, "answers", where)]
                yield Query(
                    text_of(question, "id", where),
                    text_of(question, "question", where),
                    tuple(dict.fromkeys(answer for answer in answers if answer.strip())),
                    f"{self.root / _FILES[split]} question",
                    number,
                )

    def judgements(self) -> Iterator[Judgement]:
        """Each question with its own paragraph, and with any other of the same text; the source is its article."""
        for paragraph in self._paragraphs:
            _, title, text, where, number = paragraph.document
            for question in paragraph.questions:
                for doc_id in self._ids_by_text[text]:
                    yield Judgement(question["id"], doc_id, 1, paragraph.split, title, where, number)

    def facts(self) -> dict[str, Any]:
        """How many paragraphs have a text that another one has too."""
        return {"paragraphs_with_a_copy": sum(len(ids) for ids in self._ids_by_text.values() if len(ids) > 1)}

    @cached_property
    def _paragraphs(self) -> list[_Paragraph]:
        return [found for split, name in _FILES.items() for found in _paragraphs(self.root / name, split)]

    @cached_property
    def _ids_by_text(self) -> dict[str, list[str]]:
        ids = defaultdict(list)
        for paragraph in self._paragraphs:
            ids[paragraph.document.text].append(paragraph.document.doc_id)
        return dict(ids)


def _paragraphs(path: Path, split: Split) -> Iterator[_Paragraph]:
    seen: Counter[str] = Counter()
    for article in list_of(read_object(path), "data", str(path)):
        title = text_of(article, "title", f"{path}, article {len(seen) + 1}")
        for paragraph in list_of(article, "paragraphs", f"{path}, article {title!r}"):
            where = f"{path}, article {title!r}, paragraph {seen[title]}"
            text = text_of(paragraph, "context", where)
            doc_id = f"{split}-{title}-{seen[title]}"
            seen[title] += 1
            document = Document(doc_id, title.replace("_", " "), text, f"{path} paragraph", seen.total())
            yield _Paragraph(document, list_of(paragraph, "qas", where), split, where)
