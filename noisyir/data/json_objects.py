"""Rows within one JSON object: lists under `data` or the names of splits, pandas' columns, LlamaIndex's ids."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noisyir.base.errors import DataError
from noisyir.data.containers.split_folder import SPLIT, SPLIT_WORDS
from noisyir.data.text_files import read_object

LLAMA_INDEX = ("queries", "corpus", "relevant_docs")
_LISTS = ("data", "rows", "examples", "pairs", "items")
_SHOWN = 10  # keys in a message


def is_one_object(path: Path, first: bytes) -> bool:
    """Whether a file that starts with { is one object with rows inside, by its first bytes or as a whole."""
    line, _, rest = first.decode("utf-8-sig", "replace").strip().partition("\n")
    try:
        json.loads(line)
    except RecursionError:
        return False
    except json.JSONDecodeError as error:
        if rest and (error.pos < len(line.rstrip()) or error.msg.startswith("Unterminated")):
            return False  # a damaged line
    else:
        if rest.strip():
            return False  # an object a line
    try:
        value = read_object(path)
    except DataError as error:
        return bool(rest) and error.code == "data.json_too_large"
    return bool(rest) or _found(value, path) is not None


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of such a file; one without known rows is a DataError."""
    value = read_object(path)
    if (found := _found(value, path)) is None:
        raise DataError("data.unknown_json_object", path=path, keys=", ".join(list(value)[:_SHOWN]))
    return found


def _found(value: Mapping[str, Any], path: Path) -> list[dict[str, Any]] | None:
    if all(isinstance(value.get(name), dict) for name in LLAMA_INDEX):
        queries, _, relevant = (value[name] for name in LLAMA_INDEX)
        return [{"query_id": of, "query": text, LLAMA_INDEX[2]: relevant.get(of)} for of, text in queries.items()]
    lists = {name: rows for name, rows in value.items() if name.lower() in (*_LISTS, *SPLIT_WORDS) and _are_rows(rows)}
    if lists:
        known = {key for rows in lists.values() for key in rows[0]}
        others = [name for name, rows in value.items() if name not in lists and _are_rows(rows) and known & {*rows[0]}]
        if others:
            raise DataError("data.unread_list", path=path, read=", ".join(lists), unread=", ".join(others))
        splits = {name: {SPLIT: SPLIT_WORDS[name.lower()]} for name in lists if name.lower() in SPLIT_WORDS}
        return [{**splits.get(name, {}), **row} for name, rows in lists.items() for row in rows]
    columns = list(value.values())
    if columns and all(map(_is_column, columns)) and len({len(column) for column in columns}) == 1:
        return [dict(zip(value, row, strict=True)) for row in zip(*columns, strict=True)]
    if not columns or not all(isinstance(column, dict) and column.keys() == columns[0].keys() for column in columns):
        return None
    if all(name.isdecimal() for name in columns[0]):  # pandas' to_json
        return [{name: column[row] for name, column in value.items()} for row in columns[0]]
    return columns if all(name.isdecimal() for name in value) else None  # pandas' orient="index"


def _is_column(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and not any(isinstance(cell, dict) for cell in value)


def _are_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)
