"""Documents of JSON lines, many at a time: as fast as pyarrow reads them, and row by row where anything is unusual."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.json

from noisyir.data.records import Document, Documents
from noisyir.data.text_files import open_bytes

_BLOCK = 1 << 23  # bytes that are parsed together
_SCHEMA = pa.schema([("_id", pa.string()), ("title", pa.string()), ("text", pa.string())])
_NEWLINE, _OPEN, _CLOSE, _BACKSLASH = b"\n{}\\"


def documents_in_batches(
    path: Path, one_by_one: Callable[[int, int | None], Iterator[Document]]
) -> Iterator[Documents | Document]:
    """All documents of the file, in its order.

    one_by_one: reads the lines from one number up to another (None: the last), for blocks that pyarrow cannot take
    without doubt, and for all that follows a packed file's beginning that cannot be read.
    """
    if path.name.lower().endswith((".gz", ".zst")):
        yield from one_by_one(1, None)
        return
    number = 1
    with open_bytes(path) as handle:
        while block := handle.read(_BLOCK):
            block += handle.readline(_BLOCK)
            lines = block.count(b"\n") + (not block.endswith(b"\n"))
            table = _parsed(block, lines) if block.endswith(b"\n") else None
            if table is None:
                yield from one_by_one(number, number + lines)
            else:
                yield Documents(table, f"{path} line", number)
            number += lines


def _is_usual(block: np.ndarray) -> bool:
    """Whether each line begins with { and ends with }, and no escape may be half of a pair.  block: bytes."""
    if not block.all():  # zero bytes are no text
        return False
    ends = np.flatnonzero(block == _NEWLINE)
    escapes = np.flatnonzero(block[:-2] == _BACKSLASH)
    halves = (block[escapes + 1] == ord("u")) & ((block[escapes + 2] | 0x20) == ord("d"))
    starts = np.append(0, ends[:-1] + 1)
    return bool((block[starts] == _OPEN).all() and (block[ends - 1] == _CLOSE).all() and not halves.any())


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
