"""Files of judgements in a spreadsheet: formulas that it may not run, and ids that it changed when it saved."""

import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from noisyir.engine.tables import pair_ids

Pair = tuple[str, str]
_FORMULA = "'*[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"  # the last four: full-width = + - @


def guard(texts: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The texts, formulas of spreadsheets behind a quote mark.

    A quote mark and a formula get one more mark, so that `unguard` is exact.

    Source: OWASP, "CSV Injection".
    """
    quoted = pc.binary_join_element_wise("'", texts, "")
    return pc.if_else(pc.match_substring_regex(texts, rf"\A{_FORMULA}"), quoted, texts)


def unguard(text: str) -> str:
    """The inverse of `guard`."""
    return text[1:] if text.startswith("'") and re.match(_FORMULA, text) else text


def before_a_spreadsheet(pair: Pair, pairs: pa.Table, known: Mapping[Pair, int]) -> Pair:
    """The audited pair with ids that equal these as numbers; the pair itself if there is none, or several.

    A spreadsheet drops the zeros before a number, and writes one of many digits as 9.00720E+15.
    """
    if pair in known or all(_as_number(name) is None for name in pair):
        return pair
    meant = [
        found
        for found in pair_ids(pairs.select(["query_id", "doc_id"]))
        if all(one == other or _are_one_number(one, other) for one, other in zip(pair, found, strict=True))
    ]
    return meant[0] if len(meant) == 1 else pair


def changed_ids(unknown: Iterable[Pair]) -> str:
    """Advice if a spreadsheet may have changed the ids."""
    if not (numbers := [name for pair in unknown for name in pair if _as_number(name) is not None]):
        return ""
    return f"; a spreadsheet may have written {numbers[0]!r} for an id: read its columns as text when you open the file"


def _as_number(name: str) -> float | None:
    with suppress(ValueError):
        return found if math.isfinite(found := float(name.replace(",", "."))) else None
    return None


def _are_one_number(cell: str, name: str) -> bool:
    """Whether a spreadsheet's cell may be what became of an id: equal to the digits that the cell shows."""
    shown, exact = _as_number(cell), _as_number(name)
    if shown is None or exact is None:
        return False
    mantissa, rounds, _ = cell.replace(",", ".").lower().partition("e")
    return shown == exact or (
        bool(rounds) and abs(shown - exact) <= 10 ** -len(mantissa.partition(".")[2]) * abs(exact)
    )
