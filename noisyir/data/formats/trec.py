"""TREC's files: judgements (qrels) and perhaps a run, with separate files of topics and documents."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from noisyir.base.errors import DataError
from noisyir.base.settings import Location, Split
from noisyir.data.collection import Collection
from noisyir.data.formats import Format
from noisyir.data.formats.topics import TopicsFile
from noisyir.data.id_texts import IdTexts
from noisyir.data.leniency import not_kept, row
from noisyir.data.records import INTEGER, Document, Judgement, Negative, Query, Record, relevance_of
from noisyir.data.spelt import number_in
from noisyir.data.text_files import open_to_write, utf8_lines, write_lines
from noisyir.engine.provenance import files_digest

_TAG = "noisyir"
_COMMENT = "#"
_FIRST_LINES = 20  # tell the kind of a file
_GRADES = {"-1", "0", "1", "2", "3", "4"}
_HEADER = re.compile(
    r"(query|q|topic)[-_ ]?id[\s,]+(corpus|document|doc|passage|p)[-_ ]?id[\s,]+(score|relevance|rel|label|grade)",
    re.IGNORECASE,
)


class Trec(Format, kind="trec"):
    """Judgements, topics, documents, and a run; its hits without relevance are negatives."""

    written: ClassVar[str | None] = ""
    only_split: ClassVar[Split | None] = "test"
    path: Location = Field(None, description="the qrels: qid 0 docid grade, or qid docid grade; or the run")
    queries: Location = Field(None, description="the topics: qid<TAB>text, <top>s, or rows with columns")
    corpus: Location = Field(None, description="the documents: docid<TAB>text, or rows with columns")
    run: Location = Field(None, description="a run: qid Q0 docid rank score tag, or qid docid rank")
    split: Split = Field("test", description="split of the judgements")

    def open(self, workers: int | None = None) -> "TrecFiles":
        """The files, if all exist."""
        given = {"data.path": self.path, "data.queries": self.queries, "data.corpus": self.corpus, "data.run": self.run}
        if self.path is None or self.queries is None or self.corpus is None:
            raise DataError("data.ids_without_texts", path=self.path or "format trec")
        for setting, path in given.items():
            if path is not None and not Path(path).is_file():
                raise DataError("data.setting_names_no_file", path=path, setting=setting)
        qrels, run = Path(self.path), Path(self.run) if self.run else None
        if trec_role(qrels) == "run":
            qrels, run = None, qrels  # type: ignore[assignment]
        texts = IdTexts.open(self.corpus, "data.corpus")
        return TrecFiles(Path(self.path).name, qrels, Path(self.queries), texts, run, self.split, self.min_relevance)

    @classmethod
    def write(cls, collection: Collection, target: Path) -> None:
        """A folder with qrels.txt, topics.tsv, corpus.tsv, and run.txt if there are negatives, best score first.

        Tabs and line ends become spaces, unjudged pairs relevance 1; splits and weights are dropped.
        """
        collection.refuse_ids("trec", r"[\s\0]")
        target.mkdir(parents=True, exist_ok=True)
        documents = collection.rows("documents")
        write_lines(
            target / "corpus.tsv", ((name, text, *([title] if title else [])) for name, title, text in documents)
        )
        write_lines(target / "topics.tsv", ((name, question) for name, question, *_ in collection.rows("queries")))
        with open_to_write(target / "qrels.txt") as out:
            for query_id, doc_id, _, relevance, *_ in collection.rows("judgements"):
                out.write(f"{query_id} 0 {doc_id} {1 if relevance is None else relevance}\n".encode())
        hits: dict[str, list[tuple[float, str]]] = {}
        for query_id, doc_id, score in collection.rows("negatives"):
            hits.setdefault(query_id, []).append((-(score or 0.0), doc_id))
        if not hits:
            return  # a run without a hit is no run
        with open_to_write(target / "run.txt") as out:
            for query_id, found in hits.items():
                for rank, (score, doc_id) in enumerate(sorted(found), 1):
                    out.write(f"{query_id} Q0 {doc_id} {rank} {-score!r} {_TAG}\n".encode())


def trec_role(path: Path) -> Literal["qrels", "run"] | None:
    """The role of a file by its first lines; None if it has neither."""
    texts = [line for _, line in islice(_lines(path), _FIRST_LINES)]
    if texts and _HEADER.fullmatch(texts[0].strip()):
        return "qrels"
    first = [line.split() for line in texts]
    fields = first[0] if first else []
    if len(fields) == 3:
        if _are_grades(first):
            return "qrels"
        return "run" if _are_ranks(first) else None
    if len(fields) == 4 and INTEGER.fullmatch(fields[3]) and fields[1].upper() in ("0", "Q0", "U0", "ITER"):
        return "qrels"
    return "run" if layout_of_run(fields) else None


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines with their numbers, without blank ones and comments."""
    return ((number, line) for number, line in utf8_lines(path) if line.strip() and line.split()[0] != _COMMENT)


