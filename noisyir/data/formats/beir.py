"""A BEIR folder: corpus.jsonl, queries.jsonl, qrels/{train,dev,test}.tsv (Thakur et al., NeurIPS 2021)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, get_args

from pydantic import Field

from noisyir.base.errors import DataError
from noisyir.base.settings import Location, Split
from noisyir.data import leniency
from noisyir.data.collection import Collection
from noisyir.data.containers import write_rows
from noisyir.data.formats import Format
from noisyir.data.id_texts import documents_in_batches
from noisyir.data.records import Document, Judgement, Query, Record, as_id, relevance_of
from noisyir.data.shapes import texts
from noisyir.data.text_files import FilePart, folder_with, json_lines, open_to_write, text_of, utf8_lines
from noisyir.engine.provenance import files_digest

_HEADER = ["query-id", "corpus-id", "score"]


class Beir(Format, kind="beir"):
    """A BEIR folder."""

    written: ClassVar[str | None] = ""
    path: Location = Field(None, description="folder of its files")

    @classmethod
    def write(cls, collection: Collection, target: Path) -> None:
        """A folder; unjudged pairs become relevance 1, negatives 0; weights and scores are dropped."""
        collection.refuse_ids("beir")
        (target / "qrels").mkdir(parents=True, exist_ok=True)
        write_rows(target / "corpus.jsonl", map(dict, _documents(collection)))
        write_rows(target / "queries.jsonl", map(dict, _queries(collection)))
        for split in collection.splits or ["train"]:
            with open_to_write(target / f"qrels/{split}.tsv") as out:
                out.writelines(line.encode() for line in ["\t".join(_HEADER) + "\n", *_qrels(collection, split)])

    def open(self, workers: int | None = None) -> "BeirFolder":
        """The folder, if it has qrels."""
        root = folder_with(self.path, "beir", ("corpus.jsonl", "queries.jsonl"))
        qrels = {split: path for split in get_args(Split) if (path := root / f"qrels/{split}.tsv").is_file()}
        if not qrels:
            raise DataError("data.beir_qrels_missing", root=root, folder=root / "qrels")
        return BeirFolder(root.name, root, qrels)


@dataclass(frozen=True)
class BeirFolder:
    """Documents and queries line by line, and the splits that have a qrels file."""

    name: str
    root: Path
    qrels: Mapping[Split, Path]
    sources: dict[str, str] = field(default_factory=dict)  # of documents; filled as they are read

    def digest(self) -> str:
        """A hash of all files' bytes."""
        return files_digest(self.root, [self.root / "corpus.jsonl", self.root / "queries.jsonl", *self.qrels.values()])

    def records(self) -> Iterator[Record]:
        """All records; the sources in documents are kept for the pairs."""
        yield from documents_in_batches(self.root / "corpus.jsonl", self._documents)
        yield from chain(self.queries(), self.judgements())

    def _documents(self, part: FilePart) -> Iterator[Document]:
        path = self.root / "corpus.jsonl"
        place = f"{path} line"
        for number, row in json_lines(path, part):
            with leniency.row(place, number):
                where = f"{place} {number}"
                title = text_of(row, "title", where) if row.get("title") is not None else ""
                doc_id = text_of({**row, "_id": as_id(row.get("_id"))}, "_id", where)
                if source := _source(row.get("metadata")):
                    self.sources[doc_id] = source
                yield Document(doc_id, title, text_of(row, "text", where), place, number)

    def queries(self) -> Iterator[Query]:
        """The lines of queries.jsonl, perhaps with `answers`."""
        path = self.root / "queries.jsonl"
        place = f"{path} line"
        for number, row in json_lines(path):
            with leniency.row(place, number):
                where = f"{place} {number}"
                name, text = text_of({**row, "_id": as_id(row.get("_id"))}, "_id", where), text_of(row, "text", where)
                yield Query(name, text, texts(row, "answers", where), place, number)

    def judgements(self) -> Iterator[Judgement]:
        """The lines of every qrels file; read the documents first, because they have the sources."""
        for split, path in self.qrels.items():
            yield from _judgements(path, split, self.sources)

    def facts(self) -> dict[str, Any]:
        """The splits of the folder."""
        return {"splits": list(self.qrels)}


def _documents(collection: Collection) -> Iterator[dict[str, Any]]:
    sources = {doc_id: source for _, doc_id, _, _, source, *_ in collection.rows("judgements") if source}
    for name, title, text in collection.rows("documents"):
        metadata = {"metadata": {"source": sources[name]}} if name in sources else {}
        yield {"_id": name, "title": title, "text": text, **metadata}


def _queries(collection: Collection) -> Iterator[dict[str, Any]]:
    for name, text, _, answers in collection.rows("queries"):
        yield {"_id": name, "text": text, **({"answers": answers} if answers else {})}


def _qrels(collection: Collection, split: Split) -> Iterator[str]:
    for example in collection.examples(labels=True):
        if example.split == split:
            judged = {passage.doc_id: passage.relevance for passage in example.positives}
            for doc_id, relevance in judged.items():
                yield f"{example.query_id}\t{doc_id}\t{1 if relevance is None else relevance}\n"
            for passage in example.negatives:
                if passage.doc_id not in judged:
                    yield f"{example.query_id}\t{passage.doc_id}\t0\n"


def _source(metadata: object) -> str | None:
    source = metadata.get("source") if isinstance(metadata, dict) else None
    return source if isinstance(source, str) and source.strip() else None


def _judgements(path: Path, split: Split, sources: Mapping[str, str]) -> Iterator[Judgement]:
    lines, place = utf8_lines(path), f"{path} line"
    header = next(lines, (1, ""))[1].split("\t")
    if header != _HEADER:
        raise DataError("data.wrong_header", path=path, expected="<TAB>".join(_HEADER), found="<TAB>".join(header))
    for number, line in lines:
        if not line:
            continue
        with leniency.row(place, number):
            fields = line.split("\t")
            if len(fields) != 3:
                raise DataError("data.not_three_columns", place=place, number=number, n_fields=len(fields))
            relevance = relevance_of(fields[2], f"{place} {number}")
            yield Judgement(fields[0], fields[1], relevance, split, sources.get(fields[1]), place, number)
