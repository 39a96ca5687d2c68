"""What `noisyir run --dry-run` prints where neither data nor weights are there."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from noisyir.app.dry_run import StepEstimate, _cost_in_words, _rows, total_line
from noisyir.base.durations import duration
from noisyir.base.errors import DataError
from noisyir.engine.provenance import ABSENT, may_be_absent, without_inputs
from noisyir.engine.store import Store
from noisyir.front.cli import main
from noisyir.methods import experiments
from noisyir.training.full_size import StepCost
from tests.tiny import SETTINGS, tiny_data
from tests.tiny_models import tiny_bert


@pytest.fixture
def dry_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)

    def run(*args):
        assert main(["run", *args, "--dry-run", "--store", str(tmp_path / "store")]) == 0
        return capsys.readouterr().out

    return run


def test_a_dry_run_fits_100_columns_and_rounds_are_one_line(dry_run):
    said = dry_run("nq_ar2_sieve", "model.layers=1", "ranker.init.layers=1")
    table = said.partition("\n\n")[0].splitlines()
    assert len(table) < 50 and max(map(len, table)) <= 100
    rounds = [line.split() for line in table if line.startswith("train_ar2@")]
    assert [row[:2] for row in rounds] == [["train_ar2@*", "x10"], ["train_ar2@continued@*", "x10"]]
    (encode,) = [line for line in table if line.startswith("encode@zero_shot")]
    assert encode.split() == ["encode@zero_shot", "?", "gpu", "?", "never", "run", "here"]
    for text in (
        "published   ar2_continued test AnswerMatch@20 0.864: passage sieve, Table 1",
        "not there   data/dpr is not a folder: set data.path to the folder with psgs_w100.tsv",
        "noisyir fetch nghuyong/ernie-2.0-base-en",
    ):
        assert text in said, text


def test_a_file_of_the_machine_is_named_by_its_place_and_not_to_be_fetched(dry_run, tmp_path):
    for path in ("p.jsonl", "data/p.csv", "../p"):
        (tmp_path / "p.yaml").write_text(f"name: p\ndata: {{kind: pairs, path: {path}}}\nmethods: [dpr]\n")
        said = dry_run("p.yaml")
        assert f"not there   there is no file {tmp_path / path}: set data.path" in said and "to fetch" not in said
    (tmp_path / "p.yaml").write_text("name: p\ndata: {kind: pairs, path: org/p}\nmethods: [dpr]\n")
    assert "to fetch    org/p (data.path): noisyir fetch org/p" in dry_run("p.yaml")


def test_json_has_every_step(dry_run):
    said = json.loads(dry_run("msmarco_doc_ar2", "model.layers=1", "ranker.init.layers=1", "--json"))
    steps = {step["name"]: step for step in said["steps"]}
    last = steps["train_ar2@9"]
    assert (last["key"], last["state"], last["pool"], last["seconds"]) == (None, "would run", "gpu", None)
    assert said["total"] == {"seconds": 0, "steps_without_time": len(steps)} and len(said["absent"]) == 3


def test_part_of_a_plan_is_that_part(dry_run):
    part = json.loads(dry_run("nq_dpr", "--json", "--to", "encode@zero_shot"))
    states = {step["name"]: step["state"] for step in part["steps"]}
    assert (states["encode@zero_shot"], states["train_dpr@dpr"]) == ("would run", "not chosen")


@pytest.mark.parametrize("name", ["squad_cds_small", "nq_cds"])
def test_readers_have_a_dry_run_too(dry_run, name):
    (trained,) = [
        line for line in dry_run(name, "reader.init.layers=1").splitlines() if line.startswith("train_reader@cds_pa")
    ]
    assert trained.split()[1:3] == ["?", "gpu"] and trained.endswith("never run here")


def steps_said(said):
    return [line.removeprefix("one step    ") for line in said.splitlines() if line.startswith("one step ")]


@pytest.mark.parametrize(
    ("layers", "weights", "work", "fits"),
    [(1, 62, "4.45", "24, 40, 80"), pytest.param(12, 218, "53.3", "80", marks=pytest.mark.slow)],
)
def test_a_step_of_each_training_is_rehearsed_without_data_weights_or_memory(dry_run, layers, weights, work, fits):
    (said,) = steps_said(dry_run("nq_dpr", f"model.layers={layers}"))
    texts = f"retriever of {weights} M weights, bf16, 384 texts of 256 tokens, {work} TFLOP, "
    assert said.startswith(f"train_dpr@dpr: {texts}") and said.endswith(f" GiB: fits GPUs of {fits} GB")


@pytest.mark.parametrize(
    ("gib", "said"),
    [(20, "20 GiB: fits GPUs of 24, 40, 80 GB"), (60, "60 GiB: fits GPUs of 80 GB"), (200, "no GPU of 80 GB: set x")],
)
def test_the_gpus_that_a_step_fits_are_said(gib, said):
    assert _cost_in_words(StepCost("retriever", 1, "bf16", {256: 4}, 1, gib * 2**30, "x")).endswith(said)


def test_a_smaller_batch_is_rehearsed_as_json(dry_run):
    (one,) = json.loads(dry_run("nq_dpr", "train.batch_size=16", "model.layers=1", "--json"))["rehearsals"]
    (cost,) = one["costs"]
    assert one["steps"] == ["train_dpr@dpr"] and cost["texts"] == {"256": 48} and cost["memory"] < 0.9 * 24 * 2**30


def test_the_size_of_kept_states_is_said_before_work_and_close(dry_run, tmp_path, capsys):
    given = (
        "demo", *SETTINGS, *tiny_data(tmp_path / "beir"), f"model.weights={tiny_bert(tmp_path / 'bert')}",
        "model.backbone=transformer", "model.passage_max_len=32", "model.query_max_len=16", "methods=[dpr]",
        "train.freeze=1", "train.keep_states=true", "--no-track",
    )  # fmt: skip
    store = Store(tmp_path / "store", home=tmp_path)
    assert "to keep     keep_states: at most 2 KB a document and 1 KB a query" in dry_run(*given)
    assert main(["run", *given, "--to", "corrupt", "--store", str(store.root)]) == 0
    capsys.readouterr()
    said = json.loads(dry_run(*given, "--json"))["to_keep"]["keep_states"]
    assert main(["run", *given, "--to", "keep_states", "--store", str(store.root)]) == 0
    (meta,) = (meta for meta in store.builds.all() if meta.stage == "keep_states")
    assert float(said.split()[1]) * 1e9 == pytest.approx(meta.size, rel=0.3)
    assert "keep_states: " not in dry_run(*given).replace("chosen", "")


def test_a_static_model_is_not_rehearsed_and_what_cannot_be_is_said(dry_run, tmp_path):
    assert not steps_said(dry_run("squad_static", f"data.path={tmp_path}"))
    said = dry_run("nq_dpr", "model.weights=nobody/knows")
    cure = "fetch it with noisyir fetch nobody/knows"
    assert steps_said(said) == [f"train_dpr@dpr: nobody/knows is not here, and its shape is not known: {cure}"]
    assert not steps_said(dry_run("nq_dpr", "--to", "mine"))
    (said,) = steps_said(dry_run("nq_dpr", "model.layers=1", "train.lora={rank: 8}"))
    assert said.startswith("train_dpr@dpr: cannot be rehearsed with fake tensors: ")


TRAINED = [name for name in experiments.names() if name not in ("demo", "nfcorpus", "squad_static")]


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINED)
def test_every_recipe_that_ships_is_rehearsed_at_full_size(dry_run, name):
    found = json.loads(dry_run(name, "--json"))["rehearsals"]
    assert found and not [one["why"] for one in found if one["why"]]
    assert all(cost["flops"] > 0 and cost["memory"] > 2**27 for one in found for cost in one["costs"])


@pytest.mark.slow
def test_a_rehearsal_takes_little_memory(tmp_path):
    code = "import resource, sys; from noisyir.front.cli import main; main(sys.argv[1:])\n"
    code += "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    command = [sys.executable, "-c", code, "run", "msmarco_rocketqa", "--dry-run", "--json", "--store", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    needed = max(cost["memory"] for one in json.loads(ended.stdout)["rehearsals"] for cost in one["costs"])
    assert int(ended.stderr.split()[-1]) * 1024 < 2 * 2**30 < needed


def test_times_are_of_the_newest_builds_in_proportion_to_the_rows_read(tmp_path, capsys):
    given = [*SETTINGS, *tiny_data(tmp_path / "beir"), "methods=[dpr]"]
    store = ["--store", str(tmp_path / "store")]
    assert main(["run", "demo", *given, "--no-track", *store]) == 0
    capsys.readouterr()

    def steps(*more):
        assert main(["run", "demo", *given, *more, "--dry-run", "--json", *store]) == 0
        return {step["name"]: step for step in json.loads(capsys.readouterr().out)["steps"]}

    assert {step["state"] for step in steps().values()} == {"cached"}
    changed = steps("train.epochs=3")
    assert changed["bm25"]["state"] == "cached" and changed["bm25"]["seconds"] is None
    built = next((tmp_path / "store" / "train_dpr").glob("*/*/_meta.json"))
    assert changed["train_dpr@dpr"]["seconds"] == pytest.approx(json.loads(built.read_text())["seconds"])
    bench = steps("noise.kind=neighbour")["corrupt"]
    assert bench["state"] == "would run"


def test_the_time_says_how_many_steps_it_counts():
    states = [SimpleNamespace(step=SimpleNamespace(name=name), state="would run") for name in "abc"]
    took = {name: StepEstimate(SimpleNamespace(seconds=2.0), None) for name in "abc"}
    assert total_line(states, {"a": took["a"]}) == "2.0 s for 1 of 3 steps, by their newest builds; 2 never ran here"
    assert total_line(states, took) == "6.0 s as their newest builds took"
    assert total_line(states, {}) == "not known: no step of it was ever run here"


def test_rows_scale_the_time_of_a_build():
    build = SimpleNamespace(seconds=10.0, size=1000)
    assert (StepEstimate(build, 2.5).seconds, StepEstimate(build, 2.5).size) == (25.0, 2500.0)
    assert StepEstimate(build, None).seconds == 10.0
    meta = SimpleNamespace(artifacts={"pairs": SimpleNamespace(rows=40), "model": SimpleNamespace(rows=None)})
    assert _rows([(meta, "pairs"), (meta, "model")]) == 40
    assert _rows([(meta, "pairs"), (None, "pairs")]) is None


def test_a_run_is_refused_at_once_where_the_data_is_not_there(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["run", "nq_ar2", "--store", str(tmp_path / "store")]) == 1
    said = capsys.readouterr()
    assert said.out == "" and "data/dpr is not a folder" in said.err
    assert not list((tmp_path / "store").glob("*/*"))


def test_absent_inputs_are_noted_once_and_only_where_that_is_asked_for():
    @may_be_absent
    def digest(path: str) -> str:
        raise DataError(f"{path} is missing")

    with without_inputs() as absences:
        assert digest("a") == digest("a") == ABSENT
        with pytest.raises(ZeroDivisionError):
            may_be_absent(lambda: str(1 / 0))()
    assert list(absences) == ["a is missing"]
    with pytest.raises(DataError):
        digest("a")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (9.9, "9.9 s"),
        (99, "1 min 39 s"),
        (150, "2 min 30 s"),
        (5999, "1 h 39 min"),
        (7200, "2 h 0 min"),
        (1e7, "2,777 h 46 min"),
    ],
)
def test_durations_are_said_in_the_unit_that_reads_best(seconds, text):
    assert duration(seconds) == text
