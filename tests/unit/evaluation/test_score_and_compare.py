"""The stages score and compare, run for real."""

from pathlib import Path

import pyarrow as pa
import pytest

from noisyir.base.errors import ConfigError, DataError
from noisyir.evaluation.settings import CompareParams, ScoreParams
from noisyir.evaluation.stages.compare import COMPARE
from noisyir.evaluation.stages.score import SCORE
from noisyir.retrieval.measures import query_groups
from tests.refusals import refuses

CORPUS = pa.table(
    {"doc_id": ["a", "b"], "doc_row": pa.array([0, 1], pa.int32()), "title": ["", ""], "text": ["Paris", "Rome"]}
)
QUERIES = pa.table({"query_id": ["q1", "q2", "q3", "t"], "text": ["?"] * 4, "split": ["test", "test", "test", "train"]})
QRELS = pa.table(
    {"query_id": ["q1", "q2", "t"], "doc_id": ["a", "b", "a"], "relevance": pa.array([1, 1, 1], pa.int32())}
)
RUN = pa.table(
    {
        "query_id": ["q1", "q1", "q3"],
        "doc_id": ["b", "a", "a"],
        "rank": pa.array([1, 2, 1], pa.int32()),
        "score": pa.array([2, 1, 1], pa.float32()),
    }
)
ANSWERS = pa.table({"query_id": ["q1", "q2", "q3"], "aliases": [["Rome"], ["Rome"], ["Rome"]]})
TABLES = {"run": RUN, "qrels": QRELS, "queries": QUERIES, "answers": ANSWERS, "corpus": CORPUS}


def test_score_writes_every_judged_query_and_the_mean(run_stage_on):
    out = run_stage_on(SCORE, ScoreParams(measures=("RR@10",), answer_ranks=(1,)), TABLES)
    found = {(r["measure"], r["query_id"]): r["value"] for r in out["metrics"].to_pylist()}
    assert found == {
        ("RR@10", "q1"): 0.5,
        ("RR@10", "q2"): 0.0,  # not in the run; q3 has no relevant document and is not judged
        ("RR@10", None): 0.25,
        ("AnswerMatch@1", "q1"): 1.0,
        ("AnswerMatch@1", "q2"): 0.0,
        ("AnswerMatch@1", "q3"): 0.0,
        ("AnswerMatch@1", None): pytest.approx(1 / 3),
    }


def test_a_hit_that_is_the_query_itself_counts_in_no_measure_and_is_counted(run_stage_on, store):
    """Unless people call it relevant."""
    queries = QUERIES.set_column(1, "text", pa.array(["rome", "Rome", "?", "?"]))
    run = pa.concat_tables([RUN, RUN.slice(0, 1).set_column(0, "query_id", pa.array(["q2"]))])
    out = run_stage_on(SCORE, ScoreParams(measures=("RR@10",)), {**TABLES, "queries": queries, "run": run})
    values = {row["query_id"]: row["value"] for row in out["metrics"].to_pylist()}
    assert values == {"q1": 1.0, "q2": 1.0, None: 1.0}
    [meta] = [meta for meta in store.builds.all() if meta.stage == "score"]
    assert meta.notes["own_hits"] == 1 and meta.result.endswith("without 1 hits that are the query itself")


def test_score_keeps_the_trec_form_beside_the_values(run_stage_on):
    folder: Path = run_stage_on(SCORE, ScoreParams(), TABLES)["trec"]
    assert [line.split()[2] for line in (folder / "test.run").read_text().splitlines()] == ["b", "a", "a"]
    assert [line.split()[0] for line in (folder / "test.qrels").read_text().splitlines()] == ["q1", "q2"]


def test_a_split_without_judged_queries_is_named(run_stage_on):
    with refuses(DataError, "evaluation.no_judgement_to_score", split="dev"):
        run_stage_on(SCORE, ScoreParams(splits=("dev",)), TABLES)


def test_a_split_without_judgements_is_scored_by_answers_alone(run_stage_on):
    tables = {**TABLES, "qrels": QRELS.slice(2, 1)}  # of the training query
    out = run_stage_on(SCORE, ScoreParams(measures=("RR@10",), answer_ranks=(1, 2)), tables)
    found = {(r["measure"], r["query_id"]): r["value"] for r in out["metrics"].to_pylist()}
    assert {measure for measure, _ in found} == {"AnswerMatch@1", "AnswerMatch@2"}
    assert found["AnswerMatch@1", "q1"] == 1.0 and found["AnswerMatch@1", "q3"] == 0.0
    assert found["AnswerMatch@1", None] == pytest.approx(1 / 3)
    with refuses(DataError, "evaluation.no_judgement_to_score", split="test"):
        run_stage_on(SCORE, ScoreParams(measures=("RR@10",)), tables)


