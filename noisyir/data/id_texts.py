"""A file of texts with ids: named columns, or `id<TAB>text` without a header, as in MS MARCO and TREC."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.json

from noisyir.base.errors import DataError
from noisyir.data.columns import Cells, Names, PairColumn, choose_columns, corpus_documents
from noisyir.data.leniency import glance, row
from noisyir.data.limits import LINE
from noisyir.data.records import Document, Documents
from noisyir.data.row_files import RowFile, known_words
from noisyir.data.text_files import WHOLE, FilePart, open_bytes, packing_of, utf8_lines

_NAMES: Names = known_words("texts")
_BLOCK = 1 << 23  # bytes that are parsed together
_SCHEMA = pa.schema([("_id", pa.string()), ("title", pa.string()), ("text", pa.string())])
_NEWLINE, _OPEN, _CLOSE, _BACKSLASH = b"\n{}\\"


@dataclass(frozen=True)
class IdTexts:
    """One file; `rows` is None if it is `id<TAB>text`, perhaps with a title as third column."""

    path: Path
    rows: RowFile | None

    @classmethod
    def open(cls, path: str, setting: str) -> "IdTexts":
        """Open the file by its first lines; DataError, which names `setting`, if there is none or it is neither."""
        file = Path(path)
        if not file.is_file():
            raise DataError("data.not_an_id_text_file", file=file, setting=setting)
        with glance():
            found = _named(file, setting)
            if found is None and len(next((line for _, line in utf8_lines(file)), "").split("\t")) < 2:
                raise DataError("data.no_id_tab_text_header", file=file)
        return cls(file, found)

    def documents(self) -> Iterator[Document]:
        """The texts as documents."""
        if self.rows:
            yield from corpus_documents(self.rows)
            return
        for number, cells in self._lines():
            with row(f"{self.path} line", number):
                if len(cells) not in (2, 3):
                    raise DataError(
                        "data.not_id_tab_text", place=f"{self.path} line", number=number, n_cells=len(cells)
                    )
                yield Document(cells[0], cells[2] if len(cells) == 3 else "", cells[1], f"{self.path} line", number)

    def texts(self) -> Iterator[tuple[int, str, str]]:
        """(number, id, text) of each."""
        place = f"{self.path} line"
        if self.rows is None:
            for number, cells in self._lines():
                if len(cells) < 2:
                    raise DataError("data.not_id_tab_text", place=place, number=number, n_cells=len(cells))
                yield number, cells[0], cells[1]
            return
        columns = _columns(self.rows)
        for number, values in self.rows.rows(list(columns.values())):
            cell = Cells({name: values[of] for name, of in columns.items()}, columns, self.rows.place, number)
            yield number, cell.name("query_id"), cell.text("query")

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        return ((number, line.split("\t")) for number, line in utf8_lines(self.path) if line.strip())


def _columns(file: RowFile) -> dict[PairColumn, str]:
    return choose_columns(file, {}, _NAMES)


def _named(file: Path, setting: str) -> RowFile | None:
    try:
        rows = RowFile.open(str(file), setting)
    except DataError:
        return None
    return rows if {"query_id", "query"} <= _columns(rows).keys() else None


def documents_in_batches(path: Path, read: Callable[[FilePart], Iterator[Document]]) -> Iterator[Documents | Document]:
    """All documents of the file, in its order.

    Args:
        path: A file of JSON lines.
        read: Reads part of the lines if pyarrow cannot take a block without doubt, after a line that is too long or has
            no end, and for packed files.
    """
    if packing_of(path):
        yield from read(WHOLE)
        return
    number, offset = 1, 0
    with open_bytes(path) as handle:
        while block := handle.read(_BLOCK) + handle.readline(LINE.most):
            if not block.endswith(b"\n"):
                yield from read(FilePart(number, None, offset))
                return
            lines = block.count(b"\n")
            if (table := _parsed(block, lines)) is None:
                yield from read(FilePart(number, number + lines, offset))
            else:
                yield Documents(table, f"{path} line", number)
            number, offset = number + lines, offset + len(block)


def _is_usual(block: np.ndarray) -> bool:
    """Whether each line is between { and }, and no escape is half a surrogate pair."""
    if not block.all():  # zero bytes are no text
        return False
    ends = np.flatnonzero(block == _NEWLINE)
    starts = np.append(0, ends[:-1] + 1)
    return bool((block[starts] == _OPEN).all() and (block[ends - 1] == _CLOSE).all() and _has_whole_pairs(block))


def _has_whole_pairs(block: np.ndarray) -> bool:
    """Whether each escape d800 to dbff is followed by one of dc00 to dfff, which occur nowhere else.

    False also if a backslash before an escape may make it ordinary text.
    """
    escapes = np.flatnonzero(block[:-3] == _BACKSLASH)
    escapes = escapes[(block[escapes + 1] == ord("u")) & ((block[escapes + 2] | 0x20) == ord("d"))]
    digit = block[escapes + 3] | 0x20  # letters small; digits have this bit
    escapes, digit = escapes[digit >= ord("8")], digit[digit >= ord("8")]
    second = digit >= ord("c")
    pairs = np.array_equal(escapes[~second] + 6, escapes[second])
    return pairs and not (block[escapes[~second] - 1] == _BACKSLASH).any()


def _parsed(block: bytes, lines: int) -> pa.Table | None:
    """(_id, title, text) of whole lines with an object each; None if they may be anything else."""
    if not _is_usual(np.frombuffer(block, np.uint8)) or any(key in block for key in (b'"source"', b'"nan"', b'"<NA>"')):
        return None
    try:
        block.decode()
        options = pa.json.ParseOptions(explicit_schema=_SCHEMA, unexpected_field_behavior="ignore")
        whole = pa.json.ReadOptions(use_threads=False, block_size=len(block) + 1)
        table = pa.json.read_json(pa.BufferReader(block), read_options=whole, parse_options=options)
    except (UnicodeDecodeError, pa.ArrowException):
        return None
    if table.num_rows != lines or table["_id"].null_count or table["text"].null_count:
        return None
    if table["title"].null_count:
        table = table.set_column(1, "title", table["title"].fill_null(""))
    return table


def text_key(text: str) -> int:
    """64 bits that are equal for texts of equal words, whatever the spaces."""
    return int.from_bytes(blake2b(" ".join(text.split()).encode(), digest_size=8).digest())
