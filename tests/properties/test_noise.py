"""Mismatched pairs, uniform, near and in groups: what holds for every pool, rate and seed."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from noisyir.base.errors import DataError
from noisyir.corruption.kinds import ChosenPairs
from noisyir.corruption.kinds.other_documents import Group, Neighbour, draw_mismatches, nearest
from noisyir.data.draws import choose_pairs, is_among
from tests.refusals import refuses

seeds = st.integers(0, 2**32)


def nothing(rows, documents):
    return np.zeros(len(rows), bool)


def to_replace(query, pool, known, is_relevant=nothing, document=None, vectors=None):
    """Pairs that get wrong documents of a pool of so many."""
    return ChosenPairs(query, query if document is None else document, known, is_relevant, [""] * pool, lambda: vectors)


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
        with refuses(DataError, "corruption.no_wrong_document"):
            draw_mismatches(to_replace(query, pool, known_array, is_relevant), np.random.default_rng(seed))
        return
    drawn = draw_mismatches(to_replace(query, pool, known_array, is_relevant), np.random.default_rng(seed))
    assert all(document in wrong(asked) for asked, document in zip(query, drawn, strict=True))
    assert len(set(zip(query.tolist(), drawn.tolist(), strict=True))) == len(query)


def test_every_wrong_document_is_equally_likely():
    known = np.array([[asked, 0] for asked in range(20_000)])
    drawn = draw_mismatches(to_replace(np.arange(20_000), 5, known), np.random.default_rng(0))
    counts = np.bincount(drawn, minlength=5)
    assert counts[0] == 0
    np.testing.assert_allclose(counts[1:], 5_000, atol=4 * np.sqrt(20_000 * 0.25 * 0.75))  # four standard deviations


def test_numbers_beyond_32_bits_are_told_apart():
    query, pool = np.array([2**21 + 1], np.int32), 2**12
    known = np.array([[2**21 + 1, document] for document in range(pool) if document != 7], np.int32)
    drawn = draw_mismatches(to_replace(query, pool, known), np.random.default_rng(0))
    assert drawn.tolist() == [7]


groups = st.lists(st.integers(-1, 6), max_size=120).map(lambda numbers: np.array(numbers, np.int64))


@given(groups, st.floats(0, 1), st.floats(0, 1), seeds)
def test_group_noise_keeps_to_its_groups_and_their_rate_or_says_the_highest_possible(group, rate, group_rate, seed):
    wanted, grouped = round(rate * len(group)), (group >= 0).sum()
    if wanted > round(group_rate * grouped):
        with refuses(DataError, f"corruption.{'rate_too_high_for_groups' if grouped else 'no_sources'}"):
            Group(rate=rate, group_rate=group_rate).choose(group, np.random.default_rng(seed))
        return
    chosen = Group(rate=rate, group_rate=group_rate).choose(group, np.random.default_rng(seed))
    assert len(chosen) == len(set(chosen.tolist())) == wanted
    assert (np.diff(chosen) > 0).all() and (group[chosen] >= 0).all()
    shares = [(group[chosen] == number).sum() - group_rate * (group == number).sum() for number in set(group[chosen])]
    assert all(share <= 1 for share in shares), "no group has more than its rate"
    assert sum(share < -1 for share in shares) <= 1, "one group alone, the last, may have less"


def test_the_highest_rate_named_can_be_asked_for():
    group = np.repeat([0, 1, -1], [333, 333, 335])
    with refuses(DataError, "corruption.rate_too_high_for_groups", sourced="666", highest=0.5324):
        Group(rate=0.6, group_rate=0.8).choose(group, np.random.default_rng(0))
    chosen = Group(rate=0.5324, group_rate=0.8).choose(group, np.random.default_rng(0))
    assert len(chosen) == 533 and (group[chosen] >= 0).all()


def test_every_group_may_be_a_noisy_one():
    group = np.repeat(np.arange(4), 25)
    drawn = {
        int(group[Group(rate=0.2, group_rate=0.8).choose(group, np.random.default_rng(seed))][0]) for seed in range(40)
    }
    assert drawn == {0, 1, 2, 3}


def by_distance(vectors, document):
    """Every document, the nearest first, in plain Python; small whole numbers make every product exact."""
    products = [sum(a * b for a, b in zip(vector, vectors[document], strict=True)) for vector in vectors.tolist()]
    return sorted(range(len(vectors)), key=lambda other: (-products[other], other))


@given(
    st.integers(1, 60),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 59)), max_size=20),
    st.sets(st.tuples(st.integers(0, 4), st.integers(0, 59)), max_size=60),
    st.integers(1, 4),
    st.integers(2, 9),
    seeds,
)
def test_a_neighbour_is_among_the_nearest_that_are_wrong_and_new_or_there_is_none(
    pool, asked, known, neighbours, divisor, seed
):
    query = np.array([q for q, _ in asked], np.int64)
    document = np.array([d % pool for _, d in asked], np.int64)
    known_array = np.array(sorted(pair for pair in known if pair[1] < pool), np.int64).reshape(-1, 2)
    vectors = np.random.default_rng(seed).integers(-9, 10, (pool, 3)).astype(np.float32)

    def is_relevant(rows, documents):
        return (query[rows] + documents) % divisor == 0

    def draw():
        given = to_replace(query, pool, known_array, is_relevant, document, vectors)
        return Neighbour(neighbours=neighbours).replace(given, np.random.default_rng(seed))

    pairs = list(zip(query.tolist(), document.tolist(), strict=True))
    taken = set(pairs) | set(map(tuple, known_array.tolist()))

    def wrong(q, own):
        return [d for d in by_distance(vectors, own) if (q, d) not in taken and (q + d) % divisor]

    if any(len(wrong(q, own)) < query.tolist().count(q) for q, own in pairs):
        with refuses(DataError, "corruption.no_wrong_document"):
            draw()
        return
    drawn = draw()
    for (q, own), document_drawn in zip(pairs, drawn.tolist(), strict=True):
        free = wrong(q, own)
        farthest = free[:neighbours][-1]
        assert document_drawn in free
        assert vectors[document_drawn] @ vectors[own] >= vectors[farthest] @ vectors[own], "equals may stand for it"
        taken.add((q, document_drawn))
    np.testing.assert_array_equal(drawn, draw(), "the seed alone decides")


def test_every_near_document_is_equally_likely_and_no_far_one_is_drawn():
    vectors = np.array([[5, 0], [4, 1], [3, 2], [2, 3], [1, 4], [0, 5]], np.float32)
    known = np.array([[asked, 2] for asked in range(9_000)])
    given = to_replace(np.arange(9_000), 6, known, nothing, np.zeros(9_000, np.int64), vectors)
    drawn = Neighbour(neighbours=3).replace(given, np.random.default_rng(0))
    counts = np.bincount(drawn, minlength=6)
    assert counts[[0, 2, 5]].tolist() == [0, 0, 0], "itself, the relevant one, the fourth nearest"
    np.testing.assert_allclose(counts[[1, 3, 4]], 3_000, atol=4 * np.sqrt(9_000 / 3 * 2 / 3))  # four deviations


@given(st.integers(1, 50), st.integers(1, 50), seeds)
def test_the_nearest_are_those_of_plain_python(pool, depth, seed):
    rng = np.random.default_rng(seed)
    vectors, of = rng.integers(-9, 10, (pool, 3)).astype(np.float32), rng.integers(pool, size=7)
    found = nearest(vectors, of, min(depth, pool))
    for row, document in zip(found.tolist(), of.tolist(), strict=True):
        products = vectors @ vectors[document]
        expected = by_distance(vectors, document)[: len(row)]
        assert products[row].tolist() == products[expected].tolist()
        assert len(set(row)) == len(row) and row == sorted(row, key=lambda other: (-products[other], other))


@given(st.lists(st.integers(-9, 9)), st.lists(st.integers(-9, 9)))
def test_membership_is_that_of_sets(values, members):
    found = is_among(np.array(values, np.int64), np.sort(np.array(members, np.int64)))
    assert found.tolist() == [value in set(members) for value in values]
