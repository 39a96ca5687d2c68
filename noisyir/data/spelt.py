"""Values as cells spell them: numbers, and lists as JSON, Python or numpy writes them."""

import ast
import json
import math
import re
from typing import Any

from noisyir.base.errors import DataError

_PYTHON_TEXT = re.compile(r"""\s*(?:None|nan|('(?:[^'\\\n]|\\[^\n])*'|"(?:[^"\\\n]|\\[^\n])*"))\s*,?\s*""")
_DECIMAL_COMMA = re.compile(r"\s*[+-]?(0,\d+|\d+,\d\d?)\s*")  # 1,000 is a thousand in English
_PERCENT = re.compile(r"\s*([+-]?\d[\d.,]*)\s*%\s*")
_MISSING = ("", "nan", "<NA>")  # pandas writes them where it made texts of missing values


def is_missing(value: Any) -> bool:
    """Whether a cell is empty, or says so."""
    return value in _MISSING if isinstance(value, str) else value is None or value != value


def text_in(value: Any, name: str, where: str) -> str:
    """The text in a cell, empty if missing; any other value is a DataError."""
    if isinstance(value, str):
        return "" if value in _MISSING else value
    if not is_missing(value):
        raise DataError("data.wrong_value", expected="text", where=where, name=name, value=value)
    return ""


def number_in(value: Any) -> float | None:
    """The finite number that a value is or spells; None for any other value, and for true and false."""
    if isinstance(value, str) and _DECIMAL_COMMA.fullmatch(value):
        value = value.replace(",", ".")
    if isinstance(value, str) and (percent := _PERCENT.fullmatch(value)):
        return (found := number_in(percent[1])) and found / 100
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def list_in(cell: str) -> list[Any] | None:
    """The list that a cell spells as JSON, Python or numpy (`['a' 'b']`, without None); None for any other text."""
    try:
        found = json.loads(cell)
    except (ValueError, RecursionError):
        found, at, end = [], 1, cell.rstrip()
        while text := _PYTHON_TEXT.match(cell, at):
            found += [ast.literal_eval(text[1])] if text[1] else []
            at = text.end()
        return found if at > 1 and cell.startswith("[") and end[at:] == "]" else None
    return found if isinstance(found, list) else None


def texts_in(cell: str) -> tuple[str, ...] | None:
    """The distinct texts of such a list, without blank ones; None if it holds anything else."""
    found = list_in(cell)
    if found is None or not all(isinstance(one, str) for one in found):
        return None
    return tuple(dict.fromkeys(one for one in found if one.strip()))
