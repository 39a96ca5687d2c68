"""MS MARCO's triples: query, relevant and irrelevant passage between tabs, as texts or ids, without a header."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from noisyir.base.errors import DataError
from noisyir.base.settings import Location
from noisyir.data.collection import Collection
from noisyir.data.containers import stem
from noisyir.data.examples import Example, ExampleSource, Passage, Placed
from noisyir.data.formats import FormatOfRows
from noisyir.data.id_texts import IdTexts
from noisyir.data.leniency import bad_row
from noisyir.data.records import Document
from noisyir.data.shapes import joined
from noisyir.data.text_files import open_to_write, spaced, utf8_lines

_COLUMNS = 3


class Triples(FormatOfRows):
    """MS MARCO's triples: `query<TAB>positive<TAB>negative`, or ids with the files of texts."""

    kind: Literal["triples"] = "triples"
    written: ClassVar[str | None] = ".tsv"
    path: Location = Field(None, description="the file, perhaps as .gz or .zst")
    queries: Location = Field(None, description="of triples of ids: the queries' file, id<TAB>text or jsonl")
    corpus: Location = Field(None, description="of triples of ids: the documents' file, id<TAB>text or jsonl")

    def open(self, workers: int | None = None) -> "TriplesFile":
        """The file, with the texts of ids."""
        if self.path is None or not Path(self.path).is_file():
            raise DataError("data.triples_file_missing", not_there=_not_there(self.path))
        file = Path(self.path)
        if (self.queries is None) != (self.corpus is None):
            raise DataError("data.triples_need_both", file=file)
        if self.queries is None or self.corpus is None:
            if _are_ids(file):
                raise DataError("data.triples_of_ids", file=file)
            return TriplesFile(stem(file.name), file, None, None)
        return TriplesFile(
            stem(file.name), file, IdTexts.open(self.queries, "data.queries"), IdTexts.open(self.corpus, "data.corpus")
        )

    @classmethod
    def write(cls, collection: Collection, target: Path) -> None:
        """Triples of texts; each document and negative of a query is written at least once.

        Tabs and line ends become spaces, titles precede texts; a query without negatives cannot be written.
        """
        with open_to_write(target) as out:
            for example in collection.examples():
                if not example.negatives or not example.positives:
                    lacks = "negative" if example.positives else "document"
                    raise DataError("data.query_without_triple", target=target, query_id=example.query_id, lacks=lacks)
                for number in range(max(len(example.positives), len(example.negatives))):
                    right = example.positives[number % len(example.positives)]
                    wrong = example.negatives[number % len(example.negatives)]
                    cells = (example.query, joined(right), joined(wrong))
                    out.write(("\t".join(map(spaced, cells)) + "\n").encode())


@dataclass(frozen=True)
class TriplesFile(ExampleSource):
    """A line is a query with one right and one wrong document."""

    name: str
    path: Path
    queries_file: IdTexts | None
    texts: IdTexts | None

    def given_documents(self) -> Iterator[Document] | None:
        """The file of documents, if the triples are ids."""
        return self.texts.documents() if self.texts else None

    def paths(self) -> Sequence[Path]:
        """All files."""
        return [self.path, *(file.path for file in (self.queries_file, self.texts) if file)]

    def rows(self) -> Iterator[Placed]:
        """The lines that are not blank."""
        place = f"{self.path} line"
        for number, line in utf8_lines(self.path):
            if not line.strip():
                continue
            if len(cells := line.split("\t")) == _COLUMNS:
                yield Placed(place, number, cells)
            else:
                error = DataError("data.not_triple_line", place=place, number=number, n_cells=len(cells))
                bad_row(place, number, error)

    def example(self, found: Placed) -> Example:
        """The three cells."""
        query, right, wrong = found.value
        if self.texts is None:
            return Example(query, [Passage("", right)], [Passage("", wrong)])
        if query not in self._query_texts:
            raise DataError("data.unknown_query_of_triple", where=found.where, query=query)
        return Example(self._query_texts[query], [Passage("", "", right)], [Passage("", "", wrong)], query)

    @cached_property
    def _query_texts(self) -> Mapping[str, str]:
        return {name: text for _, name, text in self.queries_file.texts()} if self.queries_file else {}


def _are_ids(file: Path) -> bool:
    first = next((line for _, line in utf8_lines(file) if line.strip()), "")
    return all(cell.strip().isdecimal() for cell in first.split("\t"))


def _not_there(path: str | None) -> str:
    return f"; {path} is none" if path else ""
