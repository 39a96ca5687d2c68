"""Changed versions of documents: their ids, and the collection that they enter."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.data.artifacts import CORPUS

_TEXTS = ("doc_id", "title", "text")


@dataclass(frozen=True)
class Versions:
    """New documents, each a version of another: original ids, distinct own ids and texts."""

    originals: Sequence[str]
    doc_ids: Sequence[str]
    texts: Sequence[str]


def named(originals: Sequence[str], texts: Sequence[str], kind: str, in_use: Collection[str]) -> Versions:
    """Name versions after their originals: `d7~half_answer1`, with the next free number.

    Equal texts are one version, named after the first of their originals.
    """
    first: dict[str, str] = {}
    for original, text in zip(originals, texts, strict=True):
        first.setdefault(text, original)
    used, number, doc_ids = set(in_use), dict.fromkeys(first.values(), 0), []
    for original in first.values():
        while (doc_id := f"{original}~{kind}{number[original] + 1}") in used:
            number[original] += 1
        used.add(doc_id)
        doc_ids.append(doc_id)
    return Versions(list(first.values()), doc_ids, list(first))


def changed(documents: Iterable[pa.RecordBatch], leaving: Collection[str], added: Versions) -> Iterator[pa.Table]:
    """Yield CORPUS without documents of the `leaving` texts, then the new ones, with rows numbered again.

    A document without text has its title as text.  A new one has its original's title unless that was its text.
    """
    gone, wanted = pa.array(sorted(leaving), pa.string()), pa.array(sorted(set(added.originals)), pa.string())
    titles: dict[str, str] = {}
    rows = 0
    for batch in documents:
        originals = batch.filter(pc.is_in(batch["doc_id"], value_set=wanted))
        for doc_id, title, text in zip(*(originals[name].to_pylist() for name in _TEXTS), strict=True):
            titles[doc_id] = title if text else ""
        words = pc.if_else(pc.equal(batch["text"], ""), batch["title"], batch["text"])
        kept = pa.Table.from_batches([batch.filter(pc.invert(pc.is_in(words, value_set=gone)))])
        yield _numbered(kept, rows)
        rows += len(kept)
    if added.doc_ids:
        columns = {
            "doc_id": pa.array(added.doc_ids, pa.string()),
            "title": pa.array([titles[original] for original in added.originals], pa.string()),
            "text": pa.array(added.texts, pa.string()),
        }
        yield _numbered(pa.table(columns), rows)


def _numbered(documents: pa.Table, first: int) -> pa.Table:
    rows = pa.array(first + np.arange(len(documents)), pa.int32())
    return pa.table({**{name: documents[name] for name in _TEXTS}, "doc_row": rows}).select(list(CORPUS.columns))
