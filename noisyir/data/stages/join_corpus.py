"""join_corpus: a corpus with documents added, replaced and removed."""

from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.errors import ConfigError, DataError
from noisyir.data.artifacts import CORPUS, ROW_ORIGINS
from noisyir.data.columns import corpus_documents, open_corpus
from noisyir.data.ingesting import PART_DOCUMENTS, IngestedRecords
from noisyir.data.row_files import RowFile
from noisyir.data.settings import JoinCorpusParams, RecordParams
from noisyir.data.text_files import one_of, utf8_lines
from noisyir.engine.meta import sha256_file
from noisyir.engine.stage import Job, Stage
from noisyir.engine.tables import regrouped

_NONE = pa.scalar(None, pa.int32())
_IN_FOLDER = tuple(f"corpus{suffix}" for suffix in (".jsonl", ".csv", ".tsv", ".parquet"))
_TEXTS = ["doc_id", "title", "text"]
_REVISED = pa.schema([*(CORPUS.schema.field(name) for name in _TEXTS), ROW_ORIGINS.schema.field("earlier_row")])


def join_corpus(job: Job[JoinCorpusParams]) -> None:
    """Stream the earlier corpus past the new documents, which are in memory; rows are renumbered without gaps."""
    documents, removed_ids = _opened(job.params)
    fresh, gone = _checked(job, documents), utf8_lines(removed_ids) if removed_ids else ()
    removals = pa.array(dict.fromkeys(line for _, line in gone if line.strip()), pa.string())
    if both := fresh.filter(pc.is_in(fresh["doc_id"], value_set=removals))["doc_id"].to_pylist():
        raise DataError("data.new_and_removed", n_both=len(both), example=both[0])
    known = pa.concat_arrays([batch["doc_id"] for batch in job.batches("corpus")])
    behind = fresh.filter(pc.invert(pc.is_in(fresh["doc_id"], value_set=known)))
    last = pa.table([*behind.columns, pa.repeat(_NONE, behind.num_rows)], schema=_REVISED)
    removed = pc.sum(pc.is_in(removals, value_set=known)).as_py() or 0
    parts = chain(_revised(job, known, fresh, removals), [last])
    kept = 0
    with job.writer("corpus") as corpus, job.writer("row_origins") as origins:
        for part in regrouped(parts, PART_DOCUMENTS):
            rows = pa.array(np.arange(corpus.rows, corpus.rows + part.num_rows), pa.int32())
            part = part.append_column("doc_row", rows)
            origins.append(part)
            corpus.append(part)
            kept += part.num_rows - part["earlier_row"].null_count
            job.progress(corpus.rows, len(known) - removed + behind.num_rows, "documents")
    if not corpus.rows:
        raise DataError("data.no_document_left")
    replaced, unknown = len(known) - removed - kept, len(removals) - removed
    counts = {"added": behind.num_rows, "replaced": replaced, "removed": removed, "kept": kept}
    job.note("documents", {**counts, "unknown_removals": unknown})


def _opened(params: JoinCorpusParams) -> tuple[RowFile | None, Path | None]:
    """The file of documents and the list of removed ids, not read yet; one at least, or a ConfigError."""
    if params.path is None and params.remove is None:
        raise ConfigError("data.empty_refresh")
    documents = None if params.path is None else open_corpus(_file(params.path), "data.path")
    removals = None if params.remove is None else Path(params.remove)
    if removals and not removals.is_file():
        raise DataError("data.not_a_removals_file", removals=removals)
    return documents, removals


def _file(path: str) -> str:
    """The file of documents at a path, or the one in the folder there."""
    root = Path(path)
    if not root.is_dir():
        return path
    if found := one_of(root, _IN_FOLDER):
        return str(found)
    raise DataError("data.no_documents_file", root=root, names=", ".join(_IN_FOLDER))


def _checked(job: Job[JoinCorpusParams], documents: RowFile | None) -> pa.Table:
    """The new documents (doc_id, title, text), by the rules of ingest."""
    if documents is None:
        return CORPUS.schema.empty_table().select(_TEXTS)
    checked = IngestedRecords(str(documents.path), RecordParams(on_empty=job.params.on_empty))
    table = pa.concat_tables(checked.documents(corpus_documents(documents)))
    job.note("excluded", checked.excluded_counts())
    return table.select(_TEXTS)


def _revised(job: Job[JoinCorpusParams], known: pa.Array, fresh: pa.Table, removals: pa.Array) -> Iterator[pa.Table]:
    """The earlier documents that stay, in their order; `earlier_row` is null if the text is new."""
    place, gone = pc.index_in(known, value_set=fresh["doc_id"].combine_chunks()), pc.is_in(known, value_set=removals)
    first = 0
    for batch in job.batches("corpus"):
        old, new = pa.Table.from_batches([batch]), fresh.take(place.slice(first, batch.num_rows))
        stays = pc.invert(gone.slice(first, batch.num_rows))
        first += batch.num_rows
        differs = pc.or_(pc.not_equal(old["title"], new["title"]), pc.not_equal(old["text"], new["text"]))
        differs = pc.fill_null(differs, False)  # null: there is no new document of this id
        title, text = (pc.if_else(differs, new[name], old[name]) for name in ("title", "text"))
        earlier = pc.if_else(differs, _NONE, old["doc_row"])
        yield pa.table([old["doc_id"], title, text, earlier], schema=_REVISED).filter(stays)


def _digest(place: int, params: JoinCorpusParams) -> str | None:
    documents, removals = _opened(params)
    path = (documents.path if documents else None, removals)[place]
    return sha256_file(path.open("rb")) if path else None


JOIN_CORPUS = Stage(
    name="join_corpus",
    version=1,
    params=JoinCorpusParams,
    reads={"corpus": CORPUS.all()},
    writes={"corpus": CORPUS, "row_origins": ROW_ORIGINS},
    run=join_corpus,
    raw={"documents": partial(_digest, 0), "removals": partial(_digest, 1)},
)
