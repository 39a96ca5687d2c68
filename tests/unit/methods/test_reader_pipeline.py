"""The readers' pipeline and bench, planned and run to the end on a tiny SQuAD."""

import json
import re
from collections import Counter

import pyarrow as pa
import pytest

from noisyir.app.runs import Execution, run_experiment
from noisyir.audits.query_decisions import decisions_on
from noisyir.base.errors import ConfigError, StoreError
from noisyir.data.formats.pairs import Pairs
from noisyir.engine.build_stage import run_stage
from noisyir.engine.plan import Choice, execute
from noisyir.engine.runtime import Runtime
from noisyir.front import cli
from noisyir.methods import experiments
from noisyir.methods.plain import Dpr
from noisyir.methods.plans.planning import bench_of, pipeline_of
from noisyir.readers.believed_pairs import find_confidences, most_believed
from noisyir.readers.task import ReaderMethod
from tests.refusals import refuses
from tests.tiny import write_dpr
from tests.tiny_models import tiny_bert
from tests.tiny_squad import SETTINGS, write_squad


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("squad")
    bert = tiny_bert(tmp_path_factory.mktemp("bert"))
    return [*SETTINGS, f"data.path={write_squad(folder)}", f"reader.init.weights={bert}"]


def experiment(world, *more):
    settings = experiments.from_settings({"name": "tiny"}, [*world, *more])
    return settings


def run(exp, store):
    return run_experiment(exp, Choice(), Execution(store=store, runtime=Runtime(device="cpu")))


def test_methods_share_data_labels_and_start_and_the_supervised_reads_given_passages(world):
    methods = "reader.methods=[supervised,ds_all,cds_sw,cds_pa,cds_no_denoise]"
    plan = pipeline_of(experiment(world, methods, "reader.ensemble=[cds_sw,cds_pa]"))
    count = Counter(step.stage.name for step in plan.steps)
    assert (count["bm25"], count["gold_run"], count["init_reader"], count["confusing"], count["train_reader"]) == (
        1,
        1,
        1,
        1,
        5,
    )
    assert count["spans"] == 4 and count["read"] == 10 and count["ensemble"] == 2 and count["score_reading"] == 6
    (supervised,) = plan.named("train_reader@supervised")
    assert supervised.inputs["spans"].step == "spans@given" and "confusing" not in supervised.inputs
    (cds,) = plan.named("train_reader@cds_pa")
    assert cds.inputs["spans"].step == "spans@bm25" and cds.params.confidence == "positive_average"
    (compare,) = plan.named("compare")
    assert list(compare.inputs["metrics"]) == ["supervised", "ds_all", "cds_sw", "cds_pa", "ensemble", "cds_no_denoise"]
    assert plan.results["reader"].step == "train_reader@cds_no_denoise"


def test_readers_are_trained_read_scored_and_shown_and_a_second_run_is_cached(world, store):
    exp = experiment(world, "reader.methods=[ds_all,cds_sw,cds_pa]", "reader.ensemble=[cds_sw,cds_pa]")
    first = run(exp, store)
    assert first.executed == len(first.results) and run(exp, store).executed == 0
    rows = store.builds.table(first.kept["comparison"]).to_pylist()
    assert {row["measure"] for row in rows} == {"EM bm25", "F1 bm25", "EM given", "F1 given"}
    assert {row["queries"] for row in rows} == {6}
    page = (store.builds.folder(first.kept["report"]) / "report.html").read_text()
    assert "Distant labels" in page and "AUROC by question" in page and re.search(r"<mark>w\d+</mark>", page)
    told = [
        one.facts for one in decisions_on(store, "train0", "train-train-0").decided if one.artifact == "confidences"
    ]
    assert told and "confidence" in told[-1][0].event


def test_the_pairs_that_a_reader_believes_in_are_exported_as_pairs_to_audit(world, store, tmp_path, capsys):
    run(experiment(world, "reader.methods=[ds_all,cds_sw]", "reader.ensemble=[]"), store)
    target = tmp_path / "pairs.jsonl"
    export = ["export", "tiny", "--format", "pairs", "--store", store.url, "--to", str(target)]
    assert cli.main(export) == 0 and capsys.readouterr().out.startswith(f"{target}: 10 pairs\n")
    meta = find_confidences(store, "tiny")
    assert meta.params["confidence"] == "soft"  # the last method, which is kept
    sums = Counter()
    for row in store.builds.table(meta.ref("confidences")).to_pylist():
        if row["update"] == 4:
            sums[row["query_id"], row["doc_id"]] += row["value"]
    file = Pairs(path=str(target)).open()
    texts = ((one.query, document.text) for one, document in file.right_pairs())
    for pair, (query, text), row in zip(file.judgements(), texts, map(json.loads, target.open()), strict=True):
        assert (pair.query_id, pair.doc_id, pair.split) == (row["query_id"], row["doc_id"], "train")
        assert query.startswith("w") and "w" in text
        most = max(value for (query_id, _), value in sums.items() if query_id == pair.query_id)
        assert row["belief"] == pytest.approx(sums[pair.query_id, pair.doc_id]) == pytest.approx(most)
    assert cli.main(export) == 1 and "exists already" in capsys.readouterr().err
    with refuses(StoreError, "readers.build_without_confidences_only", name="ingest", stage="ingest"):
        find_confidences(store, "ingest")


