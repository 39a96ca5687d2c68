"""What holds of every sampler: shifts and scales, exact chances, the order of rows, and queries without mass."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_np
from scipy import stats

from noisyir.mining.candidates import Candidates
from noisyir.mining.draw import draw, shares
from noisyir.mining.samplers import Debiased, Sampler, Simans, Softmax, by_deviation, in_triangle, near_positive
from noisyir.mining.settings import MineParams
from tests.scored import scored

SAMPLERS = tuple(Sampler.variants())


@st.composite
def tables(draw_value):
    """Candidates of up to four queries, each document at most once a query."""
    pairs = draw_value(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 8)), unique=True, max_size=30))
    query, document = np.array(pairs, np.int64).reshape(-1, 2).T
    numbers = st_np.arrays(np.float64, (3, len(query)), elements=st.floats(-1e4, 1e4, width=32))
    norms = st_np.arrays(np.float64, (3, len(query)), elements=st.floats(0, 100, width=32))
    rank = np.arange(1, len(query) + 1)
    return Candidates(query, document, rank, *draw_value(numbers), *draw_value(norms))


def mined(candidates, params, seed=0):
    """(query, document, tier) of each draw, in order."""
    weights = params.sampler.with_fallbacks(candidates, params.per_query, np.random.default_rng([seed, 1]))
    found = draw(
        list(weights.values()), candidates.query, candidates.document, params.per_query, np.random.default_rng(seed)
    )
    names = (candidates.query[found.rows], candidates.document[found.rows], found.tier)
    return list(zip(*map(np.ndarray.tolist, names), strict=True))


def settings(sampler, how="two_stage", doc_sim="dot", scale=1.0):
    three = {"draw": how, "doc_sim": doc_sim, "scale": scale} if sampler == "trisampler" else {}
    return MineParams(per_query=3, sampler={"kind": sampler, **three})


any_settings = st.builds(
    settings,
    st.sampled_from(SAMPLERS),
    st.sampled_from(["two_stage", "one_shot"]),
    st.sampled_from(["dot", "cosine", "norm_matched"]),
    st.sampled_from([1.0, 20.0, "std"]),
)


@given(tables(), any_settings)
def test_every_query_gets_what_it_can_whatever_the_scores(candidates, params):
    drawn = mined(candidates, params)
    per_query = Counter(query for query, _, _ in drawn)
    assert per_query == {query: min(3, count) for query, count in Counter(candidates.query.tolist()).items()}
    assert len({(query, document) for query, document, _ in drawn}) == len(drawn)


@given(tables(), any_settings, st.randoms(use_true_random=False))
def test_the_same_seed_draws_the_same_in_whatever_order_the_rows_come(candidates, params, random):
    order = np.array(random.sample(range(len(candidates)), len(candidates)), np.int64)
    # exact: sums over a query's rows, which "std" takes, depend on their order in the last bit
    assume(getattr(params.sampler, "scale", None) != "std")
    assert mined(candidates.take(order), params) == mined(candidates, params)


@given(tables(), any_settings)
def test_weights_are_a_distribution_for_each_query(candidates, params):
    own = next(iter(params.sampler.with_fallbacks(candidates, params.per_query, np.random.default_rng(0)).values()))
    assert not np.isnan(own).any() and not np.isposinf(own).any()
    found = shares(own, candidates.query)
    assert (found >= 0).all()
    for query in np.unique(candidates.query):
        total = found[candidates.query == query].sum()
        assert total == pytest.approx(1) or (total == 0 and np.isneginf(own[candidates.query == query]).all())


small = st_np.arrays(np.float64, 6, elements=st.floats(-50, 50, width=32))
ONE_QUERY, RANK = np.zeros(6, np.int64), np.arange(1, 7)


@given(small, st.floats(-50, 50, width=32), st.floats(-100, 100, width=32))
def test_weights_do_not_change_when_all_scores_of_a_query_rise_alike(score, positive, shift):
    """Of softmax this holds for the shares; of Eq. 6 if the documents' similarities rise with them."""
    own, moved = np.full(6, positive), np.full(6, positive) + shift
    for sampler in (
        lambda s, p: Softmax(temperature=2.0).weights(scored(s, p)),
        lambda s, p: Debiased(temperature=2.0).weights(scored(s, p)),
        lambda s, p: Simans(a=0.5, b=1.0).weights(scored(s, p)),
        lambda s, p: near_positive(s, p),
        lambda s, p: near_positive(s, p, by_deviation(ONE_QUERY, s)),
    ):
        if np.std(score) < 1e-3:
            continue
        np.testing.assert_allclose(
            shares(sampler(score, own), ONE_QUERY), shares(sampler(score + shift, moved), ONE_QUERY), atol=1e-6
        )


