"""Fusion of BM25's and vectors' rankings by a convex sum of scores, or by reciprocal ranks.

A query's candidates are the documents that at least one ranking found.  A document that the other did not find counts 0
there, as its last one does in a convex sum; a query without hits in one ranking keeps the order of the other.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float, Int

Array = np.ndarray
Rows = Int[Array, " row"]
Scores = Float[Array, " row"]

WEIGHTS = np.linspace(0.0, 1.0, 21)
UNKNOWN_WEIGHT = 0.5  # of the vectors, if no query suggests a better one
CUTOFF = 10
FOLDS = 5  # of dev queries, each ranked by the weight that the others prefer


class CandidateRows(NamedTuple):
    """Candidates by query id and document id, with query numbers, and scores and ranks that are NaN if not found."""

    query_ids: pa.Array
    doc_ids: pa.Array
    query: Rows
    lexical: Scores
    dense: Scores
    lexical_rank: Scores
    dense_rank: Scores


def candidates_of(lexical: pa.Table, dense: pa.Table) -> CandidateRows:
    """Join the documents that either run (query_id, doc_id, rank, score) found."""
    both = pa.concat_tables([run.select(["query_id", "doc_id"]) for run in (lexical, dense)])
    (query_ids, query), (doc_ids, document) = (_coded(column) for column in both.columns)
    pairs, row = np.unique(query * len(doc_ids) + document, return_inverse=True)
    query, document = np.divmod(pairs, max(1, len(doc_ids)))
    scores, ranks = np.full((2, 2, len(pairs)), np.nan)
    for side, (run, rows) in enumerate(zip((lexical, dense), np.split(row, [lexical.num_rows]), strict=True)):
        scores[side, rows], ranks[side, rows] = run["score"].to_numpy(), run["rank"].to_numpy()
    return CandidateRows(query_ids.take(pa.array(query)), doc_ids.take(pa.array(document)), query, *scores, *ranks)


def _coded(column: pa.ChunkedArray) -> tuple[pa.Array, Rows]:
    """Return the distinct values in their order, and each row's place among them: strings are slow to sort and join."""
    coded = column.combine_chunks().dictionary_encode()
    order = coded.dictionary.sort()
    return order, np.asarray(pc.index_in(coded.dictionary, order), np.int64)[coded.indices]


def min_max(scores: Scores, query: Rows) -> Scores:
    """(s - m_q) / (M_q - m_q), with the query's least and greatest score; NaN (not found) becomes 0.

    If all scores that were found are equal, each is 1.
    """
    least, greatest = (np.full(int(query.max(initial=-1)) + 1, end) for end in (np.inf, -np.inf))
    np.fmin.at(least, query, scores)
    np.fmax.at(greatest, query, scores)
    with np.errstate(invalid="ignore", divide="ignore"):
        scaled = (scores - least[query]) / (greatest - least)[query]
    scaled = np.where(greatest[query] > least[query], scaled, 1.0)
    return np.where(np.isnan(scores), 0.0, scaled)


def convex_sum(lexical: Scores, dense: Scores, weight: float | Scores) -> Scores:
    """Weight * dense + (1 - weight) * lexical of scaled scores; one weight, or one a row.

    Source: Bruch, Gai and Ingber, TOIS 2023, equation 3.
    """
    return weight * dense + (1 - weight) * lexical


def fused_scores(found: CandidateRows, by: str, weight: float | Scores, k: int) -> Scores:
    """Score candidates as a row of FUSION says; `ranks`: the sum of 1 / (k + rank) over the runs that found a document.

    Source of `ranks`: Cormack, Clarke and Büttcher, SIGIR 2009.
    """
    if by == "ranks":
        return np.asarray(np.nansum([1 / (k + rank) for rank in (found.lexical_rank, found.dense_rank)], axis=0))
    return convex_sum(min_max(found.lexical, found.query), min_max(found.dense, found.query), weight)


def fused_order(found: CandidateRows, scores: Scores, rows: Rows) -> Rows:
    """Order these rows by query, then score, then the better of both ranks, then document id."""
    better = np.fmin(found.lexical_rank[rows], found.dense_rank[rows])
    return rows[np.lexsort((better, -scores[rows], found.query[rows]))]