def _are_grades(lines: list[list[str]]) -> bool:
    """Whether the last of three columns holds grades, 0 or 1 among them: triples of ids have three columns, too."""
    last = {fields[2] if len(fields) == 3 else "" for fields in lines}
    return last <= _GRADES and bool(last & {"0", "1"}) and not _are_ranks(lines)


def _are_ranks(lines: list[list[str]]) -> bool:
    """Whether the last of three columns counts hits from 1 to 2 or more."""
    query, rank, most = "", 0, 0
    for fields in lines:
        rank = rank + 1 if fields[0] == query else 1
        query, most = fields[0], max(most, rank)
        if fields[2:] != [str(rank)]:
            return False
    return most > 1


def layout_of_run(fields: list[str]) -> Callable[[list[str]], tuple[str, str, str, str | None]] | None:
    """How to find qid, docid, score and grade in the lines of a run, by its first one."""
    if len(fields) >= 6 and fields[1].upper() == "Q0" and fields[3].isdecimal():  # a tag may hold spaces
        return lambda f: (f[0], f[2], f[4], None)
    is_graded = len(fields) == 6 and fields[2].isdecimal() and number_in(fields[4]) is not None
    if is_graded:  # qid method rank docid score grade
        return lambda f: (f[0], f[3], f[4], f[5])
    if len(fields) == 3 and fields[2].isdecimal():
        return lambda f: (f[0], f[1], str(-int(f[2])), None)
    return None


@dataclass(frozen=True)
class TrecFiles:
    """Documents, topics, judgements and the run."""

    name: str
    qrels: Path | None
    topics: Path
    texts: IdTexts
    run: Path | None
    split: Split
    min_relevance: int = 1

    def digest(self) -> str:
        """A hash of all files' bytes and names; earlier versions read judgements of three columns otherwise."""
        paths = [path for path in (self.qrels, self.topics, self.texts.path, self.run) if path]
        first = next((line for _, line in _lines(self.qrels)), "") if self.qrels else ""
        newer = ["three"] if first and (len(first.split()) == 3 or _HEADER.fullmatch(first.strip())) else []
        return "-".join([*(files_digest(path.parent, [path]) for path in paths), *newer])

    def documents(self) -> Iterator[Document]:
        """The file of documents."""
        return self.texts.documents()

    def queries(self) -> Iterator[Query]:
        """The topics."""
        return TopicsFile(self.topics.name, self.topics, self.split).records()

    def judgements(self) -> Iterator[Judgement]:
        """The lines of the qrels, all grades."""
        number, width, between = 0, 0, None
        for number, line in _lines(self.qrels) if self.qrels else ():
            place = f"{self.qrels} line"
            if not width and _HEADER.fullmatch(line.strip()):
                width, between = 3, "," if "," in line else None
                continue
            fields = [cell.strip() for cell in line.split(between)]
            with row(place, number):
                width = width or (3 if len(fields) == 3 else 4)
                if len(fields) != width:
                    raise DataError("data.not_qrels_line", place=place, number=number, n_fields=len(fields))
                query_id, *_, doc_id, grade = fields
                relevance = relevance_of(grade, f"{place} {number}")
                yield Judgement(query_id, doc_id, relevance, self.split, None, place, number)
        if self.qrels and not number:
            raise DataError("data.empty_qrels", qrels=self.qrels)

    def records(self) -> Iterator[Record]:
        """All records, each file once."""
        relevant: set[tuple[str, str]] = set()
        yield from chain(self.documents(), self.queries())
        for record in self.judgements():
            if record.relevance is not None and record.relevance >= self.min_relevance:
                relevant.add((record.query_id, record.doc_id))
            yield record
        yield from self._hits(relevant)

    def facts(self) -> dict[str, Any]:
        """Whether there was a run."""
        return {"run": self.run is not None}

    def _hits(self, relevant: set[tuple[str, str]]) -> Iterator[Negative]:
        layout, least = None, 0
        for number, line in utf8_lines(self.run) if self.run else ():
            place = f"{self.run} line"
            if not (fields := line.split()):
                continue
            with row(place, number):
                layout, least = layout or layout_of_run(fields), least or min(len(fields), 6)
                if layout is None or len(fields) < least or least == 3 < len(fields):
                    raise DataError("data.not_run_line", place=place, number=number, line=line)
                query_id, doc_id, score, grade = layout(fields)
                if (number_of := number_in(score)) is None:
                    raise DataError("data.wrong_score", place=place, number=number, value=score)
                graded = grade is not None and grade.isdecimal() and int(grade) >= self.min_relevance
                if graded or (query_id, doc_id) in relevant:
                    not_kept("a hit that is judged relevant, and so no negative")
                else:
                    yield Negative(query_id, doc_id, number_of, place, number)
        if self.run and layout is None:
            raise DataError("data.empty_run", run=self.run)
