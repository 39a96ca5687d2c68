"""The surest of the candidates that judges do not keep, as pairs that training may take."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from noisyir.report.audit_words import Texts


def write_extra_positives(sure: pa.Table, texts: Texts, path: Path) -> None:
    """Write rows of AUDIT_NEGATIVES as a file of pairs (jsonl).

    Texts are whole and as they stand, so that the file is read back as the pairs that it means.
    """
    documents = texts.documents
    own = documents.take(pc.index_in(sure["doc_id"], value_set=documents["doc_id"].combine_chunks()))
    columns = {
        **{name: sure[name].to_pylist() for name in ("query_id", "doc_id", "query")},
        "title": own["title"].to_pylist(),
        "document": own["text"].to_pylist(),
    }
    with path.open("w", encoding="utf-8") as out:
        for row in zip(*columns.values(), strict=True):
            out.write(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) + "\n")
