"""Pairs that noisyir found, written as a file that it reads: the format of `data.dataset=pairs`."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from noisyir.verdicts.words import Texts

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
    with path.open("w", encoding="utf-8") as out:
        for row in zip(*columns.values(), strict=True):
            out.write(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) + "\n")
