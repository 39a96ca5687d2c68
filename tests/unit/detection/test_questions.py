"""Which pairs a judge is asked about: the worthiest, and beside them a sample whose chances are known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisyir.detection.calibration.queue import choose_questions, doubt, harm


def test_doubt_is_greatest_at_a_half():
    np.testing.assert_allclose(doubt(np.array([0.0, 0.1, 0.5, 0.9, 1.0])), [0, 0.36, 1, 0.36, 0])


def test_harm_is_the_query_s_share_and_the_document_s_reach():
    query = np.array([0, 1, 1, 2, 3, 4])
    document = np.array([0, 1, 2, 3, 3, 3])
    np.testing.assert_allclose(harm(query, document), [1, 0.5, 0.5, 2, 2, 2])


def choose(worth, judged, count, seed=0, random=0.25, checked=0.5):
    rng = np.random.default_rng(seed)
    return choose_questions(worth, judged, count, random_share=random, checked_share=checked, rng=rng)


@given(
    st.integers(1, 60), st.integers(1, 80), st.floats(0, 1), st.floats(0, 1), st.integers(0, 3), st.integers(0, 10**6)
)
def test_no_pair_is_asked_twice_and_no_more_than_there_are(pairs, count, random, checked, people, seed):
    rng = np.random.default_rng(seed)
    judged = rng.integers(0, people + 1, pairs)
    found = choose(rng.random(pairs), judged, count, seed, random, checked)
    rows = found.rows
    assert len(set(rows.tolist())) == len(rows) == len(found.draws) <= min(count, pairs)
    assert len(rows) == min(count, pairs) or (judged > 0).any()
    assert judged[found.checked].all() and not judged[found.teaching].any()
    larger = choose(rng.random(pairs), judged, count + 5, seed, random, checked)
    assert found.random.tolist() == larger.random[: len(found.random)].tolist()


def test_the_worthiest_are_asked_first_and_people_s_random_ones_are_checked_first():
    worth = np.arange(100) / 100
    judged = np.zeros(100, int)
    judged[90:] = 1
    judged[:5] = 2
    found = choose(worth, judged, 20)
    assert (len(found.random), len(found.checked), len(found.teaching)) == (5, 10, 5)
    assert found.draws == ["random"] * 5 + [""] * 10 + ["teaching"] * 5
    random = set(found.random.tolist())
    assert set(found.checked[: 5 - len(random & set(range(5)))].tolist()) == set(range(5)) - random
    assert found.teaching.tolist() == [row for row in range(89, 0, -1) if row not in random][:5]


def test_each_pair_is_as_likely_as_any_other_to_be_drawn():
    worth = np.arange(40) / 40
    drawn = np.zeros(40)
    for seed in range(4000):
        drawn[choose(worth, np.zeros(40, int), 16, seed).random] += 1
    assert abs(drawn / 4000 - 0.1).max() < 4 * np.sqrt(0.1 * 0.9 / 4000)


@pytest.mark.parametrize("count", [10, 11, 500])
def test_where_all_are_asked_all_are_random(count):
    found = choose(np.random.default_rng(0).random(10), np.ones(10, int), count)
    assert sorted(found.random.tolist()) == list(range(10)) and set(found.draws) == {"random"}
