"""The posterior as pipelines use it: verdict on pairs, verdict on candidates, target; by labels and by judgements."""

import json
import logging

import numpy as np
import pytest

from noisyir.app.runs import Execution, run_experiment
from noisyir.detection.posterior import calibration_error
from noisyir.engine.plan import Choice
from noisyir.engine.runtime import Runtime
from noisyir.engine.store import Store
from noisyir.methods import experiments
from noisyir.methods.plans.retrievers import train_retriever
from tests.tiny import SETTINGS, tiny_data

SMALL = ("pool.depth=12", "lists.size=6", "noise.rate=0.4", "train.epochs=1")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("relevance")
    return folder, tiny_data(folder / "data"), Store(folder / "store", home=folder)


@pytest.fixture
def run(world):
    """`run("methods=[distill_posterior]", ...)`: tables by stage and name, and notes by stage."""
    _, settings, store = world

    def go(*changes, data=settings):
        exp = experiments.load("demo", [*SETTINGS, *data, *SMALL, *changes])
        execution = Execution(store=store, runtime=Runtime(device="cpu", threads=1))
        outcome = run_experiment(exp, Choice(), execution, train_retriever)
        metas = {result.meta.stage: result.meta for result in outcome.results.values()}
        wanted = {
            "estimate_relevance": ("relevance", "noise_flags", "teacher_scores"),
            "choose_lists": ("teacher_scores",),
            "corrupt": ("noise_truth",),
            "posterior_judge": ("verdicts",),
            "candidates": ("candidates",),
        }
        tables = {
            (stage, name): store.builds.table(metas[stage].ref(name))
            for stage, names in wanted.items()
            if stage in metas
            for name in names
        }
        return tables, {stage: meta.notes for stage, meta in metas.items()}

    return go


def by_pair(table, column):
    return {(row["query_id"], row["doc_id"]): row[column] for row in table.to_pylist()}


def test_verdict_and_target_are_of_the_chances(run):
    tables, notes = run("methods=[distill_posterior]", "detect.assume=best")
    chance = by_pair(tables["estimate_relevance", "relevance"], "score")
    given = by_pair(tables["estimate_relevance", "relevance"], "given")
    flags = tables["estimate_relevance", "noise_flags"]
    assert by_pair(flags, "p_clean") == {pair: chance[pair] for pair, is_given in given.items() if is_given}
    assert by_pair(flags, "is_clean") == {pair: p >= 0.5 for pair, p in by_pair(flags, "p_clean").items()}
    for row in flags.to_pylist():
        others = {pair: p for pair, p in chance.items() if pair[0] == row["query_id"] and not given[pair]}
        assert others[row["query_id"], row["replacement"]] == max(others.values())
    target, lists = (tables[stage, "teacher_scores"] for stage in ("estimate_relevance", "choose_lists"))
    assert by_pair(target, "fold") == by_pair(lists, "fold")
    assert np.exp(target["score"].to_numpy()) == pytest.approx(
        [max(chance[pair], 1e-6) for pair in by_pair(lists, "fold")]
    )
    said = notes["estimate_relevance"]["posterior"]
    assert said["by"] == "labels" and 0.2 < said["wrong_share"] < 0.5
    temperatures = notes["train_distill"]["temperatures"]
    assert temperatures["teacher"] == pytest.approx(temperatures["spread"] / 4, rel=0.05)


