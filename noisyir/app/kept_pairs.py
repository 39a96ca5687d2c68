"""The pairs that may be kept so that few of them are wrong, as a file to train on."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from noisyir.app.label_audit import KEPT, Audited
from noisyir.auditing.files import write_pairs
from noisyir.engine.tables import stream_parts
from noisyir.errors import StoreError

_LOWEST_SCORE_FIRST = [("score", "ascending"), ("query_id", "ascending"), ("doc_id", "ascending")]
_CHUNK = 65536


def write_kept(audited: Audited, most: int, folder: Path) -> Path:
    """The `most` audited pairs of the lowest score, with whole texts; one of an earlier audit gives way.

    StoreError where the folder cannot be written to.
    """
    kept = audited.table.sort_by(_LOWEST_SCORE_FIRST).slice(0, most).select(["query_id", "doc_id", "query", "source"])
    parts = audited.store.parts(dict(audited.outcome.results["audit"].meta.input_refs())["corpus"])
    wanted = kept["doc_id"].combine_chunks().unique()
    corpus = stream_parts(audited.store.fs, parts, ("doc_id", "title", "text"), _CHUNK)
    found = [batch.filter(pc.is_in(batch["doc_id"], value_set=wanted)) for batch in corpus]
    path = folder / KEPT
    try:
        write_pairs(kept, pa.Table.from_batches(found), path)
    except OSError as error:
        raise StoreError(f"cannot write to the folder {folder}, choose another --out: {error}") from error
    return path
