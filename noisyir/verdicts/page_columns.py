"""Columns of the page's tables: which are shown, and their values as the page's scripts read them."""

from collections.abc import Iterable
from typing import Any, TypeAlias

import pyarrow as pa

Column: TypeAlias = tuple[str, str, str]  # key, heading, kind of value


def shown_columns(columns: Iterable[Column], rows: pa.Table) -> list[Column]:
    """Those of the columns that have a value in any row, and the document, which scripts look up by its number."""
    return [column for column in columns if column[0] == "document" or rows[column[0]].null_count < rows.num_rows]


def values_for_script(rows: pa.Table, plain: Iterable[str], numbers: Iterable[str]) -> dict[str, list[Any]]:
    """These columns as lists, numbers to four digits."""
    return {name: rows[name].to_pylist() for name in plain} | {name: brief(rows[name].to_pylist()) for name in numbers}


def brief(values: Iterable[float | None]) -> list[float | None]:
    """The numbers to four digits, null left as it is."""
    return [None if value is None else float(f"{value:.4g}") for value in values]