def fused_run(found: CandidateRows, scores: Scores, top_k: int) -> pa.Table:
    """Return a run (query_id, doc_id, rank from 1, score) of the best `top_k` candidates of each query."""
    order = fused_order(found, scores, np.arange(len(scores)))
    query = found.query[order]
    ranks = np.arange(len(order)) - np.searchsorted(query, query) + 1
    order, ranks = order[ranks <= top_k], ranks[ranks <= top_k]
    rows = pa.array(order)
    return pa.table(
        {
            "query_id": found.query_ids.take(rows),
            "doc_id": found.doc_ids.take(rows),
            "rank": pa.array(ranks, pa.int32()),
            "score": pa.array(scores[order], pa.float32()),
        }
    )


def ndcg(relevance: Float[Array, "query rank"], ideal: Float[Array, "query rank"]) -> Float[Array, " query"]:
    """sum_r rel_r / log2(1 + r) up to rank 10, over the same sum in ideal order: Järvelin and Kekäläinen, TOIS 2002."""
    gained, most = (gains[:, :CUTOFF] @ (1 / np.log2(np.arange(2, gains[:, :CUTOFF].shape[1] + 2)))
                    for gains in (relevance, ideal))  # fmt: skip
    return gained / most


def values_by_weight(
    found: CandidateRows, relevance: Scores, ideal: Float[Array, "query rank"]
) -> Float[Array, "weight query"]:
    """Return nDCG@10 of each query at each of WEIGHTS, from the rows' relevance and the queries' ideal gains."""
    lexical, dense = (min_max(scores, found.query) for scores in (found.lexical, found.dense))
    values, column = [], np.arange(len(lexical)) - np.searchsorted(found.query, found.query)
    each = np.full((len(ideal), max(CUTOFF, column.max(initial=0) + 1)), -np.inf)
    for weight in WEIGHTS:
        scores = convex_sum(lexical, dense, float(weight))
        each[found.query, column] = scores
        least = np.partition(each, -CUTOFF, axis=1)[:, -CUTOFF]  # only what may be among the first is sorted
        order = fused_order(found, scores, np.flatnonzero(scores >= least[found.query]))
        query = found.query[order]
        place = np.arange(len(order)) - np.searchsorted(query, query)
        top = place < CUTOFF
        best = np.zeros((len(ideal), CUTOFF))
        best[query[top], place[top]] = relevance[order[top]]
        values.append(ndcg(best, ideal))
    return np.stack(values)


class Weight(NamedTuple):
    """A weight of the vectors with its interval, if dev queries chose it."""

    value: float
    low: float | None = None
    high: float | None = None


def chosen_weight(
    values: Float[Array, "weight query"],
    groups: Int[Array, " query"],
    rng: np.random.Generator,
    *,
    confidence: float = 0.95,
    draws: int = 1000,
) -> Weight:
    """Return the weight with the greatest mean, nearest one half if equal, and its percentile bootstrap interval.

    Queries with equal numbers in `groups`, such as one document's, are drawn together.
    """
    preferred = _nearest_one_half()
    sums = np.stack([np.bincount(groups, of_weight) for of_weight in values[preferred]])
    drawn = rng.multinomial(sums.shape[1], np.full(sums.shape[1], 1 / sums.shape[1]), size=draws)
    best = WEIGHTS[preferred[np.argmax(np.round(drawn @ sums.T, 9), axis=1)]]
    tail = (1 - confidence) / 2
    low, high = np.quantile(best, [tail, 1 - tail], method="inverted_cdf")
    chosen = WEIGHTS[preferred[np.argmax(np.round(sums.sum(axis=1), 9))]]
    return Weight(float(chosen), min(float(low), float(chosen)), max(float(high), float(chosen)))


def cross_fitted_weights(
    values: Float[Array, "weight query"], groups: Int[Array, " query"], rng: np.random.Generator
) -> Float[Array, " query"]:
    """Return for each query the weight with the greatest mean over the other folds; groups stay together.

    A single group gets one half.
    """
    count = int(groups.max(initial=-1)) + 1
    fold = (rng.permutation(count) % min(FOLDS, max(count, 1)))[groups]
    preferred, weights = _nearest_one_half(), np.full(len(groups), UNKNOWN_WEIGHT)
    for one in np.unique(fold):
        others = values[preferred][:, fold != one].sum(axis=1)
        weights[fold == one] = WEIGHTS[preferred[np.argmax(np.round(others, 9))]]
    return weights


def _nearest_one_half() -> Int[Array, " weight"]:
    """Return the places of WEIGHTS by distance from one half, so that the first of equal ones is nearest."""
    return np.argsort(np.abs(WEIGHTS - UNKNOWN_WEIGHT), kind="stable")
