"""MS MARCO's layouts (Bajaj et al., 2016; TREC DL) and RocketQA's, recognised by their files."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, get_args

from pydantic import Field

from noisyir.base.errors import DataError
from noisyir.base.settings import Location, Split
from noisyir.data.collection import Collection
from noisyir.data.formats import Format
from noisyir.data.leniency import bad_row, not_kept, row
from noisyir.data.records import Document, Judgement, Query, Record, relevance_of
from noisyir.data.text_files import folder_with, one_of, open_to_write, spaced, tab_separated, utf8_lines, write_lines
from noisyir.engine.provenance import files_digest

_Read = Callable[[Path, Path | None], Iterator[Document]]


class Msmarco(Format, kind="msmarco"):
    """MS MARCO's layouts, or RocketQA's."""

    written: ClassVar[str | None] = ""
    path: Location = Field(None, description="folder of its files")

    @classmethod
    def write(cls, collection: Collection, target: Path) -> None:
        """A folder in the layout of passages; unjudged pairs become relevance 1, negatives 0.

        Tabs and line ends become spaces, titles precede texts; sources, weights and scores are dropped.
        """
        collection.refuse_ids("msmarco", r"[\s\0]")
        target.mkdir(parents=True, exist_ok=True)
        documents = collection.rows("documents")
        write_lines(target / "collection.tsv", ((name, f"{title} {text}") for name, title, text in documents))
        for split in collection.splits:
            with (
                open_to_write(target / f"queries.{split}.tsv") as queries,
                open_to_write(target / f"qrels.{split}.tsv") as qrels,
            ):
                for example, grades in collection.grades(split):
                    queries.write(f"{example.query_id}\t{spaced(example.query)}\n".encode())
                    for doc_id, grade in grades.items():
                        qrels.write(f"{example.query_id} 0 {doc_id} {grade}\n".encode())

    def open(self, workers: int | None = None) -> "MsmarcoFolder":
        """The folder, if it has one collection, and queries for each split with qrels."""
        root = folder_with(self.path, "msmarco", (), holds=_COLLECTIONS)
        there = [(layout, file) for layout in _LAYOUTS if (file := one_of(root, [layout.collection]))]
        if len(there) != 1:
            fault = f"has {' and '.join(file.name for _, file in there)}" if there else f"lacks {_COLLECTIONS}"
            raise DataError("data.msmarco_files", root=root, fault=fault)
        [(layout, collection)] = there
        files = {split: found for split in get_args(Split) if (found := _of_split(root, layout, split))}
        if not files:
            names = " or ".join(layout.qrels[0].format(split=split) for split in get_args(Split))
            raise DataError("data.qrels_missing", root=root, names=names)
        titles, addition = (one_of(root, [name]) if name else None for name in (layout.titles, layout.addition))
        queries, qrels = ({split: both[place] for split, both in files.items()} for place in (0, 1))
        return MsmarcoFolder(root.name, root, layout, collection, queries, qrels, titles, addition)


@dataclass(frozen=True)
class _Layout:
    """Names of the files; {split} stands for a split, or `dev.small`, the usual dev set of passages."""

    collection: str
    read: _Read
    queries: str
    qrels: tuple[str, ...]
    columns: int = 4
    titles: str | None = None
    addition: str | None = None


@dataclass(frozen=True)
class MsmarcoFolder:
    """Documents and queries line by line, and splits with qrels; `addition` has RocketQA's unjudged positives."""

    name: str
    root: Path
    layout: _Layout
    collection: Path
    queries_of: Mapping[Split, Path]
    qrels: Mapping[Split, Path]
    titles: Path | None
    addition: Path | None

    def digest(self) -> str:
        """A hash of the bytes of all files that are read."""
        return files_digest(self.root, self._files())

    def documents(self) -> Iterator[Document]:
        """The lines of the collection; passages have titles only in RocketQA's layout."""
        return self.layout.read(self.collection, self.titles)

    def queries(self) -> Iterator[Query]:
        """The queries of every split with qrels."""
        for split, path in self.queries_of.items():
            for number, (qid, text) in tab_separated(path, 2, "id<TAB>text"):
                with row(f"{path} line", number):
                    yield Query(qid, text, (), f"{path} line", number, split)

    def judgements(self) -> Iterator[Judgement]:
        """The lines of every qrels file, all grades."""
        judged = set()
        for split, path in self.qrels.items():
            for number, fields in self._fields(path):
                where, grade = f"{path} line", "1" if len(fields) == 2 else fields[3]
                pair = fields[0], fields[-1] if len(fields) == 2 else fields[2]
                if self.addition and split == "train":
                    judged.add(pair)
                with row(where, number):
                    yield Judgement(*pair, relevance_of(grade, f"{where} {number}"), split, None, where, number)
        if self.addition:
            for number, (qid, pid) in self._fields(self.addition):
                with row(f"{self.addition} line", number):
                    if (qid, pid) in judged:
                        not_kept("a pair that is judged, too")
                    else:
                        yield Judgement(qid, pid, None, "train", None, f"{self.addition} line", number)

    def records(self) -> Iterator[Record]:
        """Documents, then queries, then judgements."""
        return chain(self.documents(), self.queries(), self.judgements())

    def facts(self) -> dict[str, Any]:
        """The splits, and the queries and qrels that are not read."""
        read = self._files()
        there = [path for kind in ("*queries.*", "*qrels.*", "*.query.*") for path in self.root.glob(kind)]
        not_read = sorted({path.name for path in there if path not in read})
        return {"splits": list(self.qrels), "not_read": not_read}

    def _fields(self, path: Path) -> Iterator[tuple[int, list[str]]]:
        """The columns of qrels, between tabs or spaces."""
        count, number = self.layout.columns, 0
        expected = "qid pid" if count == 2 else "qid 0 pid grade"
        for number, line in utf8_lines(path):
            if not (fields := line.split()):
                continue
            if len(fields) == count:
                yield number, fields
            else:
                place = f"{path} line"
                cut = DataError("data.wrong_cells", place=place, number=number, expected=expected, n_cells=len(fields))
                bad_row(place, number, cut)
        if not number:
            raise DataError("data.empty_file", path=path)

    def _files(self) -> list[Path]:
        files = self.collection, self.titles, *self.queries_of.values(), *self.qrels.values(), self.addition
        return [file for file in files if file]