@pytest.mark.parametrize("answers", [None, ANSWERS.slice(0, 0)])
def test_answer_match_without_answers_is_an_error(run_stage_on, answers):
    tables = {name: table for name, table in {**TABLES, "answers": answers}.items() if table is not None}
    with refuses(ConfigError, "evaluation.no_answers"):
        run_stage_on(SCORE, ScoreParams(answer_ranks=(1,)), tables)


def test_promotion_queries_are_scored_unasked_and_compared_by_nobody(run_stage_on):
    queries = QUERIES.set_column(2, "split", pa.array(["test", "promotion", "test", "train"]))
    out = run_stage_on(SCORE, ScoreParams(measures=("RR@10",)), {**TABLES, "queries": queries})["metrics"]
    assert out["split"].to_pylist() == ["test", "test", "promotion", "promotion"]
    rows = run_stage_on(COMPARE, CompareParams(), {"metrics": {"bm25": out}})["comparison"]
    assert rows["split"].to_pylist() == ["test"]


def test_queries_are_grouped_by_the_relevant_document_that_most_of_them_ask_for():
    judgements = {"q1": {"a": 1, "b": 1}, "q2": {"b": 1, "c": 0}, "q3": {"a": 1, "d": 2}, "q4": {"b": 1}}
    assert query_groups(judgements) == {"q1": "b", "q2": "b", "q3": "d", "q4": "b"}


def metrics(**values: list[float]) -> dict[str, pa.Table]:
    return {
        system: pa.table(
            {
                "measure": ["RR@10"] * (len(of_system) + 1),
                "split": ["test"] * (len(of_system) + 1),
                "query_id": [*(f"q{n}" for n in range(len(of_system))), None],
                "group": [*(f"d{n}" for n in range(len(of_system))), None],
                "value": [*of_system, sum(of_system) / len(of_system)],
            }
        )
        for system, of_system in values.items()
    }


def test_compare_counts_wins_and_losses_against_the_first_system(run_stage_on):
    given = metrics(bm25=[0.5, 0.5, 0.5, 0.2], dense=[1.0, 0.25, 0.5, 0.6])
    first, second = run_stage_on(COMPARE, CompareParams(), {"metrics": given})["comparison"].to_pylist()
    assert (first["system"], first["baseline"], first["p_value"]) == ("bm25", None, None)
    assert (second["baseline"], second["queries"], second["wins"], second["losses"]) == ("bm25", 4, 2, 1)
    assert second["difference"] == pytest.approx((0.5 - 0.25 + 0.4) / 4)
    assert first["low"] <= first["mean"] <= first["high"]


def test_an_interval_ends_where_the_measure_does(run_stage_on):
    given = metrics(bm25=[1.0] * 9 + [0.0], dense=[0.0] * 9 + [0.5], counts=[3.0] + [0.0] * 9)
    bm25, dense, counts, *_ = run_stage_on(COMPARE, CompareParams(), {"metrics": given})["comparison"].to_pylist()
    assert bm25["high"] == 1.0 and 0 < bm25["low"] < 0.9
    assert dense["low"] == 0.0 and 0 < dense["high"] < 1 and dense["difference_low"] < -1
    assert counts["low"] < 0  # counts may pass 1, and so nobody knows where they end


def test_the_baseline_can_be_chosen(run_stage_on):
    given = metrics(bm25=[0.5, 0.1], zero_shot=[0.2, 0.3], trained=[0.9, 0.8])
    params = CompareParams(baseline="zero_shot")
    rows = run_stage_on(COMPARE, params, {"metrics": given})["comparison"].to_pylist()
    pairs = [(row["system"], row["baseline"]) for row in rows]
    assert pairs == [("bm25", "zero_shot"), ("zero_shot", None), ("trained", "zero_shot"), ("trained", "bm25")]
    with refuses(ConfigError, "evaluation.unknown_baseline"):
        run_stage_on(COMPARE, CompareParams(baseline="traind"), {"metrics": given})


def test_one_system_alone_has_a_mean_and_nothing_to_compare(run_stage_on):
    rows = run_stage_on(COMPARE, CompareParams(), {"metrics": metrics(only=[0.5, 0.1])})["comparison"]
    assert rows["baseline"].to_pylist() == [None] and rows["mean"].to_pylist() == [pytest.approx(0.3)]


def test_systems_scored_on_different_queries_are_refused(run_stage_on):
    with refuses(DataError, "evaluation.different_queries", first="bm25", first_queries=2):
        run_stage_on(COMPARE, CompareParams(), {"metrics": metrics(bm25=[0.5, 0.1], dense=[0.5, 0.1, 0.2])})


def test_a_measure_that_one_system_lacks_is_refused(run_stage_on):
    given = metrics(bm25=[0.5], dense=[0.5])
    other = given["dense"].set_column(0, "measure", pa.array(["AP", "AP"]))
    with refuses(DataError, "evaluation.different_queries", measure="RR@10", split="test"):
        run_stage_on(COMPARE, CompareParams(), {"metrics": {"bm25": given["bm25"], "dense": other}})
