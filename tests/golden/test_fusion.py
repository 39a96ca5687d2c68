"""BM25 and vectors as one ranking, against the papers' equations written out for one query at a time."""

import math

import numpy as np
import pyarrow as pa
import pytest

from noisyir.retrieval import fusion
from noisyir.retrieval.fusion import (
    WEIGHTS,
    candidates_of,
    chosen_weight,
    cross_fitted_weights,
    fused_run,
    fused_scores,
    ndcg,
    values_by_weight,
)
from noisyir.retrieval.measures import per_query, ranked

LEXICAL = {"q1": {"a": 12.0, "b": 9.0, "c": 3.0}, "q2": {"a": 5.0}, "q3": {"x": 2.0, "y": 2.0}}
DENSE = {"q1": {"b": 0.9, "d": 0.7, "a": -0.1}, "q3": {"z": 0.5}, "q4": {"m": 0.2, "n": 0.1}}


def run(found: dict[str, dict[str, float]]) -> pa.Table:
    rows = [
        {"query_id": query, "doc_id": doc, "rank": rank, "score": score}
        for query, docs in found.items()
        for rank, (doc, score) in enumerate(docs.items(), 1)
    ]
    return pa.Table.from_pylist(rows, pa.schema([("query_id", pa.string()), ("doc_id", pa.string()),
                                                 ("rank", pa.int32()), ("score", pa.float32())]))  # fmt: skip


def order(by: str, weight: float = 0.5, top_k: int = 100, lexical=LEXICAL, dense=DENSE) -> dict[str, dict[str, float]]:
    found = candidates_of(run(lexical), run(dense))
    fused: dict[str, dict[str, float]] = {}
    for row in fused_run(found, fused_scores(found, by, weight, 60), top_k).to_pylist():
        assert row["rank"] == len(fused.setdefault(row["query_id"], {})) + 1
        fused[row["query_id"]][row["doc_id"]] = pytest.approx(row["score"], abs=1e-6)
    return fused


def scaled(found: dict[str, float]) -> dict[str, float]:
    least, greatest = min(found.values(), default=0), max(found.values(), default=0)
    return {doc: (s - least) / (greatest - least) if greatest > least else 1.0 for doc, s in found.items()}


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_the_convex_sum_is_bruchs(weight):
    found = order("sum", weight)
    for query in {*LEXICAL, *DENSE}:
        lexical, dense = scaled(LEXICAL.get(query, {})), scaled(DENSE.get(query, {}))
        expected = {d: weight * dense.get(d, 0) + (1 - weight) * lexical.get(d, 0) for d in {*lexical, *dense}}
        assert found[query] == expected
        assert list(found[query]) == sorted(found[query], key=lambda d: -expected[d]) or len(
            set(expected.values())
        ) < len(expected)


def test_reciprocal_ranks_are_cormacks():
    found = order("ranks")
    assert found["q1"] == {"a": 1 / 61 + 1 / 63, "b": 1 / 62 + 1 / 61, "c": 1 / 63, "d": 1 / 62}
    assert list(found["q1"]) == ["b", "a", "d", "c"]


def test_what_one_of_them_did_not_find():
    """A query without hits in one keeps the other's order; of equal scores the better rank comes first, then the id."""
    found = order("sum")
    assert list(found["q2"]) == ["a"] and list(found["q4"]) == ["m", "n"]
    assert list(found["q3"]) == ["x", "z", "y"]  # 0.5 each; ranks 1, 1, 2
    assert list(order("sum", weight=1.0)["q2"]) == ["a"]  # 0, and still found
    assert order("sum", top_k=1)["q1"] == {"b": 0.5 + 0.5 * 6 / 9}
    assert order("sum", lexical={}, dense={}) == {}
    assert list(order("ranks", dense={})["q1"]) == ["a", "b", "c"]


def test_ndcg_is_that_of_ir_measures():
    rng = np.random.default_rng(0)
    docs = [f"d{n}" for n in range(15)]
    runs = {f"q{n}": {doc: float(-rank) for rank, doc in enumerate(rng.permutation(docs))} for n in range(20)}
    grades = {q: {doc: int(rng.integers(0, 3)) for doc in rng.permutation(docs)[:6]} for q in runs}
    grades = {q: {**found, "unfound": 1} for q, found in grades.items()}
    expected = per_query(ranked(run(runs), list(runs)), dict(sorted(grades.items())), ["nDCG@10"])
    names = sorted(grades)
    best = np.array([[grades[q].get(doc, 0) for doc in list(runs[q])[:10]] for q in names], float)
    ideal = np.array([sorted(grades[q].values(), reverse=True) for q in names], float)
    by_query = dict(zip(expected["query_id"].to_pylist(), expected["value"].to_pylist(), strict=True))
    assert ndcg(best, ideal) == pytest.approx([by_query[q] for q in names])


