"""A file of questions: rows with columns, `id<TAB>text`, `question<TAB>['answers']`, or <top>s of TREC."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from noisyir.base.errors import DataError
from noisyir.base.settings import Location, Split
from noisyir.data.collection import Collection
from noisyir.data.columns import Names, choose_columns
from noisyir.data.containers import write_rows
from noisyir.data.examples import content_id
from noisyir.data.formats import Format
from noisyir.data.leniency import glance, row
from noisyir.data.records import Query
from noisyir.data.row_files import RowFile, known_words
from noisyir.data.shapes import identity, text, texts
from noisyir.data.spelt import texts_in
from noisyir.data.text_files import utf8_lines
from noisyir.engine.provenance import files_digest

_NAMES: Names = known_words("topics")
_TOPIC = re.compile(r"<(num|title)>\s*(?:Number:|Topic:)?\s*([^<]*)", re.IGNORECASE)
_ANSWERS = re.compile(r"^[\[(\"'].*")


class Topics(Format, kind="topics"):
    """Questions alone."""

    holds_pairs: ClassVar[bool] = False
    path: Location = Field(None, description="the file: id<TAB>text, question<TAB>['answers'], <top>s, or columns")
    split: Split = Field("test", description="split of the queries")

    def open(self, workers: int | None = None) -> "TopicsFile":
        """The file."""
        if self.path is None or not Path(self.path).is_file():
            raise DataError("data.topics_file_missing", path=self.path)
        return TopicsFile(Path(self.path).name, Path(self.path), self.split)

    @classmethod
    def write(cls, collection: Collection, target: Path) -> None:
        """Rows of query_id, question and answers."""
        rows = (
            {"query_id": name, "question": question, "answers": answers or []}
            for name, question, _, answers in collection.rows("queries")
        )
        write_rows(target, rows, nested=True)


@dataclass(frozen=True)
class TopicsFile:
    """One file of questions."""

    name: str
    path: Path
    split: Split

    def digest(self) -> str:
        """A hash of the file's bytes and name."""
        return files_digest(self.path.parent, [self.path])

    def facts(self) -> dict[str, Any]:
        """No facts."""
        return {}

    def records(self) -> Iterator[Query]:
        """The questions with their answers."""
        with glance():
            rows, first = self._rows(), next((line for _, line in utf8_lines(self.path) if line.strip()), "")
        if rows is not None:
            yield from self._named(rows)
        elif first.lstrip().startswith("<"):
            yield from self._marked()
        else:
            yield from self._separated()

    def _rows(self) -> RowFile | None:
        try:
            found = RowFile.open(str(self.path), "data.path")
        except DataError:
            return None
        chosen = choose_columns(found, {}, _NAMES)
        is_header = len(chosen) > 1 or found.suffix != ".tsv"  # the first question of a tsv may be the word "text"
        return found if "query" in chosen and is_header else None

    def _named(self, rows: RowFile) -> Iterator[Query]:
        columns = choose_columns(rows, {}, _NAMES)
        for number, values in rows.rows(list(columns.values())):
            with row(rows.place, number):
                where = f"{rows.place} {number}"
                name = identity(values, columns.get("query_id", ""), where)
                question = text(values, columns["query"], where)
                given = values.get(columns.get("answers", ""))
                answers = texts(
                    {"answers": [*(texts_in(given) or [given])] if isinstance(given, str) else given}, "answers", where
                )
                yield Query(name or content_id(number, question), question, answers, rows.place, number, self.split)

    def _separated(self) -> Iterator[Query]:
        place = f"{self.path} line"
        for number, line in utf8_lines(self.path):
            if not line.strip():
                continue
            with row(place, number):
                first, tab, second = line.partition("\t")
                if not tab:
                    raise DataError("data.not_topic_line", place=place, number=number)
                answers = texts_in(second) if _ANSWERS.match(second) else None
                if answers is None:
                    yield Query(first, second, (), place, number, self.split)
                else:
                    yield Query(content_id(number, first), first, answers, place, number, self.split)

    def _marked(self) -> Iterator[Query]:
        """<top>s of TREC: <num> and <title>, which may go on in the next line."""
        place, found, start, tag = f"{self.path} line", {"num": "", "title": ""}, 0, ""
        for number, line in utf8_lines(self.path):
            low = line.strip().lower()
            if low.startswith("<top>"):
                found, start, tag = {"num": "", "title": ""}, number, ""
            elif low.startswith("</top>"):
                with row(place, start):
                    if not found["num"].strip():
                        raise DataError("data.topic_without_num", place=place, number=start)
                    title = " ".join(found["title"].split())
                    yield Query(found["num"].strip(), title, (), place, start, self.split)
            elif marked := _TOPIC.match(line.strip()):
                tag = marked[1].lower()
                found[tag] += marked[2]
            elif low.startswith("<"):
                tag = ""
            elif tag == "title":
                found["title"] += f" {line}"
