"""BM25 by bm25s, in numpy: for machines without Java.

The index is the analysed documents; bm25s weighs their terms when the index is opened, so that `k1` and `b` may
change without indexing again.
"""

import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from noisyir.errors import MissingPackageError
from noisyir.retrieval.runs import Hits
from noisyir.retrieval.texts import contents

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_DOCUMENTS, _VOCABULARY = "documents.parquet", "vocabulary.json"
_SCHEMA = pa.schema([("doc_id", pa.string()), ("terms", pa.list_(pa.int32()))])
STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
    "to was will with".split()
)


def analyse(text: str) -> list[str]:
    """The terms of a text, as Anserini's English analyser finds them.

    Unicode words (UAX #29), without a possessive 's, in lower case, without Lucene's 33 stop words, stemmed by Porter's
    algorithm.  Snowball's version of it differs from Lucene's in two endings: it leaves -bli and -logi.
    """
    pattern, stemmer = _tools()
    words = (word[:-2] if word[-2:] in _POSSESSIVE else word for word in pattern.findall(text))
    kept = [lower for word in words if (lower := word.lower()) not in STOP_WORDS]
    return [stemmer.stemWord(word) if len(word) > 2 else word for word in kept]


_POSSESSIVE = frozenset(mark + letter for mark in ("'", "\N{RIGHT SINGLE QUOTATION MARK}", "\uff07") for letter in "sS")


def build(documents: Iterable[pa.RecordBatch], folder: Path) -> int:
    """Analyse a stream of documents and write their terms; returns how many there were."""
    folder.mkdir()
    vocabulary: dict[str, int] = {}
    count = 0
    with pq.ParquetWriter(folder / _DOCUMENTS, _SCHEMA, compression="zstd") as writer:
        for batch in documents:
            terms = [[vocabulary.setdefault(t, len(vocabulary)) for t in analyse(text)] for text in contents(batch)]
            writer.write_table(
                pa.table([batch["doc_id"], pa.array(terms, _SCHEMA.field("terms").type)], schema=_SCHEMA)
            )
            count += len(terms)
    (folder / _VOCABULARY).write_text(json.dumps(list(vocabulary), ensure_ascii=False), encoding="utf-8")
    return count


class NumpyBm25:
    """An open bm25s index: method "lucene", scores in float32; equal scores are in the order of document ids.

    doc_ids: of all documents, in the order of `scores`, which is that of the ids.
    """

    def __init__(self, folder: Path, *, k1: float, b: float) -> None:
        try:
            from bm25s import BM25
            from bm25s.tokenization import Tokenized
        except ImportError as error:
            raise MissingPackageError('bm25_index.engine=bm25s needs bm25s: pip install "noisyir[bm25]"') from error
        documents = pq.read_table(folder / _DOCUMENTS).sort_by("doc_id")
        terms = json.loads((folder / _VOCABULARY).read_text(encoding="utf-8"))
        self.doc_ids = documents["doc_id"].combine_chunks()
        self._term_ids = {term: number for number, term in enumerate(terms)}
        self._bm25 = BM25(method="lucene", k1=k1, b=b)
        corpus = Tokenized(ids=documents["terms"].to_pylist(), vocab=self._term_ids)
        self._bm25.index(corpus, create_empty_token=False, show_progress=False)

    def search(self, queries: Sequence[str], top_k: int) -> Hits:
        """The best documents of each query that share a term with it."""
        found = [self._search_one(query, top_k) for query in queries]
        rows = np.concatenate([np.empty(0, np.int64), *(rows for rows, _ in found)])
        scores = np.concatenate([np.empty(0, np.float32), *(scores for _, scores in found)])
        return Hits(np.array([len(rows) for rows, _ in found], np.int64), self.doc_ids.take(pa.array(rows)), scores)

    def scores(self, query: str) -> npt.NDArray[np.float32] | None:
        """The score of every document; None for a query of which no term is in the collection."""
        known = [self._term_ids[term] for term in analyse(query) if term in self._term_ids]
        return self._bm25.get_scores_from_ids(known) if known else None

    def weights(self) -> "csr_array":
        """(term, document) what a term adds to the score of a document that has it, float32; documents as in `scores`.

        Equal to `scores` of a query when multiplied by how often each term is in it (`term_counts`).
        """
        from scipy.sparse import csr_array

        held = self._bm25.scores
        shape = (len(held["indptr"]) - 1, held["num_docs"])
        return csr_array((held["data"], held["indices"], held["indptr"]), shape=shape)

    def term_counts(self, texts: Sequence[str]) -> tuple["csr_array", npt.NDArray[np.int64]]:
        """(text, term) how often a text has each of the index's terms, and how many others each text has."""
        from scipy.sparse import csr_array

        found = [[self._term_ids.get(term, -1) for term in analyse(text)] for text in texts]
        flat = np.array([term for terms in found for term in terms], np.int64)
        row = np.repeat(np.arange(len(texts)), [len(terms) for terms in found])
        known = flat >= 0
        shape = (len(texts), len(self._bm25.scores["indptr"]) - 1)
        counts = csr_array((np.ones(known.sum(), np.float32), (row[known], flat[known])), shape=shape)
        return counts, np.bincount(row[~known], minlength=len(texts))

    def _search_one(self, query: str, top_k: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        if (scores := self.scores(query)) is None:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        rows = np.flatnonzero(scores)
        if len(rows) > top_k:
            worst_kept = np.partition(scores[rows], -top_k)[-top_k]
            rows = rows[scores[rows] >= worst_kept]
        rows = rows[np.argsort(-scores[rows], kind="stable")][:top_k]
        return rows, scores[rows]


@cache
def _tools() -> tuple[Any, Any]:
    """The word pattern (a word starts with a letter, digit or pictograph and ends at a word boundary), the stemmer."""
    try:
        import regex
        import Stemmer
    except ImportError as error:
        raise MissingPackageError('bm25_index.engine=bm25s needs PyStemmer: pip install "noisyir[bm25]"') from error
    return regex.compile(r"(?wV1s)[\p{L}\p{N}_\p{Extended_Pictographic}](?:\B.)*"), Stemmer.Stemmer("porter")
