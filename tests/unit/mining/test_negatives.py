"""Negatives of many queries: what is drawn a block at a time is what each query by itself would give."""

import numpy as np

from noisyir.mining.candidates import Candidates
from noisyir.mining.settings import MineParams
from noisyir.mining.stages.hard_negatives import negatives

RANDOM = np.random.default_rng(0)


def many(queries, most):
    """Queries with 1 to `most` candidates each, in the order of their ids, ranked at random."""
    sizes = RANDOM.integers(1, most + 1, queries)
    query = np.repeat(np.arange(queries), sizes)
    rank = np.concatenate([RANDOM.permutation(size) + 1 for size in sizes])
    score, similarity = RANDOM.normal(size=(2, len(query)))
    one = np.ones(len(query))
    return Candidates(query, np.arange(len(query)), rank, score, one, similarity, one, one, one), sizes


def mined(candidates, **params):
    return negatives(candidates, MineParams(**params), np.random.default_rng(1), np.random.default_rng(2))


def test_blocks_hold_whole_queries_each_row_once():
    candidates, sizes = many(50, 9)
    for size in (1, 7, 40, 10_000):
        blocks = list(candidates.blocks(size))
        assert [start for start, _ in blocks] == np.cumsum([0, *(len(block) for _, block in blocks[:-1])]).tolist()
        assert np.concatenate([block.document for _, block in blocks]).tolist() == candidates.document.tolist()
        found = np.concatenate([np.bincount(block.query) for _, block in blocks])
        assert found.tolist() == sizes.tolist() and max(len(block) for _, block in blocks) < size + 9
    assert list(candidates.take(slice(0)).blocks(5)) == []


def test_each_query_of_many_gets_its_best_ranks_and_weights_are_of_its_own():
    candidates, sizes = many(2000, 80)  # more than one block
    assert len(candidates) > 70_000
    drawn = mined(candidates, per_query=5, sampler="topk")
    assert (drawn.draw == candidates.rank[drawn.rows] - 1).all()
    assert np.bincount(candidates.query[drawn.rows]).tolist() == np.minimum(sizes, 5).tolist()
    weighed = mined(candidates, per_query=80, sampler="softmax")
    assert sorted(weighed.rows) == list(range(len(candidates)))
    total = np.bincount(candidates.query, np.exp(candidates.score))
    expected = np.exp(candidates.score) / total[candidates.query]
    np.testing.assert_allclose(weighed.weight, expected[weighed.rows])


def test_each_tiers_share_is_counted_over_all_blocks():
    candidates, sizes = many(2000, 80)
    drawn = mined(candidates, per_query=3, sampler={"kind": "trisampler", "transitional": 2})
    assert list(drawn.by) == ["trisampler", "eq_5", "rank"]
    assert drawn.by["rank"] == (sizes > 2).sum() and sum(drawn.by.values()) == np.minimum(sizes, 3).sum()
    assert drawn.by["trisampler"] == (drawn.weight > 0).sum() > 0