def test_where_nothing_warrants_a_share_of_wrong_labels_the_middle_of_its_range_is_supposed_and_told(run, caplog):
    with caplog.at_level(logging.WARNING, "noisyir"):
        tables, notes = run("methods=[distill_posterior]")
    said = notes["estimate_relevance"]["posterior"]
    (detected,) = notes["detect"]["detection"].values()
    assert said["wrong_share"] is None
    supposed = (detected["rate_low"] + detected["rate_high"]) / 2
    assert said["supposed_share"] == pytest.approx(supposed) and said["wrong"] > 0
    given = np.asarray(tables["estimate_relevance", "relevance"]["given"])
    chance = tables["estimate_relevance", "relevance"]["score"].to_numpy()
    truth = by_pair(tables["corrupt", "noise_truth"], "is_noisy")
    pairs = by_pair(tables["estimate_relevance", "noise_flags"], "score")
    wrong = [score for pair, score in pairs.items() if truth[pair]]
    assert np.mean(wrong) > np.mean([score for pair, score in pairs.items() if not truth[pair]]) + 0.2
    assert chance[given].mean() < 0.95
    flags = tables["estimate_relevance", "noise_flags"]
    assert flags["p_clean"].null_count == len(flags) and all(flags["is_clean"].to_pylist())
    assert any("warrant a share of wrong labels" in record.message for record in caplog.records)


def test_judgements_of_dev_queries_teach_it_instead(run, tmp_path):
    settings = tiny_data(tmp_path / "judged")
    dev = tmp_path / "judged" / "qrels" / "dev.tsv"
    documents = [json.loads(line) for line in (tmp_path / "judged" / "corpus.jsonl").open()]
    relevant = [line.split("\t") for line in dev.read_text().splitlines()[1:]]
    rows = [f"{query}\t{doc['_id']}\t{int(doc['_id'] == right)}" for query, right, _ in relevant for doc in documents]
    dev.write_text("query-id\tcorpus-id\tscore\n" + "\n".join(rows) + "\n")
    tables, notes = run("methods=[distill_posterior]", "detect.assume=best", data=settings)
    said = notes["estimate_relevance"]["posterior"]
    assert said["by"] == "judgements" and said["judged"] > 100 and said["calibration_error"] < 0.05
    truth = by_pair(tables["corrupt", "noise_truth"], "is_noisy")
    p_clean = by_pair(tables["estimate_relevance", "noise_flags"], "p_clean")
    pairs = sorted(p_clean)
    assert calibration_error(np.array([p_clean[p] for p in pairs]), np.array([not truth[p] for p in pairs])) < 0.1


def test_mining_hears_it_and_what_it_does_not_know_is_not_drawn(run):
    tables, notes = run(
        "methods=[ance]", "mine.judges=[posterior]", "mine.per_query=2", "mine.run=dense", "mine.rank_to=20",
        "detect.assume=best",
    )  # fmt: skip
    chance = by_pair(tables["estimate_relevance", "relevance"], "score")
    keep = by_pair(tables["posterior_judge", "verdicts"], "keep")
    candidates = set(by_pair(tables["candidates", "candidates"], "rank"))
    assert keep == {pair: chance[pair] <= np.float32(0.5) for pair in candidates & chance.keys()}
    said = notes["posterior_judge"]["posterior"]
    assert said == {
        "judged": len(keep),
        "dropped": sum(not kept for kept in keep.values()),
        "unknown": len(candidates - chance.keys()),
    }
    assert 0 < said["dropped"] < said["judged"]


def test_a_temperature_at_which_the_teachers_softmax_underflows_is_told_with_the_cure(run, caplog):
    with caplog.at_level(logging.WARNING, "noisyir"):
        _, notes = run("methods=[distill]", "teacher=bm25", "distill.teacher_temperature=0.001")
    found = notes["train_distill"]["temperatures"]
    (said,) = [record.getMessage() for record in caplog.records if "underflows" in record.getMessage()]
    assert found["underflow"] > 0.9 and f"{found['spread'] / 4:.4g}" in said
    caplog.clear()
    with caplog.at_level(logging.WARNING, "noisyir"):
        _, cured = run("methods=[distill]", "teacher=bm25", f"distill.teacher_temperature={found['spread'] / 4:.4g}")
    assert cured["train_distill"]["temperatures"]["underflow"] == 0.0
    assert not [record for record in caplog.records if "underflows" in record.getMessage()]


def test_auto_tries_distillation_where_it_is_named(run):
    auto = "methods=[{kind: auto, candidates: [distill_contrast], seeds: 2}]"
    _, notes = run(auto, "teacher=bm25")
    assert notes["choose_model"]["chosen"] in ("dpr", "distill_contrast")
