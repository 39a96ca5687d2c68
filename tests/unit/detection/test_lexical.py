"""BM25 and IDF overlap of many texts at once against the searcher's own scores and sums by hand."""

import numpy as np
import pyarrow as pa
import pytest

from noisyir.detection import lexical
from noisyir.detection.lexical import bm25_share, idf, words
from noisyir.retrieval import numpy_bm25
from noisyir.retrieval.numpy_bm25 import NumpyBm25, build

DOCUMENTS = ["select rows of a table", "sort rows", "join two tables, join them", "delete"]
TEXTS = ["how to join rows", "rows rows", "unheard", ""]


@pytest.fixture
def searcher(tmp_path):
    columns = {"doc_id": ["d3", "d1", "d2", "d0"], "title": [""] * 4, "text": [DOCUMENTS[n] for n in (3, 1, 2, 0)]}
    build([pa.RecordBatch.from_pydict(columns)], tmp_path / "index")
    return NumpyBm25(tmp_path / "index", k1=0.9, b=0.4)


def test_products_are_the_searchers_scores_in_the_order_asked_for(searcher):
    order = np.array([2, 0, 3])
    found = words(searcher, TEXTS, order).bm25(np.arange(4), np.tile(np.arange(3), (4, 1)))
    for row, text in zip(found, TEXTS, strict=True):
        scores = searcher.scores(text)
        assert row == pytest.approx(np.zeros(3) if scores is None else scores[order], rel=1e-6)
    assert found[0, 0] > 0 and found[2].max() == 0


@pytest.mark.parametrize("costly", [0, 2**40])
def test_the_best_are_those_of_the_products_compiled_or_not(searcher, monkeypatch, costly):
    monkeypatch.setattr(lexical, "_COSTLY", costly)
    of, texts = words(searcher, TEXTS, np.array([2, 0, 3])), np.array([3, 0, 1])
    every = of.bm25(texts, np.tile(np.arange(3), (3, 1)))
    for count in (1, 2, 5):
        places, scores = of.best(texts, count)
        assert places.shape == scores.shape == (3, min(count, 3))
        for row, value in enumerate(every):
            expected = [place for place in np.argsort(-value, kind="stable") if value[place] > 0][:count]
            assert [place for place in places[row] if place >= 0] == expected
            assert scores[row, : len(expected)] == pytest.approx(value[expected], rel=1e-6)
            assert not scores[row, len(expected) :].any()


def test_numba_compiles_the_search_once_for_both_that_use_it(searcher, monkeypatch):
    monkeypatch.setattr(lexical, "_COSTLY", 0)
    monkeypatch.setattr(numpy_bm25, "_COSTLY", 0)
    searcher.search(TEXTS, 2)
    known = list(numpy_bm25.compiled_search().signatures)
    words(searcher, TEXTS, np.arange(4)).best(np.arange(4), 2)
    assert numpy_bm25.compiled_search().signatures == known


def test_the_overlap_is_the_share_of_idf(searcher):
    rare, common, none = idf(np.array([1, 2, 0]), 4)
    found = words(searcher, TEXTS, np.arange(4)).overlap(np.arange(4), np.tile(np.arange(4), (4, 1)))
    # "how" is in no document, "to" is a stop word; "rows" is in two documents, "join" in one
    assert found[0] == pytest.approx(np.array([common, common, rare, 0]) / (rare + common + none), rel=1e-5)
    assert found[1].tolist() == [1, 1, 0, 0]
    assert not found[2:].any()


def test_the_idf_is_lucenes():
    assert idf(np.array([0, 3]), 4) == pytest.approx([np.log(1 + 4.5 / 0.5), np.log(1 + 1.5 / 3.5)])


def test_shares_are_of_the_best_and_zero_where_nothing_is_found():
    scores = np.array([[1.0, 4.0], [0.0, 0.0]], np.float32)
    assert bm25_share(scores, scores.max(axis=1)).tolist() == [[0.25, 1.0], [0.0, 0.0]]
