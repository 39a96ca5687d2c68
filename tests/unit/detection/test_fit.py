"""The ensemble's equations by hand."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from noisyir.detection.fits import StaticFit, TransformerFit, combined_fit, csls, own_standardised
from noisyir.detection.hybrid import FeatureBlock
from noisyir.detection.lexical import WordOverlap


def held(bm25):
    """Texts of one term each, and documents with such a BM25 for it."""
    bm25 = csr_array(np.array(bm25, np.float32))
    each = np.ones(2, np.float32)
    return WordOverlap(csr_array(np.eye(2, dtype=np.float32)), bm25, each, each)


def block(**changes):
    eye = np.eye(3, dtype=np.float32)
    given = {
        "pairs": np.array([0, 1]),
        "texts": np.array([0, 1]),
        "place": np.array([0, 1]),
        "queries": np.array([[0.6, 0.8, 0], [0, 0, 1]], np.float32),
        "documents": eye,
        "words": held([[2, 4, 0], [0, 0, 0]]),
        "worded": np.array([[1, 0], [-1, -1]]),
        "best": np.array([4, 0], np.float32),
        "hits": np.array([[1, -1, 2], [2, 0, -1]]),
        "similarities": np.array([[0.8, 0.6, 0.0], [1.0, 0.0, 0.0]], np.float32),
        "ranked": np.array([[1, 0, 2], [2, 0, 1]]),
        "near_text": np.array([0.1, 0.2, 0.3], np.float32),
    }
    return FeatureBlock(**given | changes)


def test_cosines_shares_and_nearness_are_of_each_pairs_query():
    both = np.array([[0, 1], [2, 0]])
    assert block().cosines(both) == pytest.approx(np.array([[0.6, 0.8], [1, 0]]))
    assert block().shares(both).tolist() == [[0.5, 1.0], [0.0, 0.0]]
    assert block().nearness() == pytest.approx([0.4, 0.5])  # over the hits that no pair names


def test_only_the_ten_nearest_count():
    similarities = np.array([[1.0] * 10 + [0.0] * 5] * 2, np.float32)
    assert block(hits=np.arange(30).reshape(2, 15), similarities=similarities).nearness() == pytest.approx([1, 1])


def test_the_transformers_fit_is_twice_the_z_of_the_cosine_and_once_that_of_the_share():
    own = np.array([0, 2])
    fit = TransformerFit.observed([block()], own)
    assert fit.cosine == pytest.approx((0.8, 0.2)) and fit.share == pytest.approx((0.25, 0.25))
    assert fit.of(block())(own[:, None])[:, 0] == pytest.approx([2 * -1 + 1, 2 * 1 - 1])
    assert combined_fit(np.array([3.0]), np.array([-1.0])).tolist() == [5.0]


def test_equal_values_have_no_scale_and_divide_by_one():
    fit = TransformerFit.observed([block(words=held(np.zeros((2, 3))), best=np.zeros(2, np.float32))], np.array([0, 0]))
    assert fit.share == (0.0, 1.0)


def test_csls_takes_the_means_of_both_sides_off():
    assert csls(np.array([[0.5]]), np.array([0.2]), np.array([[0.3]]))[0, 0] == pytest.approx(0.5)


def test_each_pair_is_measured_by_its_own_draws():
    values = np.array([[[5.0]], [[5.0]], [[5.0]]])
    draws = np.array([[[1.0], [3.0]], [[4.0], [np.nan]], [[np.nan], [np.nan]]])
    found = own_standardised(values, draws, np.array([2.0]))
    assert found[:, 0] == pytest.approx([(5 - 2) / (1 + 0.1), (5 - 4) / 0.1, 5 / 0.1])


def test_the_static_fit_adds_three_measures_on_the_scale_of_the_draws():
    random = np.array([[1, 2], [0, 1]])
    fit = StaticFit.observed([block()], random)
    assert fit.spread.shape == (3,)
    value = fit.of(block())
    shifted = StaticFit.observed([block(near_text=np.full(3, 7, np.float32))], random).of(block())
    assert value(np.array([[1], [2]])).shape == (2, 1)
    mean = value(random).mean(axis=1)
    assert mean == pytest.approx([0, 0], abs=1e-6)  # own draws are the origin
    assert np.isfinite(shifted(np.array([[0], [1]]))).all()
