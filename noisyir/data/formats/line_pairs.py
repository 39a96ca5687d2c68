"""Two files of parallel lines: queries in one, documents in the other, as in nl2bash."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from noisyir.base.errors import DataError
from noisyir.base.settings import Location, Split
from noisyir.data.collection import Collection
from noisyir.data.containers import stem
from noisyir.data.examples import Example, ExampleSource, Passage, Placed
from noisyir.data.formats import FormatOfRows
from noisyir.data.shapes import joined
from noisyir.data.text_files import utf8_lines, write_lines

_SUFFIXES = ((".nl", ".cm"), (".src", ".tgt"))  # of queries and documents


class LinePairs(FormatOfRows, kind="line_pairs"):
    """Two files of parallel lines."""

    written: ClassVar[str | None] = ".nl"
    holds_negatives: ClassVar[bool] = False
    only_split: ClassVar[Split | None] = "train"
    path: Location = Field(None, description="the queries' file, a query a line")
    corpus: Location = Field(None, description="the documents' file; its n-th line belongs to the n-th query")

    def open(self, workers: int | None = None) -> "LinePairsFiles":
        """Both files."""
        for setting, path in (("data.path", self.path), ("data.corpus (--corpus)", self.corpus)):
            if path is None or not Path(path).is_file():
                raise DataError("data.line_pairs_files", setting=setting, path=path or "not given")
        assert self.path and self.corpus
        return LinePairsFiles(stem(Path(self.path).name), Path(self.path), Path(self.corpus))

    @classmethod
    def write(cls, collection: Collection, target: Path) -> None:
        """The queries at `target`, the documents next to it with .cm, texts alone; white space becomes a space."""
        other = partner_to_write(target)
        write_lines(target, ((example.query,) for example, _ in collection.pairs(wrong=False)))
        write_lines(other, ((joined(passage),) for _, passage in collection.pairs(wrong=False)))


def partner(path: Path) -> Path | None:
    """The file of documents next to a file of queries, by their names."""
    return next(
        (path.with_suffix(two) for one, two in _SUFFIXES if path.suffix == one and path.with_suffix(two).is_file()),
        None,
    )


def partner_to_write(path: Path) -> Path:
    """The name for the documents of a file of queries."""
    suffixes = dict(_SUFFIXES)
    if path.suffix not in suffixes:
        raise DataError("data.queries_suffix", path=path, suffixes=" or ".join(suffixes))
    return path.with_suffix(suffixes[path.suffix])


@dataclass(frozen=True)
class LinePairsFiles(ExampleSource):
    """A line of each file is a pair."""

    name: str
    path: Path
    documents_path: Path

    def paths(self) -> Sequence[Path]:
        """Both files."""
        return [self.path, self.documents_path]

    def rows(self) -> Iterator[Placed]:
        """The pairs of lines; if one line of a pair is left out, both are."""
        queries, documents = utf8_lines(self.path), utf8_lines(self.documents_path)
        one, two = next(queries, None), next(documents, None)
        while one and two:
            (number, query), (other, document) = one, two
            if number == other:
                yield Placed(f"{self.path} line", number, (query, document))
            one = next(queries, None) if number <= other else one
            two = next(documents, None) if other <= number else two
        if left := one or two:
            longer, shorter = self.paths() if one else reversed(self.paths())
            raise DataError("data.line_without_partner", longer=longer, number=left[0], shorter=shorter)

    def example(self, found: Placed) -> Example:
        """The two lines."""
        query, document = found.value
        return Example(query, [Passage("", document)])
