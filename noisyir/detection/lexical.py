"""Words of queries and documents: BM25, and how much of a query's weight a document holds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Float32, Int

from noisyir.retrieval.numpy_bm25 import NumpyBm25

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Array = np.ndarray


@dataclass(frozen=True)
class WordOverlap:
    """Texts and documents by their terms.  Dense results are (text, document), float32: ask for some texts at a time.

    counts: (text, term) how often; bm25_weights: (term, document); idf_weights: the same documents, of each of whose
    terms the inverse document frequency; asked: for each text the sum of the frequencies of its terms.
    """

    counts: "csr_array"
    bm25_weights: "csr_array"
    idf_weights: "csr_array"
    asked: Float32[Array, " text"]

    def bm25(self, texts: Int[Array, " some"]) -> Float32[Array, "some document"]:
        """BM25 of every document."""
        return np.asarray((self.counts[texts] @ self.bm25_weights).toarray(), np.float32)

    def overlap(self, texts: Int[Array, " some"]) -> Float32[Array, "some document"]:
        """The share of each text's weight, a term's being its idf, that stands in the document; 0 without any term.

        A term counts as often as it is in the text.  Source of the idf: `idf`.
        """
        held = np.asarray((self.counts[texts] @ self.idf_weights).toarray(), np.float32)
        held /= np.maximum(self.asked[texts], np.finfo(np.float32).tiny)[:, None]
        return held


def words(searcher: NumpyBm25, texts: Sequence[str], documents: Int[Array, " document"]) -> WordOverlap:
    """Of these texts, and of the documents at these rows of the searcher, in that order."""
    from scipy.sparse import csr_array

    weights = searcher.weights()
    held_in = np.diff(weights.indptr)
    size = weights.shape[1]
    counts, unknown = searcher.term_counts(texts)
    frequency = idf(held_in, size)
    chosen = weights.tocsc()[:, documents].tocsr()
    of_term = np.repeat(frequency, np.diff(chosen.indptr)).astype(np.float32)
    idf_weights = csr_array((of_term, chosen.indices, chosen.indptr), shape=chosen.shape)
    asked = counts @ frequency + unknown * float(idf(np.zeros(1), size)[0])
    return WordOverlap(counts, chosen, idf_weights, asked.astype(np.float32))


def idf(documents_with: Float[Array, " term"] | Int[Array, " term"], documents: int) -> Float[Array, " term"]:
    """Inverse document frequency, ln(1 + (N - n + 1/2) / (n + 1/2)): above 0 also where every document has the term.

    Source: Robertson and Sparck Jones, JASIS 1976, as Lucene smooths it.
    """
    return np.log1p((documents - documents_with + 0.5) / (documents_with + 0.5))


def bm25_share(
    scores: Float32[Array, "text document"], best: Float32[Array, " text"]
) -> Float32[Array, "text document"]:
    """BM25 over the query's best BM25 in the collection: from 0 to 1, 0 where no document has a word of the query.

    BM25 grows with the length and rarity of the query's words; the share compares across queries.
    """
    share: Float32[Array, "text document"] = scores / np.where(best > 0, best, 1.0)[:, None]
    return share
