"""Files of rows: jsonl, and CSV in which a spreadsheet runs no formula."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from noisyir.base.errors import StoreError
from noisyir.detection.spreadsheets import guard
from noisyir.engine.tables import aligned, with_values

_BYTE_ORDER_MARK = "\ufeff".encode()  # spreadsheets take UTF-8 without it for the machine's old encoding
_OWN = ("query_id", "doc_id", "query")


def write_csv(tables: Iterable[pa.Table], path: Path) -> None:
    """Write tables of one schema, one after the other: texts guarded, lists as JSON, null as an empty cell."""
    writer = None
    with path.open("wb") as file:
        file.write(_BYTE_ORDER_MARK)
        for table in tables:
            plain = pa.table({name: _plain(table[name]) for name in table.column_names})
            writer = writer or pyarrow.csv.CSVWriter(file, plain.schema)
            writer.write(plain)
        if writer:
            writer.close()


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    if pa.types.is_list(column.type):
        values = (value if value is None else json.dumps(value, ensure_ascii=False) for value in column.to_pylist())
        return pa.array(values, pa.string())
    if pa.types.is_string(column.type):
        return guard(pc.replace_substring(column, "\0", "\N{SYMBOL FOR NULL}"))  # no csv file can hold zero bytes
    if pa.types.is_float32(column.type):  # as the nearest double, 0.1 would be written 0.10000000149
        short = (value if value is None else float(f"{value:.6g}") for value in column.to_pylist())
        return pa.array(short, pa.float64())
    return column


def cut(rows: pa.Table, length: int) -> pa.Table:
    """The rows with the first characters of query and document."""
    return with_values(rows, **{name: pc.utf8_slice_codeunits(rows[name], 0, length) for name in ("query", "document")})


def write_pairs(pairs: pa.Table, documents: pa.Table, path: Path) -> None:
    """Write rows (query_id, doc_id, query and any others) as jsonl, each with its whole document."""
    own = aligned(pairs, documents, ["doc_id"])
    columns = {
        **{name: pairs[name].to_pylist() for name in _OWN},
        "title": own["title"].to_pylist(),
        "document": own["text"].to_pylist(),
        **{name: pairs[name].to_pylist() for name in pairs.column_names if name not in _OWN},
    }
    write_jsonl((dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)), path)


def write_jsonl(rows: Iterable[Mapping[str, Any]], path: Path) -> None:
    """One object a line, as UTF-8."""
    with path.open("w", encoding="utf-8") as out:
        for row in rows:
            out.write(json.dumps(row, ensure_ascii=False) + "\n")


def replace_jsonl(rows: Iterable[Mapping[str, Any]], path: Path) -> None:
    """As `write_jsonl`, in place of an earlier file as a whole, or not at all.

    Raises:
        StoreError: If it cannot be written.
    """
    new = path.with_name(f".{path.name}.new")
    with StoreError.wrapping("audits.cannot_write", path=path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_jsonl(rows, new)
        new.replace(path)