def test_among_equally_believed_passages_the_start_decides_and_then_the_id():
    rows = [
        ("q1", "b", 0, 0.2), ("q1", "a", 0, 0.8), ("q1", "b", 1, 0.5), ("q1", "a", 1, 0.5),
        ("q0", "y", 0, 0.25), ("q0", "y", 0, 0.25), ("q0", "x", 0, 0.5),
        ("q0", "y", 1, 0.25), ("q0", "y", 1, 0.25), ("q0", "x", 1, 0.5),
    ]  # fmt: skip
    names = ("query_id", "doc_id", "update", "value")
    found = most_believed(pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows]))
    assert found.to_pylist() == [
        {"query_id": "q0", "doc_id": "x", "belief": 0.5, "belief_at_start": 0.5},
        {"query_id": "q1", "doc_id": "a", "belief": 0.5, "belief_at_start": 0.8},
    ]


def test_the_papers_experiment_runs_on_the_layout_of_dpr_s_release(world, store, tmp_path):
    exp = experiments.load("nq_cds", [
        f"data.path={write_dpr(tmp_path / 'dpr')}", world[-1], "bm25_index.engine=bm25s",
        "reader.methods=[cds_pa]", "reader.ensemble=[]", "reader.init.max_len=48", "reader.init.question_max_len=12",
        "reader.train.epochs=1", "reader.train.updates_per_epoch=1", "reader.train.questions_at_once=8",
        "reader.train.precision=fp32", "reader.spans.top_k=4", "reader.read.stride=8",
    ])  # fmt: skip
    done = run(exp, store)
    rows = store.builds.table(done.kept["comparison"]).to_pylist()
    assert {(row["split"], row["queries"]) for row in rows} == {("dev", 12)}
    page = (store.builds.folder(done.kept["report"]) / "report.html").read_text()
    assert "0.164" in page and "CDS, Table 1" in page, "published numbers stand beside the measured ones"
    assert "noisyir compare" not in page, "answers have no pools to judge"


def test_a_reader_has_no_pools_to_correct(world):
    with refuses(ConfigError, "methods.corrected_answers"):
        pipeline_of(experiment(world, "report.corrected=pools"))


def test_a_dense_run_may_be_labelled_and_read(world):
    exp = experiment(world, "reader.methods=[ds_all]", "reader.labels=dense", "reader.passages=[dense]")
    plan = pipeline_of(exp)
    (train,) = plan.named("train_reader")
    (spans,) = plan.named(train.inputs["spans"].step)
    assert spans.inputs["run"].artifact == "dense_run"
    (encode,) = plan.named("encode")
    assert encode.params.splits == ("train", "dev")
    trained = pipeline_of(exp.model_copy(update={"task": exp.task.model_copy(update={"retriever": Dpr()})}))
    assert [step.stage.name for step in trained.steps].count("train_dpr") == 1
    assert not any(step.stage.name == "encode" for step in pipeline_of(experiment(world)).steps)


def test_a_bench_reads_the_same_questions_with_every_seed_and_tells_of_confidences(world, store, tmp_path):
    path = tmp_path / "readers.yaml"
    path.write_text("methods: [ds_all, cds_sw]\nseeds: [3, 4]\ntable: {baseline: ds_all}\nexperiment: {name: x}\n")
    more = ("reader.held_out_questions=4", "reader.spans.max_questions=8")
    suite = experiments.load_suite(str(path), [f"experiment.{setting}" for setting in (*world, *more)])
    plan = bench_of(suite)
    count = Counter(step.stage.name for step in plan.steps)
    assert (count["bm25"], count["train_reader"], count["spans"], count["init_reader"]) == (1, 4, 4, 2)
    done = execute(plan, Choice(), store, lambda step, inputs, refresh: run_stage(
        step, inputs, store=store, runtime=Runtime(device="cpu"), refresh=refresh))  # fmt: skip
    page = (store.builds.folder(done["noise_table"].meta.ref("bench_page")) / "bench.html").read_text()
    assert "Labels: bm25" in page and "Confidences" in page and " noise" not in page[page.index("<body>") :]
    text = (store.builds.folder(done["noise_table"].meta.ref("bench_page")) / "bench.md").read_text()
    assert "## bm25: EM given (dev, 4 queries)" in text and "## Confidences" in text


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["reader.methods=[cds]"], r"reader\.methods: there is no 'cds'.*there are .*supervised"),
        (["reader.ensemble=[cds_sw]"], r"reader.ensemble: 'cds_sw' is not among reader.methods"),
        (["reader.passages=[bm25,bm25]"], r"reader.passages=.* names one of them twice"),
    ],
)
def test_names_that_mean_nothing_are_refused(world, settings, message):
    with pytest.raises(ConfigError, match=message):
        pipeline_of(experiment(world, *settings))


def test_a_suite_of_readers_takes_no_noise(world, tmp_path):
    path = tmp_path / "readers.yaml"
    path.write_text("methods: [ds_all]\nnoise: [{rate: 0.5}]\nexperiment: {name: x, task: reader}\n")
    with pytest.raises(ConfigError, match="a suite of readers has none"):
        experiments.load_suite(str(path))


def test_every_method_changes_settings_that_exist(world):
    params = experiment(world).task.train
    for method in ReaderMethod.variants().values():
        assert type(params).model_validate({**dict(params), **method.changes})