def _of_split(root: Path, layout: _Layout, split: Split) -> tuple[Path, Path] | None:
    """The queries and the qrels of a split; None if it has no qrels."""
    names = {split: layout.qrels, "dev.small": layout.qrels} if split == "dev" else {split: layout.qrels}
    qrels = one_of(root, [name.format(split=part) for part, of in names.items() for name in of])
    if qrels is None:
        return None
    part = "dev.small" if "dev.small" in qrels.name else split
    queries = one_of(root, [layout.queries.format(split=part)])
    if queries is None:
        raise DataError("data.split_queries_missing", root=root, name=layout.queries.format(split=part))
    return queries, qrels


def _passages(path: Path, titles: Path | None) -> Iterator[Document]:
    """Columns pid and text, with the title of the same pid; the title "-" is none."""
    title_of: dict[str, str] = {}
    if titles is not None:
        title_of = {pid: title for _, (pid, title) in tab_separated(titles, 2, "id<TAB>title") if title.strip() != "-"}
    for number, (pid, text) in tab_separated(path, 2, "id<TAB>text"):
        with row(f"{path} line", number):
            yield Document(pid, title_of.get(pid, ""), text, f"{path} line", number)


def _documents(path: Path, _: Path | None) -> Iterator[Document]:
    """Columns docid, url, title and body; the url is not read."""
    for number, (docid, _url, title, body) in tab_separated(path, 4, "docid<TAB>url<TAB>title<TAB>body"):
        with row(f"{path} line", number):
            yield Document(docid, title, body, f"{path} line", number)


_LAYOUTS = (
    _Layout("collection.tsv", _passages, "queries.{split}.tsv", ("qrels.{split}.tsv", "qrels.{split}.txt")),
    _Layout("msmarco-docs.tsv", _documents, "msmarco-doc{split}-queries.tsv", ("msmarco-doc{split}-qrels.tsv",)),
    _Layout(
        "para.txt",
        _passages,
        "{split}.query.txt",
        ("qrels.{split}.tsv",),
        columns=2,
        titles="para.title.txt",
        addition="qrels.train.addition.tsv",
    ),
)
_COLLECTIONS = " or ".join(layout.collection for layout in _LAYOUTS)
