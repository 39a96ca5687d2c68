"""Uniform mismatched pairs: what holds for every pool, rate and seed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisyir.data.noise import choose_pairs, draw_mismatches, is_among
from noisyir.errors import DataError

seeds = st.integers(0, 2**32)


def nothing(rows, documents):
    return np.zeros(len(rows), bool)


@given(st.integers(0, 500), st.floats(0, 1), seeds)
def test_exactly_the_rounded_share_is_chosen_each_pair_once(pairs, rate, seed):
    chosen = choose_pairs(pairs, rate, np.random.default_rng(seed))
    assert len(chosen) == len(set(chosen.tolist())) == round(rate * pairs)
    assert (np.diff(chosen) > 0).all() and set(chosen.tolist()) <= set(range(pairs))


@given(
    st.lists(st.integers(0, 5), max_size=30),
    st.integers(1, 40),
    st.sets(st.tuples(st.integers(0, 5), st.integers(0, 39)), max_size=60),
    st.integers(2, 9),
    seeds,
)
def test_a_drawn_document_is_wrong_and_new_to_its_query_or_there_is_none(query, pool, known, divisor, seed):
    query = np.array(query, np.int64)
    known = {(asked, document) for asked, document in known if document < pool}

    def is_relevant(rows, documents):
        return (query[rows] + documents) % divisor == 0

    def wrong(asked):
        return {d for d in range(pool) if (asked, d) not in known and (asked + d) % divisor}

    known_array = np.array(sorted(known), np.int64).reshape(-1, 2)
    enough = all(len(wrong(asked)) >= count for asked, count in zip(*np.unique(query, return_counts=True), strict=True))
    if not enough:
        with pytest.raises(DataError, match=r"lower noise\.rate"):
            draw_mismatches(query, pool, known_array, np.random.default_rng(seed), is_relevant=is_relevant)
        return
    drawn = draw_mismatches(query, pool, known_array, np.random.default_rng(seed), is_relevant=is_relevant)
    assert all(document in wrong(asked) for asked, document in zip(query, drawn, strict=True))
    assert len(set(zip(query.tolist(), drawn.tolist(), strict=True))) == len(query)


def test_every_wrong_document_is_equally_likely():
    known = np.array([[asked, 0] for asked in range(20_000)])
    drawn = draw_mismatches(np.arange(20_000), 5, known, np.random.default_rng(0), is_relevant=nothing)
    counts = np.bincount(drawn, minlength=5)
    assert counts[0] == 0
    np.testing.assert_allclose(counts[1:], 5_000, atol=4 * np.sqrt(20_000 * 0.25 * 0.75))  # four standard deviations


@given(st.lists(st.integers(-9, 9)), st.lists(st.integers(-9, 9)))
def test_membership_is_that_of_sets(values, members):
    found = is_among(np.array(values, np.int64), np.sort(np.array(members, np.int64)))
    assert found.tolist() == [value in set(members) for value in values]
