"""Export of each question with the passage that a reader's confidences favour, as jsonl."""

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
    """Return, per question, the passage with the highest total confidence over its spans.

    Ties go to the higher confidence at the start, then to the smaller id.

    Returns:
        query_id, doc_id, `belief` at the last update and `belief_at_start`, both as shares of the question's
        total (0 to 1), ordered by query_id.
    """
    last = pc.max(confidences["update"])
    now, start = (
        confidences.filter(pc.equal(confidences["update"], update))
        .group_by(["query_id", "doc_id"], use_threads=False)
        .aggregate([("value", "sum")])
        .rename_columns(["query_id", "doc_id", name])
        for name, update in (("belief", last), ("belief_at_start", 0))
    )
    passages = now.join(start, ["query_id", "doc_id"]).sort_by(
        [("query_id", "ascending"), ("belief", "descending"), ("belief_at_start", "descending"),
         ("doc_id", "ascending")]
    )  # fmt: skip
    first = passages.group_by("query_id", use_threads=False).aggregate(
        [(name, "first") for name in ("doc_id", "belief", "belief_at_start")]
    )
    return first.rename_columns(passages.column_names)


def export(store: Store, name: str, target: Path, licence: str | None) -> str:
    """Write one line per question."""
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
    """Find the trained reader named `name`: kept by an experiment's run, or a build as `find_build` resolves it.

    Raises:
        StoreError: If it has no confidences.
    """
    kept = kept_by_run(store, name, "reader")
    meta = find_build(store, name) if kept is None else kept
    if "confidences" not in meta.artifacts or not meta.artifacts["confidences"].rows:
        raise StoreError("readers.build_without_confidences_only", name=name, stage=meta.stage)
    return meta
