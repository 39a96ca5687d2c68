"""Files of rows: jsonl, and CSV in which a spreadsheet runs no formula."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from noisyir.audits.reasons import Evidence, reason
from noisyir.audits.texts import PairTexts, full_text, names_nothing, shared_words
from noisyir.engine.tables import aligned

_FORMULA = "'*[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"  # the last four: full-width = + - @
_BYTE_ORDER_MARK = "\ufeff".encode()  # spreadsheets take UTF-8 without it for the machine's old encoding
_OWN = ("query_id", "doc_id", "query")
_OF_PAIR = ("verdict", "suspicion", "by_hand", "rank", "similarity")
_EVIDENCE = [*_OF_PAIR, "p_clean", "rests_on", "query", "better"]


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
    for name in ("query", "document"):
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, name, pc.utf8_slice_codeunits(rows[name], 0, length))
    return rows


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


def better_documents(competitors: pa.Table) -> tuple[pa.Array, pa.Array]:
    """(ids, similarities) of the competitors more similar to the query than the pair's own document, best first.

    A pair that was not searched has null in `competitors` and gets empty lists.
    """
    ids, theirs = (competitors[name].combine_chunks() for name in ("competitors", "competitor_similarities"))
    owner = pc.list_parent_indices(ids).to_numpy()
    above = theirs.flatten().to_numpy() > competitors["similarity"].combine_chunks().take(pa.array(owner)).to_numpy()
    return _kept(ids, owner, above), _kept(theirs, owner, above)


def first_of_each(lists: pa.ListArray, count: int) -> pa.ListArray:
    """The first `count` values of every list."""
    owner = pc.list_parent_indices(lists).to_numpy()
    start = np.searchsorted(owner, owner)
    return _kept(lists, owner, np.arange(len(owner)) - start < count)


def with_reasons(pairs: pa.Table, texts: PairTexts) -> pa.Table:
    """The pairs (as the audit stage joins them) with document, duplicates and reason."""
    own = aligned(pairs, texts.documents, ["doc_id"])
    documents = list(map(full_text, own["title"].to_pylist(), own["text"].to_pylist()))
    rows, openings = zip(pairs.select(_EVIDENCE).to_pylist(), documents, strict=True), texts.openings
    reasons = [reason(_evidence(row, document, texts, openings)) for row, document in rows]
    return (
        pairs.append_column("document", pa.array(documents, pa.string()))
        .append_column("duplicates", own["duplicates"])
        .append_column("reason", pa.array(reasons, pa.string()))
    )


def _evidence(row: dict[str, Any], document: str, texts: PairTexts, openings: Mapping[str, str]) -> Evidence:
    best = openings.get(row["better"][0], "") if row["better"] else None
    shared = shared_words(row["query"], document, texts.common)
    known = row["p_clean"] if row["rests_on"] == "judgements" else None  # under an assumption it is no evidence
    of_pair, vague = {name: row[name] for name in _OF_PAIR}, names_nothing(row["query"], texts.common)
    return Evidence(better=best, shared=len(shared), p_clean=known, vague=vague, **of_pair)


def _kept(lists: pa.ListArray, owner: np.ndarray, keep: np.ndarray) -> pa.ListArray:
    """The lists with only the values that `keep` marks; owner: each value's list."""
    sizes = np.bincount(owner[keep], minlength=len(lists))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), lists.flatten().filter(pa.array(keep)))
