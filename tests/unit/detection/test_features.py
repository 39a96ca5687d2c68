"""What a pair looks like in numbers, against the definitions written out."""

import math

import numpy as np
import pytest

from noisyir.detection import features as neighbourhood_module
from noisyir.detection.features import (
    BUILT,
    COMPONENTS,
    FEATURES,
    NEAREST,
    SHARED,
    PairEvidence,
    built,
    neighbourhoods,
    pair_features,
    rank_share,
    shared_words,
)
from noisyir.retrieval.analysis import analyse


def unit(rng, *shape):
    vectors = rng.normal(size=shape).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def evidence(count=60, dim=32, seed=0):
    rng = np.random.default_rng(seed)
    words = ["select", "from", "table", "join", "where", "order", "by1", "count(*)", "group;", "limit 10"]
    texts = [" ".join(rng.choice(words, 6)) for _ in range(count)]
    return PairEvidence(
        rng.integers(0, 25, count),
        rng.permutation(count),
        texts[:25],
        texts,
        unit(rng, 25, dim),
        unit(rng, count, dim),
        rng.random(count),
        1 + rng.random(count),
    )


def test_neighbourhoods_are_what_the_definitions_say():
    pairs = evidence()
    found = neighbourhoods(pairs.query_vectors, pairs.document_vectors, pairs.query, pairs.document)
    cosines = pairs.query_vectors @ pairs.document_vectors.T
    for row, (q, d) in enumerate(zip(pairs.query, pairs.document, strict=True)):
        others = np.setdiff1d(np.arange(60), pairs.document[pairs.query == q])
        askers = np.setdiff1d(np.arange(25), pairs.query[pairs.document == d])
        np.testing.assert_allclose(found.documents[row], np.sort(cosines[q, others])[::-1][:NEAREST], rtol=1e-5)
        np.testing.assert_allclose(found.queries[row], np.sort(cosines[askers, d])[::-1][:NEAREST], rtol=1e-5)
        assert found.above[row] == pytest.approx((cosines[q, others] > cosines[q, d]).mean())
        likelihood = np.exp(20 * cosines[q, d]) / (np.exp(20 * cosines[q, d]) + np.exp(20 * cosines[q, others]).sum())
        assert found.nll[row] == pytest.approx(-np.log(likelihood), rel=1e-3)


def test_blocks_do_not_change_what_is_found(monkeypatch):
    pairs = evidence(seed=3)
    whole = pair_features(pairs)
    monkeypatch.setattr(neighbourhood_module, "_CELLS_AT_ONCE", 100)
    np.testing.assert_allclose(pair_features(pairs), whole, atol=1e-6)


def test_a_sample_of_references_leaves_the_pairs_own_cosine_exact_and_the_margins_close():
    rng = np.random.default_rng(0)
    queries, documents = unit(rng, 400, 16), unit(rng, 400, 16)
    rows = np.arange(400)
    some = neighbourhoods(queries, documents, rows, rows, references=200)
    whole = neighbourhoods(queries, documents, rows, rows)
    np.testing.assert_array_equal(some.own, whole.own)
    assert np.corrcoef(some.nll, whole.nll)[0, 1] > 0.95
    assert np.abs(some.above - whole.above).max() < 0.15


def test_one_pair_has_no_others():
    vectors = np.ones((1, 1), np.float32)
    found = neighbourhoods(vectors, vectors, np.zeros(1, int), np.zeros(1, int))
    assert found.documents.tolist() == [[0.0] * NEAREST] and found.above.tolist() == [0.0] == found.nll.tolist()


def test_shared_words_by_hand():
    columns = shared_words(["sort a list", "the"], ["sorting lists", "red"], np.array([0, 0, 1]), np.array([0, 1, 0]))
    overlap = dict(zip(SHARED, columns.T, strict=True))
    assert overlap["overlap"].tolist() == [1.0, 0.0, 0.0], "stems agree; 'the' is a stop word"
    assert overlap["jaccard"].tolist() == [1.0, 0.0, 0.0]
    late = shared_words(["needle"], ["hay " * 40 + "needle"], np.zeros(1, int), np.zeros(1, int))
    assert dict(zip(SHARED, late[0], strict=True)) == pytest.approx(
        {"overlap": 1, "idf_overlap": 1, "overlap_start": 0, "jaccard": 0.5}
    )


def test_shared_words_are_what_the_definitions_say_to_the_bit_whatever_is_compared_at_once(monkeypatch):
    rng = np.random.default_rng(0)
    words = ["select", "from", "tables", "joined", "the", "where", "ordering", "by1", "naïve", "x" * 130]
    asked, held = ([" ".join(rng.choice(words, size)) for _ in range(40)] for size in (4, 30))
    query, document = rng.integers(0, 41, 200), rng.integers(0, 40, 200)
    of_query, of_document, start = (
        [set(analyse(text)) for text in texts] for texts in ([*asked, "the"], held, [text[:120] for text in held])
    )
    n = {term: sum(term in terms for terms in of_document) for terms in of_query for term in terms}
    idf = {term: math.log(1 + (40 - count + 0.5) / (count + 0.5)) for term, count in n.items()}
    expected = []
    for q, d in zip(query, document, strict=True):
        terms, both = of_query[q], of_query[q] & of_document[d]
        shares = len(both), sum(idf[term] for term in sorted(both)), len(terms & start[d]), len(both)
        of = len(terms), sum(idf[term] for term in sorted(terms)), len(terms), len(terms | of_document[d])
        expected.append([share / whole if terms else 0.0 for share, whole in zip(shares, of, strict=True)])
    monkeypatch.setattr(neighbourhood_module, "_AT_ONCE", 64)
    np.testing.assert_array_equal(shared_words([*asked, "the"], held, query, document), expected)


def test_how_a_text_is_built_by_hand():
    row = dict(zip(BUILT, built(["ab, ab 1\nc;", ""])[0], strict=True))
    assert row == {
        "words": 4,
        "characters": 11,
        "punctuation": pytest.approx(2 / 11),
        "digits": pytest.approx(1 / 11),
        "distinct_words": 1,
        "lines": 2,
    }
    assert not built([""]).any()


def test_ranks_are_centred_and_ties_share_theirs():
    np.testing.assert_allclose(rank_share(np.array([5.0, 1.0, 1.0, 9.0])), [0.125, -0.25, -0.25, 0.375])
    assert rank_share(np.ones(7)).tolist() == [0.0] * 7


def test_components_are_uncorrelated_in_falling_order_and_the_first_has_its_spread():
    parts = pair_features(evidence(400, 64))[:, -COMPONENTS:]
    covariance = np.cov(parts.T, bias=True)
    spread = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(covariance, np.diag(spread**2), atol=1e-4)
    assert spread[0] == pytest.approx(0.5, rel=1e-3) and (np.diff(spread) <= 1e-6).all() and spread[-1] > 0


def test_the_matrix_has_the_columns_named_and_none_is_infinite():
    for pairs in (evidence(), evidence(40, 4)):
        columns = pair_features(pairs)
        assert columns.shape == (len(pairs.query), len(FEATURES)) and columns.dtype == np.float32
        assert np.isfinite(columns).all()
        np.testing.assert_array_equal(columns, pair_features(pairs))
