"""The dataset card: training and test data of a run, counted from the tables."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

SNIPPET = 360  # characters of a text that the page shows


@dataclass(frozen=True)
class Lengths:
    """Number of texts, and the median, 95th percentile and maximum of their words."""

    count: int
    median: float
    p95: float
    longest: int


@dataclass(frozen=True)
class Corpus:
    """Lengths of all documents, and the texts of some."""

    lengths: Lengths
    texts: dict[str, str]

    def show(self, doc_id: str) -> str:
        """The beginning of a document's title and text."""
        return self.texts.get(doc_id, "")


def read_corpus(batches: Iterable[pa.RecordBatch], wanted: Iterable[str]) -> Corpus:
    """Stream the documents (doc_id, title, text); memory grows by one number a document."""
    keep = pa.array(sorted(set(wanted)), pa.string())
    words, texts = [], {}
    for batch in batches:
        words.append(word_counts(batch["text"]))
        shown = batch.filter(pc.is_in(batch["doc_id"], keep))
        for doc_id, title, text in zip(*(shown[name].to_pylist() for name in ("doc_id", "title", "text")), strict=True):
            texts[doc_id] = snippet(f"{title}\n{text}" if title else text)
    return Corpus(lengths(np.concatenate(words) if words else np.zeros(0, np.int64)), texts)


def word_counts(texts: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Number of words between white space in each text."""
    return np.asarray(pc.count_substring_regex(texts, r"\S+").to_numpy(zero_copy_only=False), np.int64)


def lengths(words: np.ndarray) -> Lengths:
    """Summary of word counts, zeros for none."""
    if not len(words):
        return Lengths(0, 0.0, 0.0, 0)
    median, p95 = np.quantile(words, [0.5, 0.95])
    return Lengths(len(words), float(median), float(p95), int(words.max()))


def snippet(text: str) -> str:
    """The beginning of a text, with an ellipsis if it was cut."""
    text = text[: SNIPPET + 1].strip("\n")
    return text if len(text) <= SNIPPET else text[:SNIPPET].rstrip() + " …"


def split_rows(queries: pa.Table, pairs: pa.Table, qrels: pa.Table) -> list[dict[str, Any]]:
    """Queries, pairs, judgements and queries with a relevant document, by split."""
    in_split = dict(zip(queries["query_id"].to_pylist(), queries["split"].to_pylist(), strict=True))
    judged_in = [in_split.get(query_id) for query_id in qrels["query_id"].to_pylist()]
    relevant = qrels.filter(pc.greater_equal(qrels["relevance"], 1))["query_id"].unique().to_pylist()
    return [
        {
            "split": split,
            "queries": pc.sum(pc.equal(queries["split"], split)).as_py(),
            "pairs": pc.sum(pc.equal(pairs["split"], split)).as_py() or 0,
            "judgements": judged_in.count(split),
            "judged": sum(in_split.get(query_id) == split for query_id in relevant),
        }
        for split in sorted(set(in_split.values()), key=lambda split: (split != "train", split))
    ]


def exclusion_rows(excluded: pa.Table) -> list[dict[str, Any]]:
    """Counts of excluded records by kind and reason, most frequent first, with an example's id."""
    grouped = excluded.group_by(["kind", "reason"], use_threads=False).aggregate([("id", "count"), ("id", "min")])
    rows = [
        {"kind": row["kind"], "reason": row["reason"], "count": row["id_count"], "example": row["id_min"]}
        for row in grouped.to_pylist()
    ]
    return sorted(rows, key=lambda row: (-row["count"], row["kind"], row["reason"]))


def example_pairs(pairs: pa.Table, count: int) -> list[tuple[str, str]]:
    """Ids (query, document) of `count` training pairs at equal distances."""
    training = pairs.filter(pc.equal(pairs["split"], "train"))
    places = np.unique(np.linspace(0, training.num_rows - 1, min(count, training.num_rows)).astype(np.int64))
    chosen = training.take(pa.array(places, pa.int64()))
    return list(zip(chosen["query_id"].to_pylist(), chosen["doc_id"].to_pylist(), strict=True))