def test_the_weight_is_that_of_the_greatest_mean_and_its_interval_widens_with_doubt():
    rng = np.random.default_rng(1)
    curve = 1 - (WEIGHTS - 0.3) ** 2
    sure = chosen_weight(curve[:, None] + np.zeros(50), np.arange(50), rng)
    assert sure == (pytest.approx(0.3),) * 3
    noisy = curve[:, None] + rng.normal(0, 0.3, (len(WEIGHTS), 50))
    found = chosen_weight(noisy, np.arange(50), rng)
    assert found.low <= found.value <= found.high and found.high - found.low > 0.1
    assert found.value == WEIGHTS[np.argmax(noisy.mean(axis=1))]
    assert chosen_weight(np.ones((len(WEIGHTS), 5)), np.arange(5), rng).value == 0.5  # nothing tells
    one_draw = chosen_weight(noisy, np.zeros(50, int), rng)
    assert one_draw.low == one_draw.high == one_draw.value  # queries of one document are one draw, which cannot vary


def test_a_dev_query_is_ranked_by_the_weight_that_the_others_prefer():
    """Where queries tell nothing of each other, the chosen weight flatters them, and the cross-fitted one does not."""
    rng, groups, flattered, honest = np.random.default_rng(3), np.arange(100) // 2, [], []
    for _ in range(200):
        values = rng.normal(0, 1, (len(WEIGHTS), 50))[:, groups]
        crossed = cross_fitted_weights(values, groups, rng)
        assert (crossed[::2] == crossed[1::2]).all()  # queries of one document have their weight from others
        flattered.append(values.mean(axis=1).max())
        honest.append(values[np.searchsorted(WEIGHTS, crossed), np.arange(100)].mean())
    assert np.mean(flattered) > 0.2 and abs(np.mean(honest)) < 0.04  # 3 standard errors
    assert (cross_fitted_weights(values[:, :3], np.zeros(3, int), rng) == 0.5).all()  # one group tells nothing
    two = cross_fitted_weights(np.eye(len(WEIGHTS))[:, [3, 9]], np.array([0, 1]), rng)
    assert two.tolist() == [WEIGHTS[9], WEIGHTS[3]]


def test_the_interval_covers_the_best_weight():
    """Of 200 draws of 60 queries, each with its own best weight, it covers the best of all in at least 90 %."""
    rng, covered = np.random.default_rng(2), 0
    for _ in range(200):
        best = rng.normal(0.4, 0.25, 60)
        values = -((WEIGHTS[:, None] - best) ** 2)
        found = chosen_weight(values, np.arange(60), rng, draws=300)
        covered += found.low - 0.025 <= 0.4 <= found.high + 0.025
    assert covered >= 180 and not math.isnan(found.value)


def test_each_weights_value_is_that_of_its_fused_run_and_few_rows_are_sorted_for_it(monkeypatch):
    rng, queries = np.random.default_rng(0), [f"q{number}" for number in range(7)]

    def drawn(size: int) -> dict[str, dict[str, float]]:
        best_first = {query: np.sort(rng.integers(0, 30, size) / 4)[::-1] for query in queries}  # with equal scores
        names = {query: rng.permutation(200)[:size] for query in queries}
        return {query: {f"d{n}": s for n, s in zip(names[query], best_first[query], strict=True)} for query in queries}

    found = candidates_of(run(drawn(100)), run(drawn(4) | {"q0": {}}))
    relevance, ideal = rng.integers(0, 2, len(found.query)) * 1.0, np.ones((7, 10))
    expected = []
    for weight in WEIGHTS:
        best = fused_run(found, fused_scores(found, "sum", float(weight), 60), 10).to_pylist()
        grades = dict(
            zip(zip(found.query_ids.to_pylist(), found.doc_ids.to_pylist(), strict=True), relevance, strict=True)
        )
        gains = [[grades[row["query_id"], row["doc_id"]] for row in best if row["query_id"] == one] for one in queries]
        expected.append(ndcg(np.array(gains), ideal))
    ordered, sizes = fusion.fused_order, []
    monkeypatch.setattr(fusion, "fused_order", lambda *given: sizes.append(len(given[2])) or ordered(*given))
    np.testing.assert_array_equal(values_by_weight(found, relevance, ideal), expected)
    assert len(sizes) == len(WEIGHTS) and sum(sizes) < len(WEIGHTS) * len(found.query) / 3