@given(small, small, st.floats(0.125, 8, width=32))
def test_what_a_scale_does(score, similarity, factor):
    """Ranks do not feel it, Eq. 6 cancels it, Eq. 5 feels it unless in standard deviations; a temperature undoes it."""
    positive = np.full(6, 7.0)
    inside, scaled = (in_triangle(by * similarity, by * score) for by in (1.0, factor))
    np.testing.assert_allclose(shares(scaled, ONE_QUERY), shares(inside, ONE_QUERY), atol=1e-9)
    by_softmax = Softmax(temperature=factor).weights(scored(factor * score, positive))
    np.testing.assert_allclose(by_softmax, Softmax().weights(scored(score, positive)), atol=1e-9)
    near = near_positive(score, positive)
    np.testing.assert_allclose(near_positive(factor * score, factor * positive), factor**2 * near, atol=1e-9)
    if np.std(score) > 1e-3:
        in_deviations = (
            near_positive(by * score, by * positive, by_deviation(ONE_QUERY, by * score)) for by in (1.0, factor)
        )
        np.testing.assert_allclose(*in_deviations, rtol=1e-6)


def test_draws_have_exactly_the_chances_of_drawing_one_after_the_other():
    """All ordered pairs out of four candidates: P(i, j) = w_i / W * w_j / (W - w_i)."""
    weights, many = np.array([1.0, 2.0, 0.5, 4.0]), 40_000
    query, document = np.repeat(np.arange(many), 4), np.tile(np.arange(4), many)
    drawn = draw(np.tile(np.log(weights), many)[None], query, document, 2, np.random.default_rng(1))
    pairs = Counter(map(tuple, document[drawn.rows].reshape(many, 2).tolist()))
    total = weights.sum()
    orders = list(permutations(range(4), 2))
    expected = [many * weights[i] / total * weights[j] / (total - weights[i]) for i, j in orders]
    assert stats.chisquare([pairs[order] for order in orders], expected).pvalue > 0.01
    included = np.bincount(document[drawn.rows], minlength=4)
    chances = [sum(e for order, e in zip(orders, expected, strict=True) if i in order) for i in range(4)]
    assert stats.chisquare(included, chances).pvalue > 0.01


def test_two_stages_have_the_chances_of_drawing_a_set_and_then_among_it():
    """Three candidates, two transitional, one final: sum over the sets T of P(T) * w2_i / sum of w2 over T."""
    near, inside, many = np.array([1.0, 0.5, 0.25]), np.array([1.0, 2.0, 4.0]), 40_000
    gaps = 2 * np.sqrt(-np.log(near))  # Eq. 5 gives `near`
    columns = (10 + gaps, 10.0, 10 + gaps + inside, 1.0, 1.0, 1.0)
    query, document = np.repeat(np.arange(many), 3), np.tile(np.arange(3), many)
    repeated = (np.tile(np.broadcast_to(column, 3), many) for column in columns)
    found = Candidates(query, document, document + 1, *repeated)
    params = MineParams(per_query=1, sampler={"kind": "trisampler", "transitional": 2})
    finals = Counter(document for _, document, _ in mined(found, params))
    chances = np.zeros(3)
    for first, second in permutations(range(3), 2):
        of_set = near[first] / near.sum() * near[second] / (near.sum() - near[first])
        for final in (first, second):
            chances[final] += of_set * inside[final] / (inside[first] + inside[second])
    assert chances.sum() == pytest.approx(1)
    assert stats.chisquare([finals[i] for i in range(3)], many * chances).pvalue > 0.01


@given(tables(), st.floats(-10, 10), st.floats(0, 5), st.floats(0, 1), st.floats(1, 180))
def test_filters_combine_and_a_stricter_margin_keeps_fewer(candidates, ceiling, margin, share, degrees):
    def kept(factor):
        filters = {
            "max_score": ceiling / factor if ceiling > 0 else ceiling * factor,
            "absolute_margin": margin * factor,
            "relative_margin": share * factor,
            "max_angle": degrees / factor,
        }
        chosen = MineParams(filters=filters).filters
        assert list(chosen) == list(filters)
        return np.logical_and.reduce([one.keeps(candidates) for one in chosen.values()])

    loose, strict = kept(1.0), kept(2.0)
    assert (strict <= loose).all()
    assert (candidates.score[loose] <= candidates.positive_score[loose]).all()
