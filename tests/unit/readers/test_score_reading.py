"""score_reading, score_confidence and ensemble."""

import numpy as np
import pytest

from noisyir.base.errors import DataError
from noisyir.data.artifacts import ANSWERS, QUERIES
from noisyir.evaluation.settings import CompareParams
from noisyir.evaluation.stages.compare import COMPARE
from noisyir.readers.artifacts import CONFIDENCES, GOLD_RUN, PASSAGES, READINGS
from noisyir.readers.settings import EnsembleParams, ScoreConfidenceParams, ScoreReadingParams
from noisyir.readers.stages.read import ENSEMBLE, SCORE_CONFIDENCE, SCORE_READING
from tests.world import table

QUERIES_TABLE = table(QUERIES, [(f"q{n}", "?", "dev" if n < 5 else "test") for n in range(6)])
ANSWERS_TABLE = table(
    ANSWERS, [("q0", ["Paris"]), ("q1", ["New York City"]), ("q2", ["x"]), ("q3", [" "]), ("q5", ["y"])]
)
PASSAGES_TABLE = table(PASSAGES, [(f"q{n}", "d", 1, 1.0, True) for n in range(6)])


def readings(*answers):
    return table(READINGS, [(query, rank, "d", 0, len(text), text, score) for query, rank, text, score in answers])


GIVEN = readings(("q0", 1, "the paris", 2.0), ("q0", 2, "Rome", 1.0), ("q1", 1, "York City", 1.0), ("q5", 1, "n", 1.0))


@pytest.fixture
def score(run_stage_on):
    def run(readings, passages=PASSAGES_TABLE, **settings):
        given = {"answers": ANSWERS_TABLE, "queries": QUERIES_TABLE}
        labelled = {"readings": readings, "passages": dict.fromkeys(readings, passages)}
        return run_stage_on(SCORE_READING, ScoreReadingParams(**settings), {**given, **labelled})["metrics"]

    return run


def test_the_first_answer_counts_no_answer_is_wrong_and_no_reference_is_left_out(score, store):
    values = {(r["measure"], r["query_id"]): r["value"] for r in score({"bm25": GIVEN}).to_pylist()}
    f1_of_york = 2 * 1 * (2 / 3) / (1 + 2 / 3)
    assert values == pytest.approx(
        {
            ("EM bm25", "q0"): 1, ("EM bm25", "q1"): 0, ("EM bm25", "q2"): 0, ("EM bm25", None): 1 / 3,
            ("F1 bm25", "q0"): 1, ("F1 bm25", "q1"): f1_of_york, ("F1 bm25", "q2"): 0,
            ("F1 bm25", None): (1 + f1_of_york) / 3,
        }
    )  # fmt: skip
    (meta,) = [meta for meta in store.builds.all() if meta.stage == "score_reading"]
    assert meta.notes["left_out"] == {"bm25": 2}  # q3, whose answer is no word, and q4, which has none


def test_kinds_of_passages_have_measures_of_their_own_which_compare_reads(score, run_stage_on):
    two = score({"bm25": GIVEN, "given": readings(("q2", 1, "x", 1.0))})
    assert two["measure"].unique().to_pylist() == ["EM bm25", "F1 bm25", "EM given", "F1 given"]
    metrics = {"one": score({"bm25": GIVEN}), "two": score({"bm25": readings(("q1", 1, "New York City", 1.0))})}
    compared = run_stage_on(COMPARE, CompareParams(), {"metrics": metrics})["comparison"].to_pylist()
    assert {row["measure"] for row in compared} == {"EM bm25", "F1 bm25"}
    assert all(row["queries"] == 3 for row in compared)


def test_what_cannot_be_scored_is_refused(score):
    with pytest.raises(DataError, match="no question of splits \\['train'\\] was both read and has answers"):
        score({"bm25": GIVEN}, splits=("train",))


@pytest.fixture
def quality(run_stage_on):
    def run(rows, relevant):
        run = table(GOLD_RUN, [(query, doc, 1, 1.0) for query, doc in relevant])
        given = {"confidences": {"cds": table(CONFIDENCES, rows)}, "given": run}
        rows = run_stage_on(SCORE_CONFIDENCE, ScoreConfidenceParams(), given)["confidence_quality"].to_pylist()
        return {(row["update"], row["measure"]): row["value"] for row in rows}

    return run


ROWS = [
    (query, doc, 0, 3, update, value, None)
    for update, values in enumerate([(0.4, 0.6, 0.5, 0.5), (0.9, 0.1, 0.7, 0.3)])
    for (query, doc), value in zip([("q0", "a"), ("q0", "b"), ("q1", "a"), ("q1", "b")], values, strict=True)
]


def test_confidences_are_judged_update_by_update_where_the_question_has_a_right_passage(quality):
    found = quality(ROWS, [("q0", "a"), ("q9", "b")])
    assert (found[0, "auroc"], found[1, "auroc"]) == (0.0, 1.0)
    assert found[0, "contested"] == 1, "nobody says which of q1's passages is right"
    both = quality(ROWS, [("q0", "a"), ("q1", "b")])
    assert both[1, "auroc_within"] == 0.5 and both[1, "right_first"] == 0.5
    assert quality(ROWS[::-1], [("q0", "a"), ("q1", "b")]) == both
    with pytest.raises(DataError, match="none of the 8 confidences of cds is of a question with relevant passages"):
        quality(ROWS, [("q9", "a")])


def test_an_ensemble_adds_up_what_each_reader_gives_an_answer(run_stage_on):
    one = table(READINGS, [("q", 1, "a", 0, 1, "A", 2.0), ("q", 2, "b", 0, 1, "B", 1.0), ("r", 1, "c", 0, 1, "C", 5.0)])
    two = table(READINGS, [("q", 1, "e", 7, 8, "B", 9.0), ("q", 2, "b", 2, 3, "b", 9.0)])
    rows = run_stage_on(ENSEMBLE, EnsembleParams(n_best=2), {"readings": {"one": one, "two": two}})["readings"]
    low = 1 / (1 + np.e)  # what reader one gives B: exp(1) / (exp(1) + exp(2)); reader two gives it 1/2, in passage e
    found = [(r["query_id"], r["rank"], r["answer"], r["doc_id"], r["start"]) for r in rows.to_pylist()]
    assert found == [("q", 1, "B", "e", 7), ("q", 2, "A", "a", 0), ("r", 1, "C", "c", 0)]
    assert rows["score"].to_pylist() == pytest.approx([(low + 0.5) / 2, (1 - low) / 2, 1 / 2])


def test_equal_sums_are_in_the_order_of_answers_and_scores_may_be_of_any_size(run_stage_on):
    rows = [("q", 1, "b", 0, 1, "b", 9000.0), ("q", 2, "a", 4, 5, "A", 9000.0), ("q", 3, "a", 2, 3, "a", 9000.0)]
    one = run_stage_on(ENSEMBLE, EnsembleParams(), {"readings": {"one": table(READINGS, rows)}})["readings"]
    assert one["answer"].to_pylist() == ["A", "a", "b"] and one["score"].to_pylist() == pytest.approx([1 / 3] * 3)
    backwards = table(READINGS, rows[::-1])
    assert run_stage_on(ENSEMBLE, EnsembleParams(), {"readings": {"one": backwards}})["readings"].equals(one)
    with pytest.raises(DataError, match="no readings"):
        run_stage_on(ENSEMBLE, EnsembleParams(), {"readings": {}})
