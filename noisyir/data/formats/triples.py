"""MS MARCO's triples: query, relevant and irrelevant passage between tabs or in a JSON array, as texts or ids."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle, islice
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from pydantic import Field

from noisyir.base.errors import DataError
from noisyir.base.settings import Location, Split
from noisyir.data.collection import Collection
from noisyir.data.containers import stem
from noisyir.data.examples import Example, ExampleSource, Passage, Placed
from noisyir.data.formats import FormatOfRows
from noisyir.data.id_texts import IdTexts
from noisyir.data.leniency import bad_row
from noisyir.data.records import Document
from noisyir.data.shapes import joined, text
from noisyir.data.spelt import list_in
from noisyir.data.text_files import utf8_lines, write_lines

_COLUMNS = 3
_Cell: TypeAlias = tuple[str | int, float | None]  # a text or an id, and a score


class Triples(FormatOfRows, kind="triples"):
    """MS MARCO's triples: `query<TAB>positive<TAB>negative`, or ids with the files of texts."""

    written: ClassVar[str | None] = ".tsv"
    only_split: ClassVar[Split | None] = "train"
    path: Location = Field(None, description="the file: lines of three cells, or JSON arrays")
    queries: Location = Field(None, description="of triples of ids: the queries' file, id<TAB>text or jsonl")
    corpus: Location = Field(None, description="of triples of ids: the documents' file, id<TAB>text or jsonl")

    def open(self, workers: int | None = None) -> "TriplesFile":
        """The file, with the texts of ids."""
        if self.path is None or not Path(self.path).is_file():
            raise DataError("data.triples_file_missing", not_there=f"; {self.path} is none" if self.path else "")
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
        write_lines(target, _written(collection, target))


@dataclass(frozen=True)
class TriplesFile(ExampleSource):
    """A line is a query with a right document and wrong ones."""

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
            if items := array_in(line):
                yield Placed(place, number, items)
            elif len(cells := line.split("\t")) == _COLUMNS:
                yield Placed(place, number, [(cell, None) for cell in cells])
            else:
                error = DataError("data.not_triple_line", place=place, number=number, n_cells=len(cells))
                bad_row(place, number, error)

    def example(self, found: Placed) -> Example:
        """The query, its document, and the wrong ones, perhaps with scores."""
        (query, _), *rest = found.value
        if self.texts is None:
            cells = {f"item {place}": text for place, (text, _) in enumerate(found.value, 1)}
            query, *texts = (text(cells, place, found.where) for place in cells)
            passages = [Passage("", one, None, score) for one, (_, score) in zip(texts, rest, strict=True)]
            return Example(query, passages[:1], passages[1:])
        query, passages = str(query), [Passage("", "", str(name), score) for name, score in rest]
        if query not in self._query_texts:
            raise DataError("data.unknown_query_of_triple", where=found.where, query=query)
        return Example(self._query_texts[query], passages[:1], passages[1:], query)

    @cached_property
    def _query_texts(self) -> Mapping[str, str]:
        return {name: text for _, name, text in self.queries_file.texts()} if self.queries_file else {}


def _written(collection: Collection, target: Path) -> Iterator[tuple[str, str, str]]:
    for example in collection.examples():
        if not example.negatives or not example.positives:
            lacks = "negative" if example.positives else "document"
            raise DataError("data.query_without_triple", target=target, query_id=example.query_id, lacks=lacks)
        longest = max(len(example.positives), len(example.negatives))
        for right, wrong in islice(zip(cycle(example.positives), cycle(example.negatives), strict=True), longest):
            yield example.query, joined(right), joined(wrong)


def array_in(line: str) -> list[_Cell] | None:
    """The items of a JSON array: a query, its document, wrong ones; None for any other line."""
    items = list_in(line) if line.startswith("[") else None
    pairs = [item if isinstance(item, list) else (item, None) for item in items or ()]
    if len(pairs) < 2 or not all(len(pair) == 2 and _is_cell(*pair) for pair in pairs):
        return None
    return [(value, score) for value, score in pairs]


def _is_cell(value: Any, score: Any) -> bool:
    return type(value) in (str, int) and (score is None or type(score) in (int, float))


def _are_ids(file: Path) -> bool:
    first = next((line for _, line in utf8_lines(file) if line.strip()), "")
    cells = array_in(first) or [(cell, None) for cell in first.split("\t")]
    return all(str(cell).strip().isdecimal() for cell, _ in cells)
