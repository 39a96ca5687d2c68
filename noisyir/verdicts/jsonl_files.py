"""Rows as jsonl, and among them pairs in the format that noisyir reads as `data.kind=pairs`."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from noisyir.verdicts.texts import Texts

_OWN = ("query_id", "doc_id", "query")


def write_pairs(pairs: pa.Table, texts: Texts, path: Path) -> None:
    """Write rows (query_id, doc_id, query, and what else there is) as jsonl, each with its document.

    Texts are whole and as they stand, so that the file is read back as the pairs that it means.
    """
    documents = texts.documents
    own = documents.take(pc.index_in(pairs["doc_id"], value_set=documents["doc_id"].combine_chunks()))
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
