"""Audits of small sets of pairs, as the audit stage would write them."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from noisyir.audits.columns import AUDIT
from noisyir.audits.texts import full_text
from noisyir.data.formats.pairs import PairsFile
from noisyir.data.records import Document, Query, one_by_one

CLEAN = {
    "source": None, "query": "", "document": "", "verdict": "clean", "p_clean": 0.9, "score": 1.0, "rank": 1,
    "suspicion": 0.2, "rests_on": "judgements", "relabel": False,
    "similarity": 0.8, "better": [], "better_similarities": [], "replacement": None, "duplicates": 0,
    "reason": "The document is found first for its query.", "judged": None, "accepted": False,
}  # fmt: skip


def wrong(replacement: str | None = None, *, p_clean: float = 0.1, score: float = 5.0, **more: Any) -> dict[str, Any]:
    """What an audit says of a flagged pair, one whose replacement judgements vouch for."""
    found = {"verdict": "wrong", "p_clean": p_clean, "score": score, "rank": 40, "reason": "Another document fits."}
    found |= {"suspicion": 0.9, "relabel": replacement is not None}
    return {**found, "replacement": replacement, "better": [replacement] if replacement else [], **more}


def audit_of(pairs: Mapping[tuple[str, str], Mapping[str, Any]]) -> pa.Table:
    """An audit of pairs that are clean but for what is said of each."""
    rows = [{"query_id": query, "doc_id": doc, **CLEAN, **said} for (query, doc), said in pairs.items()]
    machine = ("verdict", "p_clean", "replacement")
    return pa.Table.from_pylist(
        [{f"machine_{name}": row[name] for name in machine} | row for row in rows], schema=AUDIT.schema
    )


def audit_of_file(file: PairsFile, flagged: Mapping[str, Mapping[str, Any]]) -> pa.Table:
    """An audit of a file's training pairs; flagged: what is said of pairs by their query's text."""
    records = [*one_by_one(file.records())]
    documents = {one.doc_id: full_text(one.title, one.text) for one in records if isinstance(one, Document)}
    texts = {one.query_id: one.text for one in records if isinstance(one, Query)}
    said = {
        (pair.query_id, pair.doc_id): {
            "query": texts[pair.query_id], "document": documents[pair.doc_id], "source": pair.source,
            **flagged.get(texts[pair.query_id], {}),
        }
        for pair in file.judgements() if pair.split == "train"
    }  # fmt: skip
    return audit_of(said)


def id_of(file: PairsFile, text: str) -> str:
    """The id of the document with this text."""
    return next(one.doc_id for one in one_by_one(file.records()) if isinstance(one, Document) and one.text == text)
