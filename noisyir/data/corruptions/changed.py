"""A collection after noise: documents have left it, and versions of others have come."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.schemas.data import CORPUS


@dataclass(frozen=True)
class Versions:
    """New documents, each made of another: ids of both, no two alike, and the new text."""

    originals: Sequence[str]
    doc_ids: Sequence[str]
    texts: Sequence[str]


def named(originals: Sequence[str], texts: Sequence[str], kind: str, in_use: Collection[str]) -> Versions:
    """Versions with ids that follow from the originals': `d7~half_answer1`, the number being the next that is free.

    Equal texts are one version, which has its id from the first of their originals.
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
    """The documents of CORPUS without those of these texts, and the new ones behind them; rows numbered anew.

    The title is the text of one without text.  A new document has its original's title, unless the original has nothing
    but that.
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


_TEXTS = ("doc_id", "title", "text")


def _numbered(documents: pa.Table, first: int) -> pa.Table:
    rows = pa.array(first + np.arange(len(documents)), pa.int32())
    return pa.table({**{name: documents[name] for name in _TEXTS}, "doc_row": rows}).select(list(CORPUS.columns))
