"""A BEIR folder: corpus.jsonl, queries.jsonl, qrels/{train,dev,test}.tsv (Thakur et al., NeurIPS 2021).

MTEB's folders on the Hub have qrels as .jsonl, or all of it as Parquet in corpus/, queries/ and qrels/.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, get_args

from pydantic import Field

from noisyir.base.errors import DataError
from noisyir.base.settings import Location, Split
from noisyir.data import leniency, shapes
from noisyir.data.collection import Collection
from noisyir.data.containers import write_rows
from noisyir.data.examples import SPLITS
from noisyir.data.formats import Format
from noisyir.data.id_texts import documents_in_batches
from noisyir.data.records import Document, Judgement, Query, Record, as_id, relevance_of
from noisyir.data.row_files import RowFile
from noisyir.data.text_files import WHOLE, FilePart, folder_with, json_lines, one_of, open_to_write, utf8_lines
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
        """The folder, if it has documents, queries and qrels."""
        root = folder_with(self.path, "beir", (), holds="corpus.jsonl, queries.jsonl")
        parts = {name: _parts(root, name) for name in ("corpus", "queries")}
        if missing := [f"{name}.jsonl" for name, files in parts.items() if not files]:
            raise DataError("data.beir_files_missing", root=root, missing=", ".join(missing))
        qrels = {split: files for split in get_args(Split) if (files := _qrels_of(root, split))}
        if not qrels:
            raise DataError("data.beir_qrels_missing", root=root, folder=root / "qrels")
        return BeirFolder(root.name, root, parts["corpus"], parts["queries"], qrels)


def is_in_parquet(root: Path) -> bool:
    """Whether a folder has MTEB's layout of the Hub: tables in corpus/ and queries/, and of qrels."""
    return all(any(root.glob(f"{name}/*.parquet")) for name in ("corpus", "queries"))


def _parts(root: Path, name: str) -> Sequence[Path]:
    packed = one_of(root, [f"{name}.jsonl"])
    return [packed] if packed else sorted(root.glob(f"{name}/*.parquet"))


def _qrels_of(root: Path, split: Split) -> Sequence[Path]:
    """The split's file of the first ending, or its tables."""
    names = [name for name, meant in SPLITS.items() if meant == split and name]
    for end in ("tsv", "jsonl"):
        if found := [path for name in names if (path := root / f"qrels/{name}.{end}").is_file()]:
            return found
    tables = (path for folder in ("qrels", "default", "data") for path in sorted(root.glob(f"{folder}/*.parquet")))
    return [path for path in tables if path.name.split("-")[0] in names]


@dataclass(frozen=True)
class BeirFolder:
    """Files of documents and queries, lines of JSON or tables, and of the splits' qrels."""

    name: str
    root: Path
    corpus: Sequence[Path]
    queries_in: Sequence[Path]
    qrels: Mapping[Split, Sequence[Path]]
    sources: dict[str, str] = field(default_factory=dict)  # of documents; filled as they are read

    def digest(self) -> str:
        """A hash of all files' bytes."""
        return files_digest(self.root, [*self.corpus, *self.queries_in, *chain.from_iterable(self.qrels.values())])

    def records(self) -> Iterator[Record]:
        """All records; the sources in documents are kept for the pairs."""
        for path in self.corpus:
            is_lines = path.suffix != ".parquet"
            yield from documents_in_batches(path, partial(self._documents, path)) if is_lines else self._documents(path)
        yield from chain(self.queries(), self.judgements())

    def _documents(self, path: Path, part: FilePart = WHOLE) -> Iterator[Document]:
        for place, number, row in _rows(path, part):
            with leniency.row(place, number):
                where = f"{place} {number}"
                doc_id = _name(row, where)
                if source := _source(row.get("metadata")):
                    self.sources[doc_id] = source
                title, text = shapes.text(row, "title", where), shapes.text_of(row, "text", where)
                yield Document(doc_id, title, text, place, number)

    def queries(self) -> Iterator[Query]:
        """The queries, perhaps with `answers`."""
        for place, number, row in chain.from_iterable(map(_rows, self.queries_in)):
            with leniency.row(place, number):
                where = f"{place} {number}"
                name, text = _name(row, where), shapes.text_of(row, "text", where)
                yield Query(name, text, shapes.texts(row, "answers", where), place, number)

    def judgements(self) -> Iterator[Judgement]:
        """The lines of every qrels file; read the documents first, because they have the sources."""
        for split, paths in self.qrels.items():
            for path in paths:
                yield from _judgements(path, split, self.sources)

    def facts(self) -> dict[str, Any]:
        """The splits of the folder."""
        return {"splits": list(self.qrels)}


def _rows(path: Path, part: FilePart = WHOLE) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Place, number and fields of each line of JSON, or of each row of a table."""
    if path.suffix == ".parquet":
        file = RowFile.open(str(path), "data.path")
        yield from ((file.place, *found) for found in file.rows(file.columns))
    else:
        yield from ((f"{path} line", *found) for found in json_lines(path, part))


def _name(row: dict[str, Any], where: str) -> str:
    """The id, which MTEB's newer tables call `id`."""
    return shapes.identity(row, "_id" if "_id" in row else "id", where) or ""


def _documents(collection: Collection) -> Iterator[dict[str, Any]]:
    sources = {doc_id: source for _, doc_id, _, _, source, *_ in collection.rows("judgements") if source}
    for name, title, text in collection.rows("documents"):
        metadata = {"metadata": {"source": sources[name]}} if name in sources else {}
        yield {"_id": name, "title": title, "text": text, **metadata}


def _queries(collection: Collection) -> Iterator[dict[str, Any]]:
    for name, text, _, answers in collection.rows("queries"):
        yield {"_id": name, "text": text, **({"answers": answers} if answers else {})}


def _qrels(collection: Collection, split: Split) -> Iterator[str]:
    for example, grades in collection.grades(split):
        yield from (f"{example.query_id}\t{doc_id}\t{grade}\n" for doc_id, grade in grades.items())


def _source(metadata: object) -> str | None:
    source = metadata.get("source") if isinstance(metadata, dict) else None
    return source if isinstance(source, str) and source.strip() else None


def _judgements(path: Path, split: Split, sources: Mapping[str, str]) -> Iterator[Judgement]:
    for place, number, fields in _lines(path) if path.suffix == ".tsv" else _fields(path):
        with leniency.row(place, number):
            if len(fields) != 3:
                raise DataError("data.not_three_columns", place=place, number=number, n_fields=len(fields))
            relevance = relevance_of(fields[2], f"{place} {number}")
            yield Judgement(fields[0], fields[1], relevance, split, sources.get(fields[1]), place, number)


def _lines(path: Path) -> Iterator[tuple[str, int, list[str]]]:
    lines = utf8_lines(path)
    header = next(lines, (1, ""))[1].split("\t")
    if header != _HEADER:
        raise DataError("data.wrong_header", path=path, expected="<TAB>".join(_HEADER), found="<TAB>".join(header))
    yield from ((f"{path} line", number, line.split("\t")) for number, line in lines if line)


def _fields(path: Path) -> Iterator[tuple[str, int, list[str]]]:
    for place, number, row in _rows(path):
        yield place, number, [str(as_id(row[name])) for name in _HEADER if row.get(name) is not None]
