"""A random run: distinct documents for every training query, each equally likely, whatever order the tables have."""

import time

import numpy as np
import pytest

from noisyir.mining.settings import MineParams
from noisyir.mining.stages.candidates import CANDIDATES
from noisyir.mining.stages.hard_negatives import MINE
from noisyir.retrieval.settings import RandomRunParams
from noisyir.retrieval.stages.search import RANDOM_RUN
from tests.world import pairs_world


def data(queries=50, documents=400):
    """Queries 0 and 1 are of dev and test, all others of train."""
    asked, read = ["a question"] * queries, [f"text {n}" for n in range(documents)]
    return pairs_world("queries corpus", asked, read, splits={"q0": "dev", "q1": "test"})


def test_every_training_query_gets_top_k_distinct_documents_in_the_order_of_drawing(run_stage_on):
    run = run_stage_on(RANDOM_RUN, RandomRunParams(top_k=30), data())["random_run"]
    by_query = run.group_by("query_id").aggregate([("doc_id", "count_distinct"), ("rank", "list")])
    assert sorted(by_query["query_id"].to_pylist()) == sorted(f"q{n}" for n in range(2, 50))
    assert set(by_query["doc_id_count_distinct"].to_pylist()) == {30}
    assert all(ranks == list(range(1, 31)) for ranks in by_query["rank_list"].to_pylist())
    assert set(run["score"].to_pylist()) == {0.0}


def test_a_small_corpus_is_given_whole(run_stage_on):
    run = run_stage_on(RANDOM_RUN, RandomRunParams(top_k=30), data(documents=7))["random_run"]
    found = run.group_by("query_id").aggregate([("doc_id", "count_distinct"), ("rank", "max")])
    assert set(found["doc_id_count_distinct"].to_pylist()) == set(found["rank_max"].to_pylist()) == {7}
    assert len({tuple(ids) for ids in np.reshape(run["doc_id"].to_pylist(), (48, 7))}) > 40, "orders differ"


def test_every_document_is_equally_likely_at_every_rank(run_stage_on):
    """10,000 draws of 5 out of 20 documents: at each rank 500 of each, with a standard deviation of 21.8."""
    run = run_stage_on(RANDOM_RUN, RandomRunParams(top_k=5), data(queries=10_002, documents=20))["random_run"]
    documents = np.array([int(name[1:]) for name in run["doc_id"].to_pylist()])
    counts = np.zeros((5, 20), int)
    np.add.at(counts, (run["rank"].to_numpy() - 1, documents), 1)
    assert abs(counts - 500).max() < 5 * 21.8


def test_the_seed_alone_decides_and_not_the_order_of_the_tables(run_stage_on):
    given, params, rng = data(), RandomRunParams(top_k=10), np.random.default_rng(3)
    shuffled = {name: table.take(rng.permutation(len(table))) for name, table in given.items()}
    first = run_stage_on(RANDOM_RUN, params, given, seed=1)["random_run"]
    assert run_stage_on(RANDOM_RUN, params, shuffled, seed=1)["random_run"] == first
    assert run_stage_on(RANDOM_RUN, params, given, seed=2)["random_run"] != first


def test_no_training_queries_give_an_empty_run(run_stage_on):
    assert run_stage_on(RANDOM_RUN, RandomRunParams(), data(queries=2))["random_run"].num_rows == 0


def test_mining_draws_from_it_and_never_a_positive(run_stage_on):
    given = data(documents=20)
    known = pairs_world(
        "pairs answers qrels", [""] * 50, pairs=[(f"q{n}", f"d{m}") for n in range(2, 50) for m in range(5)]
    )
    run = run_stage_on(RANDOM_RUN, RandomRunParams(), given)["random_run"]
    params = MineParams(per_query=15)
    found = run_stage_on(CANDIDATES, params.candidates(), {**given, **known, "run": run})
    drawn = run_stage_on(MINE, params, {**found, "pairs": known["pairs"]})["negatives"]
    assert drawn.num_rows == 48 * 15
    assert set(drawn["doc_id"].to_pylist()) == {f"d{n}" for n in range(5, 20)}


@pytest.mark.slow
def test_a_large_run_takes_seconds(run_stage_on):
    began = time.monotonic()
    run_stage_on(RANDOM_RUN, RandomRunParams(), data(queries=100_002, documents=1_000_000))
    assert time.monotonic() - began < 60
