"""MS MARCO's own layout: collection.tsv, queries.SPLIT.tsv and qrels.SPLIT.tsv (Bajaj et al., 2016; TREC DL)."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from noisyir.config import Split
from noisyir.data.records import Document, Judgement, Query, relevance_of
from noisyir.data.text_files import folder_with, utf8_lines
from noisyir.errors import DataError
from noisyir.provenance import files_digest

_COLLECTION = "collection.tsv"


@dataclass(frozen=True)
class MsmarcoFolder:
    """Passages and queries are streamed line by line; which qrels files exist decides which splits there are."""

    name: str
    root: Path
    qrels: dict[Split, Path]

    @classmethod
    def open(cls, path: str | None) -> "MsmarcoFolder":
        """DataError when the folder, its collection, every qrels file, or a split's queries are missing."""
        root = folder_with(path, "msmarco", (_COLLECTION,))
        qrels = {split: found for split in get_args(Split) if (found := _qrels(root, split))}
        if not qrels:
            raise DataError(f"{root} lacks qrels: put qrels.train.tsv, qrels.dev.tsv or qrels.test.tsv in it (or .txt)")
        if missing := [file.name for file in _queries(root, qrels) if not file.is_file()]:
            raise DataError(f"{root} lacks {', '.join(missing)}: each split with qrels needs its queries")
        return cls(root.name, root, qrels)

    def digest(self) -> str:
        """A hash of the bytes of all files that are read."""
        return files_digest(self.root, self._files())

    def documents(self) -> Iterator[Document]:
        """The lines of collection.tsv; passages have no titles."""
        path = self.root / _COLLECTION
        for number, pid, text in _two_columns(path):
            yield Document(pid, "", text, f"{path} line", number)

    def queries(self) -> Iterator[Query]:
        """The lines of every queries file whose split has qrels."""
        for split, path in zip(self.qrels, _queries(self.root, self.qrels), strict=True):
            for number, qid, text in _two_columns(path):
                yield Query(qid, text, (), f"{path} line", number, split)

    def judgements(self) -> Iterator[Judgement]:
        """The lines of every qrels file, 0 and all grades.  DataError for a wrong column count or relevance."""
        for split, path in self.qrels.items():
            for number, line in utf8_lines(path):
                if not (fields := line.split()):
                    continue
                if len(fields) != 4:
                    raise DataError(
                        f"{path} line {number}: expected 4 columns, qid 0 pid grade, found {len(fields)}: {line!r:.60}"
                    )
                relevance = relevance_of(fields[3], f"{path} line {number}")
                yield Judgement(fields[0], fields[2], relevance, split, None, f"{path} line", number)

    def facts(self) -> dict[str, Any]:
        """Which splits the folder has, and which queries and qrels in it are not read."""
        read = self._files()
        there = [path for kind in ("queries", "qrels") for path in self.root.glob(f"{kind}.*")]
        return {"splits": list(self.qrels), "not_read": sorted(path.name for path in there if path not in read)}

    def _files(self) -> list[Path]:
        return [self.root / _COLLECTION, *_queries(self.root, self.qrels), *self.qrels.values()]


def _qrels(root: Path, split: Split) -> Path | None:
    found = [path for suffix in ("tsv", "txt") if (path := root / f"qrels.{split}.{suffix}").is_file()]
    if len(found) > 1:
        raise DataError(f"{root} has {found[0].name} and {found[1].name}: keep the one that is to be read")
    return found[0] if found else None


def _queries(root: Path, splits: dict[Split, Path]) -> list[Path]:
    return [root / f"queries.{split}.tsv" for split in splits]


def _two_columns(path: Path) -> Iterator[tuple[int, str, str]]:
    """(line number, id, text); empty lines are passed over."""
    for number, line in utf8_lines(path):
        if not line:
            continue
        fields = line.split("\t")
        if len(fields) != 2:
            raise DataError(f"{path} line {number}: expected id<TAB>text, found {len(fields)} tab-separated columns")
        yield number, fields[0], fields[1]
