"""The pairs that a reader believes in: each question with the passage that its confidences favour, as jsonl."""

from pathlib import Path

from noisyir.app.lookup import find_confidences
from noisyir.auditing.files import write_pairs
from noisyir.auditing.texts import read_texts
from noisyir.engine.store import Store
from noisyir.readers.positives import most_believed

SUFFIX = "-pairs.jsonl"


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
    return f"{target}: {pairs.num_rows:,} pairs\nnoisyir audit {target}"
