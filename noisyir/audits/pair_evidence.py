"""Evidence on pairs: the documents more similar to a query than its own, and the reason for each verdict."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.audits.reasons import Evidence, reason
from noisyir.audits.texts import PairTexts, full_text, names_nothing, shared_words
from noisyir.engine.tables import aligned, with_values

_OF_PAIR = ("verdict", "suspicion", "by_hand", "rank", "similarity")
_EVIDENCE = [*_OF_PAIR, "p_clean", "rests_on", "query", "better"]


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
    reasons = pa.array([reason(_evidence(row, document, texts, openings)) for row, document in rows], pa.string())
    document = pa.array(documents, pa.string())
    return with_values(pairs, document=document, duplicates=own["duplicates"], reason=reasons)


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
