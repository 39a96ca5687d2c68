"""Ranking measures as arithmetic."""

from math import log2

import pyarrow as pa
import pytest

from noisyir.base.errors import ConfigError
from noisyir.retrieval.measures import judged, parse, per_query, ranked
from tests.refusals import refuses


def run_of(**rankings: list[str]) -> pa.Table:
    rows = [(query, doc, rank, 1.0) for query, docs in rankings.items() for rank, doc in enumerate(docs, 1)]
    return pa.Table.from_pylist([dict(zip(("query_id", "doc_id", "rank", "score"), row, strict=True)) for row in rows])


def value(run: pa.Table, judgements: dict[str, dict[str, int]], measure: str, query: str = "q") -> float:
    table = per_query(ranked(run, list(judgements)), judgements, [measure])
    return dict(zip(table["query_id"].to_pylist(), table["value"].to_pylist(), strict=True))[query]


def test_ndcg_is_discounted_gain_over_the_ideal_order():
    judgements = {"q": {"a": 2, "b": 1, "c": 1, "x": 0}}
    got = value(run_of(q=["x", "b", "a"]), judgements, "nDCG@3")
    gain = 0 / log2(2) + 1 / log2(3) + 2 / log2(4)
    ideal = 2 / log2(2) + 1 / log2(3) + 1 / log2(4)
    assert got == pytest.approx(gain / ideal, rel=1e-12)


def test_reciprocal_rank_is_one_over_the_first_relevant_rank_within_the_cutoff():
    judgements = {"q": {"a": 1, "b": 1}}
    assert value(run_of(q=["x", "y", "b", "a"]), judgements, "RR@10") == pytest.approx(1 / 3)
    assert value(run_of(q=[*"0123456789", "a"]), judgements, "RR@10") == 0


def test_recall_is_the_share_of_the_relevant_documents():
    judgements = {"q": {"a": 1, "b": 2, "c": 1}}
    assert value(run_of(q=["a", "x", "c", "b"]), judgements, "R@3") == pytest.approx(2 / 3)


@pytest.mark.parametrize("measure", ["nDCG@10", "RR@10", "R@100", "AP", "P@1"])
def test_equal_scores_never_reorder_the_ranks(measure: str):
    judgements = {"q": {"b": 1}, "p": {"b": 1}}
    run = run_of(q=["b", "z", "a"], p=["z", "a", "b"])  # every score is 1.0; other rules sort by document id
    first, third = {"nDCG@10": (1, 1 / log2(4)), "R@100": (1, 1), "P@1": (1, 0)}.get(measure, (1, 1 / 3))
    assert value(run, judgements, measure, "q") == pytest.approx(first)
    assert value(run, judgements, measure, "p") == pytest.approx(third)


def test_a_query_without_hits_counts_zero_and_one_without_relevant_documents_is_not_judged():
    qrels = pa.table({"query_id": ["q", "p", "r"], "doc_id": ["a", "a", "a"], "relevance": [1, 1, 0]})
    judgements = judged(qrels, ["q", "p", "r", "unjudged"])
    assert list(judgements) == ["p", "q"]
    table = per_query(ranked(run_of(q=["a"], r=["a"]), list(judgements)), judgements, ["RR@10", "nDCG@10"])
    assert table.to_pydict()["value"] == [0, 1, 0, 1]


def test_ranks_are_counted_again_where_a_hit_is_the_query_itself():
    run = run_of(q=["q", "x", "a"])
    assert value(run, {"q": {"a": 1}}, "RR@10") == pytest.approx(1 / 3)
    kept = ranked(run, ["q"], ignore_same_id=True)
    assert kept["doc_id"].to_pylist() == ["x", "a"] and kept["rank"].to_pylist() == [1, 2]


def test_rows_may_come_in_any_order():
    run = run_of(q=["x", "a"], p=["a"]).take([1, 2, 0])
    assert value(run, {"q": {"a": 1}, "p": {"a": 1}}, "RR@10") == 0.5


@pytest.mark.parametrize("name", ["nDGC@10", "R", "nope", "nDCG@", "RR@10; import os", ""])
def test_an_unknown_measure_is_named_with_examples(name: str):
    with refuses(ConfigError, "retrieval.unknown_measure"):
        parse(name)


def test_a_misspelt_measure_gets_a_suggestion():
    with refuses(ConfigError, "retrieval.unknown_measure"):
        parse("nDGC@10")
