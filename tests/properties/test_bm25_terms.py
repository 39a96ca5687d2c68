"""Pieces between spaces have the terms that the whole text has; a compiled search finds what numpy's does."""

from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from noisyir.retrieval import best_documents, numpy_bm25
from noisyir.retrieval.analysis import analyse, terms_of
from noisyir.retrieval.numpy_bm25 import NumpyBm25, build, greatest_weights

MARKS = "'\u2019\uff07\"`_.,:;-/()#*\u00b7\u2024"
AWKWARD = (
    "\u05d1\u05d2\"\u05e5", "\u05d0'", "a\u0301", "\u0301", "\u200d", "\u00ad", "\ufe0f",
    "\U0001f1e9\U0001f1ea", "#\ufe0f\u20e3", "\u30ab\u30bf", "\u4e2d\u6587", "\u0e44\u0e17\u0e22", "\xa0", "\u2028",
    "\x0b", "\x0c", "\x85", "\u3000", "\r\n", "\t", "U.S.A.", "don't", "dogs'", "1,000.5", "3:30", "x_y",
    "\U0001f469\u200d\U0001f52c", "a.", "a. ", "1,", "\u05d0. \u05d1", "the", "Running", "\u0130", "\u212a",
)  # fmt: skip
TEXTS = st.lists(
    st.one_of(st.sampled_from(AWKWARD), st.sampled_from(MARKS), st.sampled_from(" ab1"), st.text(max_size=5)),
    max_size=14,
).map("".join)


@settings(deadline=None, max_examples=300)
@given(st.lists(TEXTS, max_size=4))
def test_pieces_have_the_terms_of_the_whole_text(texts):
    terms = terms_of(texts)
    for number, text in enumerate(texts):
        here = terms.ids[terms.offsets[number] : terms.offsets[number + 1]]
        assert [terms.names[term] for term in here] == analyse(text)


def test_a_compiled_search_finds_what_numpy_finds_ties_in_the_order_of_ids(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    words = [f"word{number}" for number in range(12)]
    texts = [" ".join(rng.choice(words, rng.integers(1, 5))) for _ in range(3000)]
    ids = [f"d{number:04d}" for number in rng.permutation(3000)]
    build([pa.record_batch({"doc_id": ids, "title": [""] * 3000, "text": texts})], tmp_path / "index")
    searcher = NumpyBm25(tmp_path / "index", k1=0.9, b=0.4)
    queries = [" ".join(rng.choice([*words, "nowhere"], rng.integers(0, 4))) for _ in range(60)]
    for top_k in (1, 7, 1000):
        monkeypatch.setattr(numpy_bm25, "_COSTLY", 1e12)
        plain = searcher.search(queries, top_k)
        monkeypatch.setattr(numpy_bm25, "_COSTLY", 0)
        compiled = searcher.search(queries, top_k)
        np.testing.assert_array_equal(plain.counts, compiled.counts)
        np.testing.assert_array_equal(plain.scores, compiled.scores)
        assert plain.doc_ids.equals(compiled.doc_ids)
        assert 0 < (np.diff(plain.scores) == 0).sum() or top_k == 1


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 5, 60]), st.sampled_from([0, 64]))
def test_terms_that_are_left_unread_change_no_document_and_no_bit(seed, top_k, looked_for):
    rng = np.random.default_rng(seed)
    held = rng.random((8, 40)) < rng.random((8, 1)) ** 2  # rare terms and common ones
    weight = rng.choice([0.0, 0.01, 0.5, 1.0, 3.0], (8, 1)) * rng.choice([0.5, 0.7, 1.0], (8, 40))  # equal sums, too
    documents, starts = np.nonzero(held)[1], np.concatenate([[0], np.cumsum(held.sum(axis=1))])
    weights = weight[held].astype(np.float32)
    queries = [rng.integers(0, 8, rng.integers(0, 6)) for _ in range(5)]
    terms, offsets = np.concatenate(queries), np.concatenate([[0], np.cumsum([len(query) for query in queries])])
    most = greatest_weights(starts, weights)
    with patch.object(best_documents, "_LOOKED_FOR", looked_for):  # which what is compiled does not see
        search = best_documents.best_documents.py_func
        counts, rows, scores = search(starts, documents, weights, most, 40, terms, offsets, top_k)
    ends = np.cumsum(counts)
    for query, start, end in zip(queries, ends - counts, ends, strict=True):
        sums = np.zeros(40, np.float32)
        for term in query:
            sums[held[term]] += weight[term, held[term]].astype(np.float32)
        expected = [row for row in np.argsort(-sums, kind="stable") if sums[row] > 0][:top_k]
        assert rows[start:end].tolist() == expected
        assert scores[start:end].tolist() == sums[expected].tolist()
