"""The judgements of a held-out split, as pairs that an audit judges: all relevant ones, and what is called wrong."""

from noisyir.base.errors import DataError
from noisyir.data.artifacts import GIVEN_NEGATIVES
from noisyir.data.settings import JudgedPairsParams
from noisyir.data.stages.ingest import JUDGED_PAIRS
from tests.refusals import refuses
from tests.world import pairs_world, table

SPLITS = {"q1": "train", "q2": "dev", "q3": "test", "q4": "test", "q5": "test"}
GRADES = [("q2", "a", 1), ("q3", "a", 2), ("q3", "b", 1), ("q3", "c", 0), ("q4", "d", 1), ("q5", "e", 0)]


def given(judged=GRADES):
    paired = [("q1", "a", "log"), ("q2", "a", "people")]
    world = pairs_world(
        "queries qrels pairs", {name: name for name in SPLITS}, splits=SPLITS, pairs=paired, judged=judged
    )
    return world | {"given_negatives": table(GIVEN_NEGATIVES, [("q1", "x", 0.5), ("q3", "x", 0.5)])}


def ids(table):
    return list(zip(table["query_id"].to_pylist(), table["doc_id"].to_pylist(), strict=True))


def test_every_relevant_document_of_the_split_is_a_pair_and_the_others_are_negatives(run_stage_on):
    found = run_stage_on(JUDGED_PAIRS, JudgedPairsParams(split="test"), given())
    assert ids(found["noisy_pairs"]) == [("q3", "a"), ("q3", "b"), ("q4", "d")]
    assert ids(found["given_negatives"]) == [("q3", "x"), ("q3", "c")], (
        "q5 has no relevant document to hold them against"
    )


def test_a_pair_below_the_least_relevance_is_neither(run_stage_on):
    found = run_stage_on(JUDGED_PAIRS, JudgedPairsParams(split="test", min_relevance=2), given())
    assert ids(found["noisy_pairs"]) == [("q3", "a")] and ("q3", "b") not in ids(found["given_negatives"])


def test_dev_pairs_keep_their_source(run_stage_on):
    found = run_stage_on(JUDGED_PAIRS, JudgedPairsParams(split="dev"), given())
    assert found["noisy_pairs"].select(["doc_id", "source"]).to_pylist() == [{"doc_id": "a", "source": "people"}]


def test_a_split_that_is_not_there_names_those_that_are(run_stage_on):
    without_dev = [row for row in GRADES if row[0] != "q2"]
    with refuses(DataError, "data.no_judged_pair", split="dev", splits="train, test"):
        run_stage_on(JUDGED_PAIRS, JudgedPairsParams(split="dev"), given(without_dev))
