"""Rows of the audit: which documents fit a query better than its own, and the reason for the verdict."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.auditing.reasons import Evidence, reason
from noisyir.auditing.texts import Texts, full_text, shared_words

_EVIDENCE = ["query", "verdict", "score", "p_clean", "by_hand", "rank", "similarity", "better", "better_similarities"]


def better_documents(competitors: pa.Table) -> tuple[pa.Array, pa.Array]:
    """(ids, similarities) of the competitors more similar to the query than the pair's own document, best first.

    competitors: one row a pair (similarity, competitors, competitor_similarities), null where the pair was not searched
    for, which gives empty lists.
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


def with_reasons(pairs: pa.Table, texts: Texts) -> pa.Table:
    """The pairs (as the audit stage joins them) with document, duplicates and reason."""
    place = pc.index_in(pairs["doc_id"], value_set=texts.documents["doc_id"].combine_chunks())
    own = texts.documents.take(place)
    documents = list(map(full_text, own["title"].to_pylist(), own["text"].to_pylist()))
    rows = zip(pairs.select(_EVIDENCE).to_pylist(), documents, strict=True)
    reasons = [reason(_evidence(row, document, texts)) for row, document in rows]
    return (
        pairs.append_column("document", pa.array(documents, pa.string()))
        .append_column("duplicates", own["duplicates"])
        .append_column("reason", pa.array(reasons, pa.string()))
    )


def _evidence(row: dict[str, Any], document: str, texts: Texts) -> Evidence:
    best = (row["better"][0], row["better_similarities"][0]) if row["better"] else None
    shared = shared_words(row["query"], document, texts.common)
    return Evidence(
        is_clean=row["verdict"] == "clean",
        better=best,
        shared=len(shared),
        **{name: row[name] for name in ("score", "p_clean", "by_hand", "rank", "similarity")},
    )


def _kept(lists: pa.ListArray, owner: np.ndarray, keep: np.ndarray) -> pa.ListArray:
    """The lists with only those of their values that `keep` marks; owner: each value's list."""
    sizes = np.bincount(owner[keep], minlength=len(lists))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), lists.flatten().filter(pa.array(keep)))
