"""Rows without some of their negatives."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

from noisyir.base.errors import DataError
from noisyir.data.examples import ExampleSource, Placed, content_id
from noisyir.data.spelt import is_missing

Keeps: TypeAlias = Mapping[str, Sequence[bool]]  # by column: whether each of its cell's negatives stays


def rows_with(source: ExampleSource, gone: Collection[tuple[str, str]]) -> dict[int, Keeps]:
    """By number, the rows that hold a negative (query_id, doc_id) of `gone`, with what stays of their cells."""
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
        count = len(cell) if isinstance(cell, list) else int(not is_missing(cell))
        if count == len(keeps):
            shared[name] = keeps
        elif count:
            shared[name] = keeps[at : at + count]
            at += count
    if at not in (0, len(keeps)) or not shared:
        raise DataError("data.negatives_not_matched", where=placed.where, columns=", ".join(columns))
    return shared


def without(row: Mapping[str, Any], keeps: Keeps) -> dict[str, Any]:
    """The row without what leaves its cells; a text that leaves is None."""
    new = dict(row)
    for name, keep in keeps.items():
        cell = row[name]
        if isinstance(cell, list):
            new[name] = [one for one, stays in zip(cell, keep, strict=True) if stays]
        elif not all(keep):
            new[name] = None
    return new
