"""How pairs lie among all vectors: the best other documents of a query, the best other queries of a document."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32, Int

Array = np.ndarray

NEAREST = 10  # as many neighbours a side as CSLS averages over
_SCALE = 20.0  # of cosines in the likelihood: what models trained with a temperature of .05 use
_CELLS_AT_ONCE = 2**23  # similarities in memory at once, 32 MiB


@dataclass(frozen=True)
class Neighbourhoods:
    """Cosines of pairs beside those of what else there is, exact over the references.

    own: of the pair.  documents: (pair, NEAREST) of the query with the best documents that it is not paired with, best
    first; queries: likewise of the document with queries.  Where there are fewer, the last one is repeated, and 0
    stands where there is none.  above: share of those documents that fit the query better than the pair's own does.
    nll: the pair's negative log-likelihood among them, in nats, at the scale 20.
    """

    own: Float[Array, " pair"]
    documents: Float[Array, "pair nearest"]
    queries: Float[Array, "pair nearest"]
    above: Float[Array, " pair"]
    nll: Float[Array, " pair"]


def neighbourhoods(
    query_vectors: Float32[Array, "query dim"],
    document_vectors: Float32[Array, "document dim"],
    query: Int[Array, " pair"],
    document: Int[Array, " pair"],
    *,
    references: int = 10_000,
) -> Neighbourhoods:
    """The pairs' neighbourhoods by exact search of each side's vectors among the other's.

    query, document: each pair's rows.  references: so many at most of either side are searched, evenly spaced rows;
    pairs are compared with each other, so it matters little that more would come nearer.  Memory: a few blocks of
    32 MiB, whatever the number of pairs.
    """
    own = np.einsum("pd,pd->p", query_vectors[query], document_vectors[document])
    docs, above, others = _one_side(query_vectors, document_vectors, query, document, own, references)
    asked, _, _ = _one_side(document_vectors, query_vectors, document, query, own, references)
    nll = np.logaddexp(_SCALE * own, others) - _SCALE * own
    return Neighbourhoods(own.astype(np.float64), docs, asked, above, nll)


def _one_side(
    vectors: Array, others: Array, row: Array, paired: Array, own: Array, references: int
) -> tuple[Float[Array, "pair nearest"], Float[Array, " pair"], Float[Array, " pair"]]:
    """(best cosines of each pair's `row` among `others`, share above its own, log of the sum of exp(20 cosine))."""
    used = np.unique(np.linspace(0, len(others) - 1, min(references, len(others))).astype(np.int64))
    place = np.full(len(others), -1)
    place[used] = np.arange(len(used))
    best = np.zeros((len(row), NEAREST))
    above, total = np.zeros(len(row)), np.full(len(row), -np.inf)
    for of_pair, block, known in _blocks(vectors, others[used], row, place[paired]):
        pairs, inverse = of_pair
        best[pairs] = _best(block, known)[inverse]
        fits = np.where(known, -np.inf, block)
        count = np.maximum((~known).sum(axis=1), 1)[inverse]
        for start in range(0, len(pairs), len(block)):  # a query of many pairs must not widen the block
            some, rows = pairs[start : start + len(block)], inverse[start : start + len(block)]
            above[some] = (fits[rows] > own[some, None]).sum(axis=1) / count[start : start + len(block)]
        total[pairs] = _log_sum_exp(_SCALE * fits)[inverse] + np.log(len(others) / len(used))
    return best, above, total


def _blocks(
    vectors: Array, references: Array, row: Array, place: Array
) -> Iterator[tuple[tuple[Array, Array], Float32[Array, "row reference"], Bool[Array, "row reference"]]]:
    """((pairs, their row of the block), cosines, which ones are of pairs) for some of the rows that have pairs."""
    order = np.argsort(row, kind="stable")
    distinct, first = np.unique(row[order], return_index=True)
    ends = np.append(first, len(row))
    step = max(1, _CELLS_AT_ONCE // max(1, len(references)))
    for start in range(0, len(distinct), step):
        stop = min(start + step, len(distinct))
        pairs = order[ends[start] : ends[stop]]
        inverse = np.searchsorted(distinct[start:stop], row[pairs])
        block = vectors[distinct[start:stop]] @ references.T
        known = np.zeros(block.shape, bool)
        is_there = place[pairs] >= 0
        known[inverse[is_there], place[pairs][is_there]] = True
        yield (pairs, inverse), block, known


def _best(block: Array, known: Array) -> Float[Array, "row nearest"]:
    """The best cosines of each row that are not of pairs, best first; the last repeated, 0 where there is none."""
    fits = np.where(known, -np.inf, block)
    count = min(NEAREST, fits.shape[1])
    best = -np.sort(np.partition(-fits, count - 1, axis=1)[:, :count], axis=1)
    best = np.pad(best.astype(np.float64), ((0, 0), (0, NEAREST - count)), constant_values=-np.inf)
    last = np.maximum(np.isfinite(best).sum(axis=1) - 1, 0)
    filled = np.where(np.isfinite(best), best, best[np.arange(len(best)), last][:, None])
    return np.where(np.isfinite(filled), filled, 0.0)


def _log_sum_exp(values: Array) -> Float[Array, " row"]:
    """Of each row, -inf for one without any finite value; in place."""
    top = values.max(axis=1, keepdims=True)
    top[~np.isfinite(top)] = 0.0
    values -= top
    np.exp(values, out=values)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values.sum(axis=1)) + top[:, 0], np.float64)
