"""Queries and documents of a stage, with the texts that BM25 and models read, and tables of hits."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.errors import DataError
from noisyir.base.settings import Split, with_promotion
from noisyir.engine.stage import SplitCounts
from noisyir.models.text_tokenizer import passage_text

Vectors = npt.NDArray[np.float32]


def of_splits(queries: pa.Table, splits: Sequence[Split], setting: str) -> pa.Table:
    """Return the queries of these splits, in order, with promotion's if the splits are held out.

    Raises:
        DataError: If there are none; names the `setting` to change.
    """
    chosen = queries.filter(pc.is_in(queries["split"], value_set=pa.array(with_promotion(splits), pa.string())))
    if chosen.num_rows == 0:
        check_splits(queries["split"].unique().to_pylist(), splits, setting)
    return chosen


def check_splits(there: Collection[str], splits: Sequence[str], setting: str) -> None:
    """Refuse, with a DataError that names the `setting`, data without queries in these splits."""
    if not {*there} & {*splits}:
        found = ", ".join(sorted(there)) or "no split"
        raise DataError("retrieval.no_queries_in_splits", setting=setting, splits=list(splits), found=found)


def splits_fit(setting: str, params: Any, data: SplitCounts) -> None:
    """Check that there are queries in the splits that `setting` is set to."""
    check_splits(data.queries.keys(), params.splits, setting)


def contents(documents: pa.RecordBatch) -> list[str]:
    """Return each document's indexed text: title, newline, text."""
    titles, texts = documents["title"].to_pylist(), documents["text"].to_pylist()
    return [f"{title}\n{text}" for title, text in zip(titles, texts, strict=True)]


def texts_of(documents: Iterable[pa.RecordBatch], doc_ids: pa.Array | pa.ChunkedArray) -> dict[str, str]:
    """Return the texts, without titles, of these documents.

    Raises:
        DataError: If the corpus lacks one.
    """
    wanted, texts = doc_ids.unique(), dict[str, str]()
    for some in among(documents, wanted):
        texts.update(zip(some["doc_id"].to_pylist(), some["text"].to_pylist(), strict=True))
    if unknown := [doc_id for doc_id in wanted.to_pylist() if doc_id not in texts]:
        raise DataError("retrieval.missing_documents", missing=len(unknown), wanted=len(wanted), example=unknown[0])
    return texts


def passages_of(documents: Iterable[pa.RecordBatch], doc_ids: pa.Array | pa.ChunkedArray) -> dict[str, str]:
    """Return title and text, as models read them, of the documents that the corpus has among these."""
    passages: dict[str, str] = {}
    for some in among(documents, doc_ids.unique()):
        texts = map(passage_text, some["title"].to_pylist(), some["text"].to_pylist())
        passages.update(zip(some["doc_id"].to_pylist(), texts, strict=True))
    return passages


def among(documents: Iterable[pa.RecordBatch], doc_ids: pa.Array | pa.ChunkedArray) -> Iterator[pa.RecordBatch]:
    """Select the documents of these ids in each batch."""
    return (batch.filter(pc.is_in(batch["doc_id"], value_set=doc_ids)) for batch in documents)


@dataclass(frozen=True)
class Hits:
    """The ranked documents of n queries, flat: query i has `counts[i]` of them, best first."""

    counts: npt.NDArray[np.integer]
    doc_ids: pa.Array
    scores: npt.NDArray[np.float32]


def run_table(query_ids: pa.Array, hits: Hits) -> pa.Table:
    """Return rows of a run (query_id, doc_id, rank from 1, score); a query without hits has none."""
    starts = np.cumsum(hits.counts) - hits.counts
    ranks = np.arange(len(hits.scores)) - np.repeat(starts, hits.counts) + 1
    return pa.table(
        {
            "query_id": query_ids.take(pa.array(np.repeat(np.arange(len(query_ids)), hits.counts))),
            "doc_id": hits.doc_ids,
            "rank": pa.array(ranks, pa.int32()),
            "score": pa.array(hits.scores, pa.float32()),
        }
    )


def places(run: pa.Table) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return each row's query number and its place from 0, of rows ordered by both."""
    _, starts, query = np.unique(
        np.asarray(run["query_id"].combine_chunks().dictionary_encode().indices), return_index=True, return_inverse=True
    )
    return query.astype(np.int64), np.arange(run.num_rows) - starts[query]


def shortened(vectors: Vectors, dimensions: int | None, *, cosine: bool) -> Vectors:
    """Cut vectors (text, dim) to their first numbers, normalised again under cosine; None cuts nothing.

    Raises:
        DataError: If there are fewer numbers.
    """
    if dimensions is None or dimensions == vectors.shape[1]:
        return vectors
    if dimensions > vectors.shape[1]:
        raise DataError("retrieval.too_short_to_cut", dim=vectors.shape[1], dimensions=dimensions)
    cut = vectors[:, :dimensions]
    if not cosine:
        return np.ascontiguousarray(cut)
    norms = np.linalg.norm(cut, axis=1, keepdims=True)
    return (cut / np.where(norms > 0, norms, 1)).astype(np.float32, copy=False)


def vectors_of(batch: pa.RecordBatch) -> Vectors:
    """Return the `vector` column as float32 (row, dim)."""
    column = batch["vector"]
    vectors: Vectors = column.flatten().to_numpy().astype(np.float32, copy=False).reshape(-1, column.type.list_size)
    return vectors


def vectors_at(batches: Iterable[pa.RecordBatch], ids: pa.Array) -> tuple[Vectors, int]:
    """Pick the vectors of these ids, (id, dim), from a stream of all, and count the ids without one."""
    picked, found = np.empty((len(ids), 0), np.float32), 0
    for batch in batches:
        places = pc.index_in(batch.column(0), value_set=ids)
        vectors = vectors_of(batch.filter(pc.is_valid(places)))
        if not picked.shape[1]:
            picked = np.empty((len(ids), vectors.shape[1]), np.float32)
        picked[places.drop_null().to_numpy()] = vectors
        found += len(vectors)
    return picked, len(ids) - found


def check_rows(batch: pa.RecordBatch, first: int) -> None:
    """Refuse, with a DataError, a batch in which doc_row does not count up from `first`."""
    rows = batch["doc_row"].to_numpy()
    if not np.array_equal(rows, np.arange(first, first + len(rows))):
        raise DataError("retrieval.rows_not_consecutive", first=first)
