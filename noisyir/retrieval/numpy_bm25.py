"""BM25 by bm25s in numpy, compiled by numba if that pays: for machines without Java.

The index is the analysed documents; bm25s weighs terms when it is opened, so that `k1` and `b` may change later.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from noisyir.base.errors import MissingPackageError, install_hint
from noisyir.retrieval.analysis import terms_of
from noisyir.retrieval.texts import Hits, contents

if TYPE_CHECKING:
    from scipy.sparse import csr_array


_DOCUMENTS, _VOCABULARY = "documents.parquet", "vocabulary.json"
_SCHEMA = pa.schema([("doc_id", pa.string()), ("terms", pa.list_(pa.int32()))])
_EXACT = 24  # Lucene's SmallFloat, intToByte4: lengths below take a value each
_COSTLY = 30_000_000  # additions and comparisons of a search for which it pays to import numba


def build(documents: Iterable[pa.RecordBatch], folder: Path) -> int:
    """Analyse a stream of documents, write their terms and return how many there were."""
    folder.mkdir()
    vocabulary: dict[str, int] = {}
    count = 0
    with pq.ParquetWriter(folder / _DOCUMENTS, _SCHEMA, compression="zstd") as writer:
        for batch in documents:
            terms = terms_of(contents(batch))
            numbers = np.array([vocabulary.setdefault(name, len(vocabulary)) for name in terms.names], np.int32)
            column = pa.ListArray.from_arrays(pa.array(terms.offsets, pa.int32()), numbers[terms.ids])
            writer.write_table(pa.table([batch["doc_id"], column], schema=_SCHEMA))
            count += len(column)
    (folder / _VOCABULARY).write_text(json.dumps(list(vocabulary), ensure_ascii=False), encoding="utf-8")
    return count


class NumpyBm25:
    """An open bm25s index: method "lucene", float32 scores; equal scores are in the order of document ids.

    `doc_ids` are all documents' in the order of `scores`, sorted.  Lengths of documents are `rounded` as in Lucene, or
    counted.
    """

    def __init__(self, folder: Path, *, k1: float, b: float, rounded: bool = False) -> None:
        with MissingPackageError.wrapping(
            "retrieval.no_engine", ImportError, engine="bm25s", package="bm25s", hint=install_hint("bm25")
        ):
            from bm25s import BM25
            from bm25s.tokenization import Tokenized
        documents = pq.read_table(folder / _DOCUMENTS).sort_by("doc_id")
        terms = json.loads((folder / _VOCABULARY).read_text(encoding="utf-8"))
        self.doc_ids = documents["doc_id"].combine_chunks()
        self._term_ids = {term: number for number, term in enumerate(terms)}
        self._bm25 = BM25(method="lucene", k1=k1, b=b)
        corpus = Tokenized(ids=documents["terms"].to_pylist(), vocab=self._term_ids)
        self._bm25.index(corpus, create_empty_token=False, show_progress=False)
        if rounded:
            held = self._bm25.scores
            held["data"] = lucenes_weights(held, documents["terms"].combine_chunks(), k1=k1, b=b)

    def search(self, queries: Sequence[str], top_k: int) -> Hits:
        """Find the best documents of each query that share a term with it."""
        terms, offsets = self._known_terms(queries)
        held = self._bm25.scores
        postings, size, top_k = held["indptr"], held["num_docs"], min(top_k, held["num_docs"])
        cost = len(queries) * size + (postings[terms + 1] - postings[terms]).sum()
        if cost > _COSTLY and (search := compiled_search()):
            counts, rows, scores = search(
                postings, held["indices"], held["data"], self._most, size, terms, offsets, top_k
            )
        else:
            found = [self._best(terms[a:b], top_k) for a, b in pairwise(offsets.tolist())]
            counts = np.array([len(rows) for rows, _ in found], np.int64)
            rows = np.concatenate([np.empty(0, np.int64), *(rows for rows, _ in found)])
            scores = np.concatenate([np.empty(0, np.float32), *(scores for _, scores in found)])
        return Hits(counts, self.doc_ids.take(pa.array(rows)), scores)

    @cached_property
    def _most(self) -> npt.NDArray[np.float64]:
        return greatest_weights(self._bm25.scores["indptr"], self._bm25.scores["data"])

    def scores(self, query: str) -> npt.NDArray[np.float32] | None:
        """Score every document; None if no term of the query is in the collection."""
        terms, _ = self._known_terms([query])
        return self._bm25.get_scores_from_ids(terms.tolist()) if len(terms) else None

    def weights(self) -> "csr_array":
        """Return (term, document) how much a term adds to the score of a document, float32.

        The product with a query's `term_counts` equals its `scores`.
        """
        from scipy.sparse import csr_array

        held = self._bm25.scores
        shape = (len(held["indptr"]) - 1, held["num_docs"])
        return csr_array((held["data"], held["indices"], held["indptr"]), shape=shape)

    def term_counts(self, texts: Sequence[str]) -> tuple["csr_array", npt.NDArray[np.int64]]:
        """Return (text, term) counts of the index's terms, and each text's number of other terms."""
        from scipy.sparse import csr_array

        flat, offsets = self._numbered(texts)
        row = np.repeat(np.arange(len(texts)), np.diff(offsets))
        known = flat >= 0
        shape = (len(texts), len(self._bm25.scores["indptr"]) - 1)
        counts = csr_array((np.ones(known.sum(), np.float32), (row[known], flat[known])), shape=shape)
        return counts, np.bincount(row[~known], minlength=len(texts))

    def _numbered(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return each text's term numbers, -1 if no document has the term, flat; and the texts' offsets."""
        terms = terms_of(texts)
        return np.array([self._term_ids.get(name, -1) for name in terms.names], np.int64)[terms.ids], terms.offsets

    def _known_terms(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Like `_numbered`, without the terms that no document has."""
        flat, offsets = self._numbered(texts)
        return flat[flat >= 0], np.concatenate([[0], np.cumsum(flat >= 0)])[offsets]

    def _best(self, terms: npt.NDArray[np.int64], top_k: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        if not len(terms):
            return np.empty(0, np.int64), np.empty(0, np.float32)
        scores = self._bm25.get_scores_from_ids(terms.tolist())
        rows = np.flatnonzero(scores)
        if len(rows) > top_k:
            worst_kept = np.partition(scores[rows], -top_k)[-top_k]
            rows = rows[scores[rows] >= worst_kept]
        rows = rows[np.argsort(-scores[rows], kind="stable")][:top_k]
        return rows, scores[rows]


def lucenes_weights(held: dict[str, Any], terms: pa.ListArray, *, k1: float, b: float) -> npt.NDArray[np.float32]:
    """Weigh each term of each document, in the order that bm25s holds them, with lengths as Lucene stores them."""
    lengths, per_term = terms.value_lengths().to_numpy(), np.diff(held["indptr"])
    row = np.repeat(np.arange(len(terms)), lengths)
    _, counts = np.unique(terms.flatten().to_numpy().astype(np.int64) * len(terms) + row, return_counts=True)
    holding = np.count_nonzero(lengths)  # Lucene counts no document without terms
    idf = np.log1p((holding - per_term + 0.5) / (per_term + 0.5))
    norms = k1 * (1 - b + b * stored_lengths(lengths) * holding / max(lengths.sum(), 1))
    weights: npt.NDArray[Any] = np.repeat(idf, per_term) * counts / (counts + norms[held["indices"]])
    return weights.astype(np.float32)


def stored_lengths(lengths: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Round lengths down as Lucene's one byte does: to 24 and the first four bits of the rest."""
    above = np.maximum(lengths - _EXACT, 0).astype(np.int64)
    shift = np.maximum(np.frexp(above)[1] - 4, 0)
    rounded: npt.NDArray[Any] = np.minimum(lengths, _EXACT) + (above >> shift << shift)
    return rounded


@cache
def compiled_search() -> Callable[..., tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]] | None:
    """Return the compiled `best_documents`; None without numba or a folder for its cache."""
    try:
        from noisyir.retrieval.best_documents import best_documents
    except (ImportError, RuntimeError):
        return None
    return best_documents


def greatest_weights(starts: npt.NDArray[Any], weights: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return each term's greatest of `weights[starts[t]:starts[t + 1]]`; 0 if no document has the term."""
    most, has = np.zeros(len(starts) - 1), np.diff(starts) > 0
    most[has] = np.maximum.reduceat(weights, starts[:-1][has]) if has.any() else 0
    return most
