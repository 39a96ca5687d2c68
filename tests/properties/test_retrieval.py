"""Invariants of batching, drawing, ranking and exact search."""

import faiss
import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from noisyir.mining.draw import draw
from noisyir.models.text_tokenizer import token_batches
from noisyir.retrieval.texts import Hits, run_table
from noisyir.retrieval.vector_search import search

seeds = st.integers(0, 2**32 - 1)


@given(st.lists(st.integers(0, 600), min_size=1, max_size=200), st.integers(1, 4000))
def test_batches_hold_every_text_once_and_keep_the_budget_unless_one_text_is_larger(lengths, budget):
    lengths = np.array(lengths)
    batches = list(token_batches(lengths, budget))
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    assert all(len(rows) == 1 or len(rows) * lengths[rows].max() <= budget for rows in batches)


@given(st.lists(st.tuples(st.integers(0, 6), st.sampled_from([0.0, 0.5, 3.0])), max_size=60), st.integers(0, 5), seeds)
def test_each_query_draws_distinct_candidates_of_its_own_as_many_as_it_can(candidates, per_query, seed):
    queries = np.array([query for query, _ in candidates], np.int64)
    weights = np.array([weight for _, weight in candidates], float)
    with np.errstate(divide="ignore"):
        tiers = np.log(weights)[None]
    drawn = draw(tiers, queries, np.arange(len(queries)), per_query, np.random.default_rng(seed))
    assert len(set(drawn.rows.tolist())) == len(drawn.rows) and (weights[drawn.rows] > 0).all()
    for query in set(queries.tolist()):
        mine = queries[drawn.rows] == query
        assert drawn.draw[mine].tolist() == list(range(min(per_query, int((weights[queries == query] > 0).sum()))))


@given(st.lists(st.integers(0, 5), max_size=20))
def test_ranks_count_from_1_within_each_query(counts):
    total = sum(counts)
    hits = Hits(np.array(counts, int), pa.array(map(str, range(total)), pa.string()), np.zeros(total, np.float32))
    table = run_table(pa.array([f"q{n}" for n in range(len(counts))], pa.string()), hits)
    expected = [(f"q{n}", rank) for n, count in enumerate(counts) for rank in range(1, count + 1)]
    assert list(zip(table["query_id"].to_pylist(), table["rank"].to_pylist(), strict=True)) == expected


@given(st.integers(1, 60), st.integers(1, 30), st.integers(1, 70), seeds)
def test_flat_search_is_brute_force(rows, queries, top_k, seed):
    rng = np.random.default_rng(seed)
    vectors = rng.integers(-8, 9, (rows, 4)).astype(np.float32)  # small integers: every inner product is exact
    asked = rng.integers(-8, 9, (queries, 4)).astype(np.float32)
    index = faiss.IndexFlatIP(4)
    index.add(vectors)
    hits = search(index, asked, pa.array([str(row) for row in range(rows)]), top_k)
    scores = asked @ vectors.T
    kept = min(top_k, rows)
    assert hits.counts.tolist() == [kept] * queries
    np.testing.assert_array_equal(hits.scores.reshape(queries, kept), -np.sort(-scores, axis=1)[:, :kept])
    found = np.array(hits.doc_ids.to_pylist(), int).reshape(queries, kept)
    np.testing.assert_array_equal(np.take_along_axis(scores, found, axis=1), hits.scores.reshape(queries, kept))
    for row, score in zip(found, hits.scores.reshape(queries, kept), strict=True):
        assert all(a < b for a, b, x, y in zip(row, row[1:], score, score[1:], strict=False) if x == y)
