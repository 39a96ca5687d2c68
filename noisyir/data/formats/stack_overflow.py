"""Stack Overflow's questions and code: the folder of SO-DS, and StaQC's annotated pairs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from noisyir.base.errors import DataError
from noisyir.base.settings import Location, Split
from noisyir.data.collection import Collection
from noisyir.data.containers import write_rows
from noisyir.data.containers.split_folder import SPLIT_WORDS
from noisyir.data.examples import Example, Passage, ShapedRows, content_id, split_of
from noisyir.data.formats import Format, FormatOfRows
from noisyir.data.leniency import row
from noisyir.data.records import Document, Judgement, Query, Record
from noisyir.data.shapes import identities, identity, joined, number, open_rows, text
from noisyir.data.text_files import json_lines
from noisyir.engine.provenance import files_digest

_COLUMNS = ("qid", "title", "id", "code", "label", "split")


class SoDs(Format, kind="so_ds"):
    """SO-DS and the data sets published with it (Heyman and Van Cutsem, 2020)."""

    written: ClassVar[str | None] = ""
    holds_negatives: ClassVar[bool] = False
    path: Location = Field(
        None, description="folder with the snippets' jsonl and, called -valid or -test, the queries'"
    )

    def open(self, workers: int | None = None) -> "SoDsFolder":
        """The folder, if it has snippets."""
        root = Path(self.path or "")
        if self.path is None or not root.is_dir() or not (files := so_ds_files(root)):
            raise DataError("data.so_ds_files", path=self.path)
        return SoDsFolder(root.name, root, *files)

    @classmethod
    def write(cls, collection: Collection, target: Path) -> None:
        """A folder of descriptions with code, one training query a document; grades and negatives are dropped."""
        target.mkdir(parents=True, exist_ok=True)
        descriptions: dict[str, str] = {}
        held_out: dict[str, dict[str, list[str]]] = {}
        for example, passage in collection.pairs(wrong=False):
            if (
                example.split == "train"
                and descriptions.setdefault(str(passage.doc_id), example.query) != example.query
            ):
                raise DataError("data.so_ds_two_queries", doc_id=passage.doc_id)
            if example.split != "train":
                held_out.setdefault(example.split, {}).setdefault(example.query, []).append(str(passage.doc_id))
        snippets = (
            {"id": name, "code": f"{title}\n{code}" if title else code, "description": descriptions.get(name, "")}
            for name, title, code in collection.rows("documents")
        )
        write_rows(target / "snippets.jsonl", snippets)
        for split, queries in held_out.items():
            found = ({"query": query, "relevant_ids": ids} for query, ids in queries.items())
            write_rows(target / f"snippets-{'valid' if split == 'dev' else split}.jsonl", found)


def so_ds_files(folder: Path) -> tuple[Path, dict[Split, Path]] | None:
    """The file of snippets, and the files of queries by split; None for another format."""
    snippets, queries = [], {}
    for path in sorted(chain(folder.glob("*.jsonl"), folder.glob("*.jsonl.gz"))):
        first = next((set(values) for _, values in json_lines(path)), set())
        if {"query", "relevant_ids"} <= first:
            words = path.name.lower().replace(".", "-").split("-")
            queries.update({SPLIT_WORDS[word]: path for word in words if word in SPLIT_WORDS})
        elif {"id", "code", "description"} <= first:
            snippets.append(path)
    return (snippets[0], queries) if len(snippets) == 1 else None


@dataclass(frozen=True)
class SoDsFolder:
    """Snippets are documents; a description is a training query."""

    repeats_pairs: ClassVar[bool] = True
    name: str
    root: Path
    snippets: Path
    query_files: Mapping[Split, Path]

    def digest(self) -> str:
        """A hash of all files' bytes."""
        return files_digest(self.root, [self.snippets, *self.query_files.values()])

    def records(self) -> Iterator[Record]:
        """The snippets with their descriptions, then the queries."""
        known: set[str] = set()
        for line, values in json_lines(self.snippets):
            place = f"{self.snippets} line"
            with row(place, line):
                yield from self._snippet(values, place, line, known)
        for split, path in self.query_files.items():
            for line, values in json_lines(path):
                place = f"{path} line"
                with row(place, line):
                    yield from self._query(values, split, place, line, known)

    def _snippet(self, values: Mapping[str, Any], place: str, number: int, known: set[str]) -> Iterator[Record]:
        where = f"{place} {number}"
        doc_id, query = identity(values, "id", where), text(values, "description", where)
        if doc_id is None:
            raise DataError("data.missing_id", name="an id", where=where)
        yield Document(doc_id, "", text(values, "code", where), place, number)
        if query.strip():
            query_id = content_id(number, query)
            if query_id not in known:
                known.add(query_id)
                yield Query(query_id, query, (), place, number)
            yield Judgement(query_id, doc_id, None, "train", None, place, number)

    def _query(
        self, values: Mapping[str, Any], split: Split, place: str, number: int, known: set[str]
    ) -> Iterator[Record]:
        where = f"{place} {number}"
        query = text(values, "query", where)
        query_id = f"{split}-{content_id(number, query)}"  # the same words may describe a snippet for training
        if query_id not in known:
            known.add(query_id)
            yield Query(query_id, query, (), place, number)
        for doc_id in identities(values, "relevant_ids", where):
            yield Judgement(query_id, doc_id, 1, split, None, place, number)

    def facts(self) -> dict[str, Any]:
        """Names of the files."""
        return {"files": [path.name for path in (self.snippets, *self.query_files.values())]}


class Staqc(FormatOfRows, kind="staqc"):
    """StaQC's annotated rows (Yao et al., WWW 2018); label 0 judges a pair wrong."""

    written: ClassVar[str | None] = ".jsonl"
    holds_negatives: ClassVar[bool] = False
    path: Location = Field(None, description="the file (jsonl, csv, parquet)")

    @classmethod
    def fits(cls, row: Mapping[str, Any]) -> bool:
        """By the names of its columns."""
        return {"qid", "title", "code", "label"} <= set(row)

    def open(self, workers: int | None = None) -> ShapedRows:
        """The file's rows."""
        rows = open_rows("staqc", self.path, ("qid", "title", "code", "label"))
        return ShapedRows(rows.path.stem, rows, _COLUMNS, _example)

    @classmethod
    def write(cls, collection: Collection, target: Path) -> None:
        """A row a pair with its label, if judged; negatives are dropped, titles precede texts."""
        rows = (
            {
                "id": passage.doc_id,
                "qid": str(example.query_id).removesuffix(f"@{example.split}"),
                "title": example.query,
                "code": joined(passage),
                "label": passage.relevance,
                "split": example.split,
            }
            for example, passage in collection.pairs()
        )
        write_rows(target, rows)


def _example(row: Mapping[str, Any], where: str) -> Example:
    """StaQC puts snippets of one question into several splits: it becomes a query in each."""
    qid, split, label = identity(row, "qid", where), split_of(row.get("split"), where), number(row, "label", where)
    if qid is None:
        raise DataError("data.missing_id", name="a qid", where=where)
    if label is not None and not label.is_integer():
        raise DataError("data.wrong_label", where=where, label=label)
    judged = None if label is None else int(label)
    snippet = Passage("", text(row, "code", where), identity(row, "id", where), relevance=judged)
    return Example(text(row, "title", where), [snippet], query_id=qid if split == "train" else f"{qid}@{split}")
