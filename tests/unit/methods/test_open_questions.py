"""Questions with answers and no judgements, from beginning to end: a shipped experiment on a tiny collection."""

import pytest

from noisyir.app.runs import Execution, run_experiment
from noisyir.engine.plan import Choice
from noisyir.engine.runtime import Runtime
from noisyir.engine.store import Store
from noisyir.front.cli import main
from noisyir.methods import experiments
from noisyir.methods.plans.retrievers import train_retriever
from tests.tiny import write_dpr
from tests.tiny_models import tiny_bert

SMALL = (
    "bm25_index.engine=bm25s", "model.query_max_len=12", "model.passage_max_len=20",
    "train.epochs=1", "train.batch_size=16", "train.precision=fp32", "mine.rank_to=20", "mine.per_query=6",
    "judges.sieve.pool_size=6", "judges.sieve.batch_size=16", "ranker.init.max_len=32", "ranker.warm_up.max_steps=2",
    "ranker.warm_up.n=5", "ranker.warm_up.batch_size=8", "ranker.warm_up.precision=fp32", "ar2.rounds=1", "ar2.n=5",
    "ar2.continued.rounds=1",
    "ar2.ranker_steps=2", "ar2.retriever_steps=2", "ar2.retriever_batch_size=8", "ar2.precision=fp32",
)  # fmt: skip


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    bert = tiny_bert(tmp_path_factory.mktemp("bert"))
    folder = write_dpr(tmp_path_factory.mktemp("dpr") / "nq")
    return [f"data.path={folder}", f"model.weights={bert}", f"ranker.init.weights={bert}", *SMALL]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def outcome(settings, home):
    return run_experiment(
        experiments.load("nq_ar2_sieve", settings),
        Choice(),
        Execution(store=Store(home / "store", home=home), runtime=Runtime(device="cpu", threads=1)),
    )


@pytest.fixture
def store(home):
    return Store(home / "store", home=home)


def test_every_system_is_scored_by_answers_alone(outcome, store):
    rows = store.builds.table(outcome.kept["comparison"]).to_pylist()
    assert {row["system"] for row in rows} == {
        "bm25", "zero_shot", "zero_shot_hybrid", "ar2_hybrid", "ar2_continued_hybrid",
        "ar2", "ar2_reranked", "ar2_continued", "ar2_continued_reranked"
    }  # fmt: skip
    assert {row["measure"] for row in rows} == {f"AnswerMatch@{k}" for k in (1, 5, 10, 20, 100)}
    assert {(row["split"], row["queries"]) for row in rows} == {("test", 12)}
    mean = {(row["system"], row["measure"]): row["mean"] for row in rows}
    assert mean["bm25", "AnswerMatch@5"] == 1.0 and mean["ar2", "AnswerMatch@100"] == 1.0


def test_the_report_shows_published_numbers_and_queries_without_a_known_document(outcome, store):
    page = (store.builds.folder(outcome.kept["report"]) / "report.html").read_text()
    assert "<h3>Published</h3>" in page and "passage sieve, Table 1, batch 64" in page and "0.792" in page
    assert "scored by its answers alone" in page


def test_training_saw_the_contexts_and_the_sieve_judged(outcome):
    metas = {name: result.meta for name, result in outcome.results.items()}
    assert metas["ingest"].artifacts["qrels"].rows == 12  # dev alone
    assert metas["ingest"].artifacts["pairs"].rows == 72
    assert metas["sieve@ar2_continued@0"].notes["sieve"]["judged"] > 0
    assert metas["train_ar2@0"].notes["lists"]["queries"] == 60


def test_the_command_line_prints_what_was_measured_beside_what_was_published(outcome, settings, home, capsys):
    again = ["run", "nq_ar2_sieve", *settings, "--store", str(home / "store"), "--no-track"]
    assert main(again) == 0
    said = capsys.readouterr().out
    assert "0 run, " in said and "published and measured" in said
    (line,) = [line for line in said.splitlines() if "AnswerMatch@20 " in line and "Table 1" in line]
    assert line.split()[:3] == ["ar2_continued", "test", "AnswerMatch@20"] and "0.864" in line
    assert main([*again, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "cached" in said and "time        nothing would run" in said


def test_what_was_built_says_how_long_the_rest_will_take(outcome, settings, home, capsys):
    """Another number of epochs: training and what follows would run, at the rates of the builds that are there."""
    plan = train_retriever(experiments.load("nq_ar2_sieve", [*settings, "train.epochs=2"]))
    assert len(plan.steps) == len(outcome.results)
    main(["run", "nq_ar2_sieve", *settings, "train.epochs=2", "--store", str(home / "store"), "--dry-run"])
    said = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line}
    assert said["ingest"].rstrip().endswith("cached") and said["encode@zero_shot"].rstrip().endswith("cached")
    for step in ("train_dpr@warm_up", "encode@ar2", "train_ar2@0"):
        assert " newest build " in said[step]
    assert "as their newest builds took" in said["time"]
