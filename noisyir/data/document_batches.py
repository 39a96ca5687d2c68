"""Documents of JSON lines, many at a time: as fast as pyarrow reads them, and row by row where anything is unusual."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.json

from noisyir.data.limits import LINE
from noisyir.data.records import Document, Documents
from noisyir.data.text_files import WHOLE, Part, open_bytes

_BLOCK = 1 << 23  # bytes that are parsed together
_SCHEMA = pa.schema([("_id", pa.string()), ("title", pa.string()), ("text", pa.string())])
_NEWLINE, _OPEN, _CLOSE, _BACKSLASH = b"\n{}\\"


def documents_in_batches(
    path: Path, one_by_one: Callable[[Part], Iterator[Document]]
) -> Iterator[Documents | Document]:
    """All documents of the file, in its order.

    one_by_one: reads part of the lines, for blocks that pyarrow cannot take without doubt, for a last line without an
    end, for all that follows a line that is too long, and for packed files.
    """
    if path.name.lower().endswith((".gz", ".zst")):
        yield from one_by_one(WHOLE)
        return
    number, offset = 1, 0
    with open_bytes(path) as handle:
        while block := handle.read(_BLOCK) + handle.readline(LINE.most):
            if not block.endswith(b"\n"):
                yield from one_by_one(Part(number, None, offset))
                return
            lines = block.count(b"\n")
            if (table := _parsed(block, lines)) is None:
                yield from one_by_one(Part(number, number + lines, offset))
            else:
                yield Documents(table, f"{path} line", number)
            number, offset = number + lines, offset + len(block)


def _is_usual(block: np.ndarray) -> bool:
    """Whether each line begins with { and ends with }, and no escape is half a surrogate pair.  block: bytes."""
    if not block.all():  # zero bytes are no text
        return False
    ends = np.flatnonzero(block == _NEWLINE)
    starts = np.append(0, ends[:-1] + 1)
    return bool((block[starts] == _OPEN).all() and (block[ends - 1] == _CLOSE).all() and _has_whole_pairs(block))


def _has_whole_pairs(block: np.ndarray) -> bool:
    """Whether each escape of d800 to dbff is followed by one of dc00 to dfff, and these stand nowhere else.

    False, too, where a backslash before one may make it ordinary text.
    """
    escapes = np.flatnonzero(block[:-3] == _BACKSLASH)
    escapes = escapes[(block[escapes + 1] == ord("u")) & ((block[escapes + 2] | 0x20) == ord("d"))]
    digit = block[escapes + 3] | 0x20  # letters small; digits have this bit
    escapes, digit = escapes[digit >= ord("8")], digit[digit >= ord("8")]
    second = digit >= ord("c")
    pairs = np.array_equal(escapes[~second] + 6, escapes[second])
    return pairs and not (block[escapes[~second] - 1] == _BACKSLASH).any()


def _parsed(block: bytes, lines: int) -> pa.Table | None:
    """(_id, title, text) of whole lines with an object each; None where it may be anything else."""
    if not _is_usual(np.frombuffer(block, np.uint8)) or b'"source"' in block:  # where a document came from
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
