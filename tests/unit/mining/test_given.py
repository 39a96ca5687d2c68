"""The data's own negatives are a run: in its order, perhaps with another run behind them."""

import pytest

from noisyir.base.errors import DataError
from noisyir.data.artifacts import GIVEN_NEGATIVES
from noisyir.methods.experiments import from_settings
from noisyir.mining.settings import EVERY, GivenRunParams, MineParams
from noisyir.mining.stages.given import RUN_OF_GIVEN
from noisyir.retrieval.artifacts import BM25_RUN
from tests.refusals import refuses
from tests.world import pairs_world, table


def world(*given):
    queries = {"q1": "one", "q2": "two", "dev": "held out"}
    read = pairs_world("queries", queries, splits={"dev": "dev"})
    return {**read, "given_negatives": table(GIVEN_NEGATIVES, given)}


def test_given_negatives_come_first_in_the_order_of_the_data(run_stage_on):
    run = table(BM25_RUN, [("q1", "d1", 1, 9.0), ("q1", "z", 2, 8.0), ("q1", "d3", 3, 7.0), ("q2", "d1", 1, 1.0)])
    given = world(("q1", "z"), ("q2", "b"), ("q1", "a"), ("dev", "d1"))
    alone = run_stage_on(RUN_OF_GIVEN, GivenRunParams(), given)["given_run"]
    found = sorted((row["query_id"], row["rank"], row["doc_id"]) for row in alone.to_pylist())
    assert found == [("q1", 1, "z"), ("q1", 2, "a"), ("q2", 1, "b")]
    both = run_stage_on(RUN_OF_GIVEN, GivenRunParams(rank_from=2), given | {"run": run})["given_run"]
    found = sorted((row["query_id"], row["rank"], row["doc_id"]) for row in both.to_pylist())
    assert found == [("q1", 1, "z"), ("q1", 2, "a"), ("q1", 3, "d3"), ("q2", 1, "b")]


def test_data_without_negatives_is_refused(run_stage_on):
    with refuses(DataError, "mining.no_given_negatives"):
        run_stage_on(RUN_OF_GIVEN, GivenRunParams(), world(("dev", "d1")))


@pytest.mark.parametrize(("asked", "count"), [({}, EVERY), ({"per_query": 2}, 2), ({"per_query": 0}, 0)])
def test_all_given_negatives_are_mined_unless_a_number_is_set(asked, count):
    params = MineParams(run="given", **asked)
    assert params.per_query == count and MineParams(**params.model_dump(exclude_unset=True)) == params


def test_the_sieve_judges_all_that_the_data_gives():
    def pool_size(*changes):
        settings = {"name": "x", "mine": {"run": "given", "judges": ["sieve"]}}
        return from_settings(settings, list(changes)).judge("sieve").pool_size

    assert pool_size() is None and pool_size("judges.sieve.pool_size=8") == 8
    assert pool_size("mine.run=dense", "mine.per_query=1") == 30
