"""The pairs that a reader believes in: each question with the passage that its confidences favour, as jsonl."""

import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from noisyir.app.lookup import find_build, kept_by_run
from noisyir.audits.files import write_pairs
from noisyir.audits.texts import read_texts
from noisyir.base.errors import StoreError
from noisyir.engine.meta import Meta
from noisyir.engine.store import Store

SUFFIX = "-pairs.jsonl"


def most_believed(confidences: pa.Table) -> pa.Table:
    """The passage whose places have most confidence together, of each question, by query_id.

    confidences: CONFIDENCES (query_id, doc_id, update, value).  Gives query_id, doc_id, `confidence` at the last update
    and `confidence_at_start`, shares of the question's between 0 and 1.  Among equals the first at the start wins, then
    the smaller id.
    """
    last = pc.max(confidences["update"])
    now, start = (
        confidences.filter(pc.equal(confidences["update"], update))
        .group_by(["query_id", "doc_id"], use_threads=False)
        .aggregate([("value", "sum")])
        .rename_columns(["query_id", "doc_id", name])
        for name, update in (("confidence", last), ("confidence_at_start", 0))
    )
    passages = now.join(start, ["query_id", "doc_id"]).sort_by(
        [("query_id", "ascending"), ("confidence", "descending"), ("confidence_at_start", "descending"),
         ("doc_id", "ascending")]
    )  # fmt: skip
    first = passages.group_by("query_id", use_threads=False).aggregate(
        [(name, "first") for name in ("doc_id", "confidence", "confidence_at_start")]
    )
    return first.rename_columns(passages.column_names)


def export(store: Store, name: str, target: Path, licence: str | None) -> str:
    """One line a question."""
    meta = find_confidences(store, name)
    given = dict(meta.input_refs())
    believed = ("query_id", "doc_id", "update", "value")
    pairs = most_believed(store.builds.table(meta.ref("confidences"), believed))
    queries = store.builds.table(given["queries"], ("query_id", "text"))
    pairs = pairs.join(queries.rename_columns(["query_id", "query"]), "query_id")
    corpus = store.builds.batches(given["corpus"], ("doc_id", "title", "text"))
    texts = read_texts(corpus, pairs["doc_id"].unique(), ())
    write_pairs(pairs.sort_by("query_id"), texts.documents, target)
    return f"{target}: {pairs.num_rows:,} pairs\nnoisyir audit {shlex.quote(str(target))}"


def find_confidences(store: Store, name: str) -> Meta:
    """The trained reader that `name` means: the one that an experiment's run kept, or a build as `find_build` knows it.

    StoreError where it has no confidences.
    """
    kept = kept_by_run(store, name, "reader")
    meta = find_build(store, name) if kept is None else kept
    if "confidences" not in meta.artifacts or not meta.artifacts["confidences"].rows:
        raise StoreError("readers.build_without_confidences_only", name=name, stage=meta.stage)
    return meta
