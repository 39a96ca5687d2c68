"""Ranked lists as every searcher returns them, and as the run artifacts hold them."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa


@dataclass(frozen=True)
class Hits:
    """The ranked documents of n queries, flat: query i has `counts[i]` of them, best first.

    counts: int, n; doc_ids: string, sum(counts); scores: float32, beside doc_ids.
    """

    counts: npt.NDArray[np.integer]
    doc_ids: pa.Array
    scores: npt.NDArray[np.float32]


def run_table(query_ids: pa.Array, hits: Hits) -> pa.Table:
    """Rows of a run (query_id, doc_id, rank from 1, score); a query without hits has none."""
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
    """The number of each row's query, and its place in it from 0, of rows that are ordered by both."""
    _, starts, query = np.unique(
        np.asarray(run["query_id"].combine_chunks().dictionary_encode().indices), return_index=True, return_inverse=True
    )
    return query.astype(np.int64), np.arange(run.num_rows) - starts[query]
