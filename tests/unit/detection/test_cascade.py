"""Which pairs are read where not all can be, and what stands for the scores of the others."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisyir.detection.ensemble import imputed, reading_order, within

RNG = np.random.default_rng


def test_nine_of_ten_are_the_nearest_to_the_cut_and_the_tenth_is_any():
    scores = RNG(0).normal(size=10_000)
    rank = np.argsort(np.argsort(scores))
    first = reading_order(scores, 0.3, RNG(1))[:1000]
    near = np.abs(rank[first] - 7000) <= 470
    assert 0.89 < near.mean() < 0.93  # the random tenth falls near the cut now and then
    others = rank[first[~near]]
    assert others.min() < 500 and others.max() > 9500 and abs(np.mean(others) - 5000) < 700


@given(st.integers(1, 60), st.floats(0, 1), st.integers(0, 5))
def test_every_pair_has_one_place(size, rate, seed):
    order = reading_order(RNG(seed).integers(0, 3, size).astype(float), rate, RNG(seed))
    assert sorted(order) == list(range(size))


def test_texts_that_pairs_share_are_read_once():
    query, document = np.array([0, 0, 1, 2]), np.array([0, 1, 0, 2])
    lengths = np.array([3, 3, 3]), np.array([10, 20, 30])
    order = np.array([1, 0, 2, 3])  # costs 3 + 20, 10, 3, 33
    for tokens, read in ((22, []), (23, [1]), (33, [0, 1]), (36, [0, 1, 2]), (68, [0, 1, 2]), (69, [0, 1, 2, 3])):
        assert np.flatnonzero(within(order, query, document, *lengths, tokens)).tolist() == read


def test_what_was_not_read_is_imputed_without_bias_although_the_doubtful_were_read():
    rng = RNG(0)
    cheap = rng.normal(size=20_000)
    known = np.tanh(3 * cheap) + rng.normal(size=20_000)  # no straight line
    read = np.zeros(20_000, bool)
    read[reading_order(cheap, 0.2, rng)[:6000]] = True
    found = imputed(np.where(read, known, 1e9), cheap, read)
    assert (found[read] == known[read]).all()
    for low in (-2.0, -1.0, 0.0, 1.0):
        some = ~read & (cheap > low) & (cheap < low + 1)
        assert found[some].mean() == pytest.approx(np.tanh(3 * cheap[some]).mean(), abs=0.12)


@given(st.integers(2, 40), st.integers(0, 30))
def test_unread_pairs_keep_the_order_of_the_cheap_score(size, seed):
    rng = RNG(seed)
    cheap, known, read = rng.normal(size=size), rng.normal(size=size), rng.random(size) < 0.5
    found = imputed(known, cheap, read)
    assert np.isfinite(found).all()
    if read.any():
        unread = np.flatnonzero(~read)
        assert (np.diff(found[unread[np.argsort(cheap[unread])]]) >= 0).all()
