"""A file written again without some of its negatives; the rest of the file stays as it is."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from noisyir.base.errors import DataError
from noisyir.data.examples import ExampleSource, Placed, content_id
from noisyir.data.json_arrays import json_array_texts, text_chunks
from noisyir.data.row_files import RowFile
from noisyir.data.text_files import open_bytes, open_to_write

Keeps: TypeAlias = Mapping[str, Sequence[bool]]  # by column: whether each of its cell's negatives stays

JSON = (".json", ".jsonl")
_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")


class _Cut(NamedTuple):
    """Characters that give way to others."""

    start: int
    end: int
    new: str


def rows_with(source: ExampleSource, gone: Collection[tuple[str, str]]) -> dict[int, Keeps]:
    """By number, the rows that hold a negative (query_id, doc_id) of `gone`, with what stays of their cells.

    Raises:
        DataError: If a row's cells cannot be matched with its negatives.
    """
    found = {}
    place = source.negatives_at
    for placed in source.rows() if place and gone else ():
        given, number = source.example(placed), placed.number
        query_id = given.query_id if given.query_id is not None else content_id(number, given.query)
        ids = (
            one.doc_id if one.doc_id is not None else content_id(number, one.title, one.text) for one in given.negatives
        )
        keeps = [(query_id, doc_id) not in gone for doc_id in ids]
        if place and not all(keeps):
            found[number] = _by_column(placed, place[1], keeps)
    return found


def _by_column(placed: Placed, columns: Sequence[str], keeps: Sequence[bool]) -> Keeps:
    """Share out what stays: a cell holds all negatives, or the next after the cell before it."""
    shared, at = {}, 0
    for name in columns:
        cell = placed.value.get(name)
        count = len(cell) if isinstance(cell, list) else int(cell not in (None, ""))
        if count == len(keeps):
            shared[name] = keeps
        elif count:
            shared[name] = keeps[at : at + count]
            at += count
    if at not in (0, len(keeps)) or not shared:
        raise DataError("data.negatives_not_matched", where=placed.where, columns=", ".join(columns))
    return shared


def write_json(file: RowFile, rows: Mapping[int, Keeps], target: Path) -> None:
    """Write JSON lines, or an array, to `target`; only what leaves a cell is cut out of its bytes."""
    with open_to_write(target) as out:
        if file.suffix == ".json":
            texts = json_array_texts(file.path)
            cuts = (cut for number, at, text in texts for cut in _cuts(text, at, rows.get(number, {})))
            out.writelines(part.encode() for part in _changed(text_chunks(file.path), cuts))
            return
        with open_bytes(file.path) as handle:
            for number, raw in enumerate(handle, 1):
                text = raw.decode() if number in rows else ""
                out.write("".join(_changed([text], _cuts(text, 0, rows[number]))).encode() if text else raw)


def _changed(chunks: Iterable[str], cuts: Iterator[_Cut]) -> Iterator[str]:
    """The text with the cuts made, which come in its order."""
    at, cut = 0, next(cuts, None)
    for chunk in chunks:
        start = at
        while cut is not None and cut.start < start + len(chunk):
            if cut.start >= at:
                yield chunk[at - start : cut.start - start] + cut.new
            at = min(cut.end, start + len(chunk))
            if cut.end > at:
                break
            cut = next(cuts, None)
        yield chunk[at - start :]
        at = start + len(chunk)


def _cuts(text: str, offset: int, keeps: Keeps) -> Iterator[_Cut]:
    """The cuts in an object: list elements with one separator, and null in place of a lone text."""
    members = _values(text, text.index("{")) if keeps else ()
    for keep, start, end in ((keeps[name], start, end) for name, start, end in members if name in keeps):
        if text[start] == "[" and not any(keep):
            yield _Cut(offset + start + 1, offset + end - 1, "")
        elif text[start] == "[":
            yield from _elements_cut([place for _, *place in _values(text, start)], keep, offset)
        elif not all(keep):
            yield _Cut(offset + start, offset + end, "null")


def _elements_cut(places: Sequence[Sequence[int]], keep: Sequence[bool], offset: int) -> Iterator[_Cut]:
    kept = False
    for number, (start, end) in enumerate(places):
        if keep[number]:
            kept = True
        elif kept:
            yield _Cut(offset + places[number - 1][1], offset + end, "")
        else:
            yield _Cut(offset + start, offset + places[number + 1][0], "")


def _values(text: str, at: int) -> Iterator[tuple[str, int, int]]:
    """(name, start, end) of each value of the object or list that starts here; a list's have no names."""
    end_of_all, at = {"{": "}", "[": "]"}[text[at]], _after_space(text, at + 1)
    while text[at] != end_of_all:
        name = ""
        if end_of_all == "}":
            name, at = _DECODER.raw_decode(text, at)
            at = _after_space(text, _after_space(text, at) + 1)
        _, end = _DECODER.raw_decode(text, at)
        yield name, at, end
        at = _after_space(text, end)
        at = _after_space(text, at + 1) if text[at] == "," else at


def _after_space(text: str, at: int) -> int:
    return found.end() if (found := _SPACE.match(text, at)) else at


def without(row: Mapping[str, Any], keeps: Keeps) -> dict[str, Any]:
    """The row without what leaves its cells; a text that leaves is empty, as its container has it."""
    new = dict(row)
    for name, keep in keeps.items():
        cell = row[name]
        if isinstance(cell, list):
            new[name] = [one for one, stays in zip(cell, keep, strict=True) if stays]
        elif not all(keep):
            new[name] = "" if isinstance(cell, str) else None
    return new
