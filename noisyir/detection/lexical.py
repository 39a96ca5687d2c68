"""Term matching of queries and documents: BM25, and the share of a query's weight found in a document."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Float32, Int

from noisyir.detection.null import best_places
from noisyir.retrieval.numpy_bm25 import NumpyBm25, compiled_search, greatest_weights

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Array = np.ndarray

_AT_ONCE = 2**23  # scores of all documents in memory at once, 32 MiB
_COSTLY = 2**26  # scores of all documents for all texts above which importing numba pays off
_LOOKED_UP = 2**16  # documents per product of terms, about 500 bytes each


@dataclass(frozen=True)
class WordOverlap:
    """Texts and documents by their terms; scores are float32, for given texts and documents.

    Attributes:
        counts: (text, term) term frequencies.
        bm25_weights: (term, document) contribution of a term to BM25.
        asked: Sum of the frequencies of each text's terms.
    """

    counts: "csr_array"
    bm25_weights: "csr_array"
    idf: Float32[Array, " term"]
    asked: Float32[Array, " text"]

    def best(
        self, texts: Int[Array, " some"], count: int
    ) -> tuple[Int[Array, "some count"], Float32[Array, "some count"]]:
        """Find the documents of the highest BM25 above 0, in descending order; -1 and 0 if there are fewer.

        Time grows with the documents that share a term with the text, memory with `count`.
        """
        size = self.bm25_weights.shape[1]
        count = min(count, size)
        search = compiled_search() if self.counts.shape[0] * size > _COSTLY else None
        if search:
            return self._best_compiled(search, count, texts)
        step = max(1, _AT_ONCE // size)
        found = [self._best(count, texts[at : at + step]) for at in range(0, max(1, len(texts)), step)]
        return np.concatenate([places for places, _ in found]), np.concatenate([scores for _, scores in found])

    def _best(self, count: int, texts: Array) -> tuple[Array, Array]:
        """`best` from the scores of all documents."""
        dense = np.asarray((self.counts[texts] @ self.bm25_weights).toarray(), np.float32)
        places = best_places(dense, count)
        return places, np.where(places >= 0, np.take_along_axis(dense, np.maximum(places, 0), axis=1), 0.0)

    def _best_compiled(self, search: Callable[..., Any], count: int, texts: Array) -> tuple[Array, Array]:
        """`best` with the function compiled by numba."""
        asked = self.counts[texts]
        often = asked.data.astype(np.int64)
        terms, ends = np.repeat(asked.indices.astype(np.int64), often), np.concatenate([[0], np.cumsum(often)])
        of = search(*self._postings, terms, ends[asked.indptr], count)
        places, scores = np.full((len(texts), count), -1), np.zeros((len(texts), count), np.float32)
        there = np.arange(count) < of[0][:, None]
        places[there], scores[there] = of[1], of[2]
        return places, scores

    def bm25(self, texts: Int[Array, " some"], documents: Int[Array, "some each"]) -> Float32[Array, "some each"]:
        """BM25 of each text's documents."""
        return self._summed(self._bm25_of_document, texts, documents)

    def overlap(self, texts: Int[Array, " some"], documents: Int[Array, "some each"]) -> Float32[Array, "some each"]:
        """Share of each text's idf weight found in each of its documents; 0 for a text without weight.

        A term counts as often as it occurs in the text. Source of the idf: `idf`.
        """
        held = self._summed(self._idf_of_document, texts, documents)
        held /= np.maximum(self.asked[texts], np.finfo(np.float32).tiny)[:, None]
        return held

    def _summed(
        self, weights: "csr_array", texts: Int[Array, " some"], documents: Int[Array, "some each"]
    ) -> Float32[Array, "some each"]:
        found, each = np.empty(documents.shape, np.float32), documents.shape[1]
        step = max(1, _LOOKED_UP // max(1, each))
        for start in range(0, len(texts), step):
            some = documents[start : start + step]
            asked = self.counts[np.repeat(texts[start : start + step], each)]
            found[start : start + step] = asked.multiply(weights[some.ravel()]).sum(axis=1).reshape(some.shape)
        return found

    @cached_property
    def _postings(self) -> tuple[Any, ...]:
        """Arguments of a compiled search, of the types that BM25's own has, so that numba compiles once for both."""
        held = self.bm25_weights
        most = greatest_weights(held.indptr, held.data)
        return held.indptr, held.indices.astype(np.int32, copy=False), held.data, most, held.shape[1]

    @cached_property
    def _bm25_of_document(self) -> "csr_array":
        """(document, term) the same weights, grouped by document."""
        return self.bm25_weights.T.tocsr()

    @cached_property
    def _idf_of_document(self) -> "csr_array":
        """(document, term) idf of each term in the document."""
        from scipy.sparse import csr_array

        held = self._bm25_of_document
        return csr_array((self.idf[held.indices], held.indices, held.indptr), shape=held.shape)


def words(searcher: NumpyBm25, texts: Sequence[str], documents: Int[Array, " document"]) -> WordOverlap:
    """Term statistics of these texts and of the documents at these rows of the searcher, in that order."""
    weights = searcher.weights()
    size = weights.shape[1]
    counts, unknown = searcher.term_counts(texts)
    frequency = idf(np.diff(weights.indptr), size)
    chosen = weights.tocsc()[:, documents].tocsr()
    asked = counts @ frequency + unknown * float(idf(np.zeros(1), size)[0])
    return WordOverlap(counts, chosen, frequency.astype(np.float32), asked.astype(np.float32))


def idf(documents_with: Float[Array, " term"] | Int[Array, " term"], documents: int) -> Float[Array, " term"]:
    """Inverse document frequency, ln(1 + (N - n + 1/2) / (n + 1/2)), positive even if every document has the term.

    Source: Robertson and Sparck Jones, JASIS 1976, as smoothed by Lucene.
    """
    return np.log1p((documents - documents_with + 0.5) / (documents_with + 0.5))


def bm25_share(scores: Float32[Array, "pair some"], best: Float32[Array, " pair"]) -> Float32[Array, "pair some"]:
    """BM25 divided by the query's best BM25 in the collection, in [0, 1]; 0 if no document shares a term.

    BM25 grows with the number and rarity of the query's terms; the share is comparable across queries.
    """
    share: Float32[Array, "pair some"] = scores / np.where(best > 0, best, 1.0)[:, None]
    return share
