"""Wrong documents that the data gives: beside the pairs for a detector, and held against their query's positive."""

from noisyir.audits.stages.audit_negatives import JOIN_NEGATIVES, JUDGE_NEGATIVES
from noisyir.base.settings import Params
from noisyir.data.artifacts import GIVEN_NEGATIVES, NOISY_PAIRS
from noisyir.detection.artifacts import PAIR_SCORES
from tests.world import table


def scores(**by_pair):
    """Suspicion by QUERY_DOCUMENT: what fits best has the least."""
    return table(PAIR_SCORES, [(*name.split("_"), 0, value) for name, value in by_pair.items()])


PAIRS = table(NOISY_PAIRS, [("q1", "a", "train"), ("q1", "b", "train"), ("q2", "a", "train"), ("q3", "c", "dev")])
NEGATIVES = table(GIVEN_NEGATIVES, [("q1", "x"), ("q1", "y"), ("q1", "b"), ("q3", "x")])


def test_training_pairs_and_negatives_of_their_queries_are_one_table(run_stage_on):
    found = run_stage_on(JOIN_NEGATIVES, Params(), {"pairs": PAIRS, "given_negatives": NEGATIVES})["noisy_pairs"]
    joined = list(zip(found["query_id"].to_pylist(), found["doc_id"].to_pylist(), strict=True))
    assert joined == [("q1", "a"), ("q1", "b"), ("q1", "x"), ("q1", "y")], "q2 has none, and q3 is not trained on"


def test_one_that_fits_as_the_best_positive_does_is_not_kept(run_stage_on):
    given = {"pairs": PAIRS, "given_negatives": NEGATIVES, "scores": scores(q1_a=-2.0, q1_b=1.0, q1_x=-2.5, q1_y=-1.0)}
    found = run_stage_on(JUDGE_NEGATIVES, Params(), given)
    said = {row["doc_id"]: row for row in found["verdicts"].to_pylist()}
    assert {doc: row["keep"] for doc, row in said.items()} == {"x": False, "y": True, "b": True}
    assert said["x"]["score"] == 2.5 and {row["bound"] for row in said.values()} == {2.0}
    candidates = {row["doc_id"]: row for row in found["candidates"].to_pylist()}
    assert [candidates[doc]["rank"] for doc in "xyb"] == [1, 2, 3]
    assert {row["positive"] for row in candidates.values()} == {"a"}


def test_equal_scores_are_not_kept_either(run_stage_on):
    given = {"pairs": PAIRS, "given_negatives": NEGATIVES, "scores": scores(q1_a=0.0, q1_b=0.0, q1_x=0.0, q1_y=0.5)}
    verdicts = run_stage_on(JUDGE_NEGATIVES, Params(), given)["verdicts"].to_pylist()
    assert {row["doc_id"]: row["keep"] for row in verdicts} == {"x": False, "b": False, "y": True}
