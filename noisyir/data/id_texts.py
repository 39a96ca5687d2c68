"""A file of texts with their ids: named columns, or `id<TAB>text` without a header, as MS MARCO and TREC have them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from noisyir.data.columns import Cells, PairColumn, choose_columns, corpus_documents
from noisyir.data.leniency import glance, row
from noisyir.data.records import Document
from noisyir.data.row_files import RowFile
from noisyir.data.text_files import utf8_lines
from noisyir.errors import DataError

_IDS = ("_id", "id", "query_id", "qid", "doc_id", "docid", "pid", "passage_id")
_TEXTS = ("text", "query", "question", "title", "document", "passage", "contents")


@dataclass(frozen=True)
class IdTexts:
    """One file.  rows: where its columns have names; None where it is `id<TAB>text`, perhaps with a title behind."""

    path: Path
    rows: RowFile | None

    @classmethod
    def open(cls, path: str, setting: str) -> "IdTexts":
        """DataError, naming `setting`, when there is no such file, or it is neither."""
        file = Path(path)
        if not file.is_file():
            raise DataError(
                f"{file} is not a file: set {setting} to a file of id<TAB>text, or with columns id and text"
            )
        with glance():
            found = _named(file, setting)
            if found is None and len(next((line for _, line in utf8_lines(file)), "").split("\t")) < 2:
                raise DataError(f"{file}: expected id<TAB>text, or a header with columns id and text")
        return cls(file, found)

    def documents(self) -> Iterator[Document]:
        """The texts as documents."""
        if self.rows:
            yield from corpus_documents(self.rows)
            return
        for number, cells in self._lines():
            with row(f"{self.path} line", number):
                if len(cells) not in (2, 3):
                    raise DataError(f"{self.path} line {number}: expected id<TAB>text, found {len(cells)} columns")
                yield Document(cells[0], cells[2] if len(cells) == 3 else "", cells[1], f"{self.path} line", number)

    def texts(self) -> Iterator[tuple[int, str, str]]:
        """(number, id, text) of each."""
        place = f"{self.path} line"
        if self.rows is None:
            for number, cells in self._lines():
                if len(cells) < 2:
                    raise DataError(f"{place} {number}: expected id<TAB>text, found {len(cells)} columns")
                yield number, cells[0], cells[1]
            return
        columns = _columns(self.rows)
        for number, values in self.rows.rows(list(columns.values())):
            cell = Cells({name: values[of] for name, of in columns.items()}, columns, self.rows.place, number)
            yield number, cell.name("query_id"), cell.text("query")

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        return ((number, line.split("\t")) for number, line in utf8_lines(self.path) if line.strip())


def _columns(file: RowFile) -> dict[PairColumn, str]:
    return choose_columns(file, {}, {"query_id": _IDS, "query": _TEXTS})


def _named(file: Path, setting: str) -> RowFile | None:
    try:
        rows = RowFile.open(str(file), setting)
    except DataError:
        return None
    return rows if {"query_id", "query"} <= _columns(rows).keys() else None
