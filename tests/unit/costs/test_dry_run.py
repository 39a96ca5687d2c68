"""What `noisyir run --dry-run` prints where neither data nor weights are there."""

import json

import pytest

from noisyir.app.forecast.table import duration
from noisyir.cli import main
from noisyir.engine.provenance import ABSENT, may_be_absent, without_inputs
from noisyir.errors import DataError


@pytest.fixture
def dry_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)

    def run(*args):
        assert main(["run", *args, "--dry-run", "--store", str(tmp_path / "store")]) == 0
        return capsys.readouterr().out

    return run


def test_a_forecast_fits_100_columns_and_rounds_are_one_line(dry_run):
    said = dry_run("nq_ar2_sieve")
    table = said.partition("\n\n")[0].splitlines()
    assert len(table) < 45 and max(map(len, table)) <= 100
    rounds = [line.split() for line in table if line.startswith("train_ar2@")]
    assert [row[:2] for row in rounds] == [["train_ar2@*", "x10"], ["train_ar2@continued@*", "x10"]]
    assert all(row[-1] == "gpu" for row in rounds)
    (encode,) = [line for line in table if line.startswith("encode@zero_shot")]
    assert encode.split()[:4] == ["encode@zero_shot", "?", "21,027,691", "texts"] and "32.3 GB" in encode
    for text in (
        "sizes       expected ones (TriSampler, Table 1",
        "assumed: 100 TFLOP/s (--gpu-tflops)",
        "published   ar2_continued test AnswerMatch@20 0.864: passage sieve, Table 1",
        "not there   data/dpr is not a folder: set data.path to the folder with psgs_w100.tsv",
        "noisyir fetch nghuyong/ernie-2.0-base-en",
    ):
        assert text in said, text


def test_json_has_every_step_and_the_totals(dry_run):
    said = json.loads(dry_run("msmarco_doc_ar2", "--json", "--gpu-tflops", "200"))
    steps = {step["name"]: step for step in said["steps"]}
    assert (
        steps["train_ar2@9"]["key"] is None
        and steps["train_ar2@9"]["state"] == "would run"
        and steps["train_ar2@9"]["from"] == "gpu"
    )
    assert steps["train_ar2@9"]["seconds"] == pytest.approx(steps["train_ar2@9"]["flops"] / 200e12)
    total = sum(step["seconds"] for step in steps.values() if step["from"] == "gpu")
    assert said["total"]["seconds"]["gpu"] == pytest.approx(total)
    assert said["total"]["ram"] == max(step["ram"] for step in steps.values())
    assert said["sizes"]["documents"] == 3213835 and len(said["absent"]) == 3


@pytest.mark.parametrize("name", ["squad_cds_small", "nq_cds"])
def test_readers_are_forecast_too(dry_run, name):
    said = dry_run(name)
    (trained,) = [line for line in said.splitlines() if line.startswith("train_reader@cds_pa")]
    assert trained.split()[1] == "?" and "questions" in trained and trained.split()[-1] == "gpu"
    assert "sizes       expected ones" in said and "steps    no time" not in said


def test_part_of_a_plan_costs_that_part(dry_run):
    whole, part = (json.loads(dry_run("nq_dpr", "--json", *more)) for more in ((), ("--to", "encode@zero_shot")))
    states = {step["name"]: step["state"] for step in part["steps"]}
    assert (states["encode@zero_shot"], states["train_dpr@dpr"]) == ("would run", "not chosen")
    assert part["total"]["disk"] < whole["total"]["disk"] / 4


def test_a_run_is_refused_at_once_where_the_data_is_not_there(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["run", "nq_ar2", "--store", str(tmp_path / "store")]) == 1
    said = capsys.readouterr()
    assert said.out == "" and "data/dpr is not a folder" in said.err
    assert not list((tmp_path / "store").glob("*/*"))


def test_a_speed_must_be_a_number_above_zero(capsys):
    for wrong in ("0", "-1", "fast", "inf"):
        with pytest.raises(SystemExit) as ended:
            main(["run", "demo", "--dry-run", "--gpu-tflops", wrong])
        assert ended.value.code == 2


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
        (99, "99 s"),
        (150, "2 min"),
        (5999, "100 min"),
        (7200, "2.0 h"),
        (1e7, "2,777.8 h"),
    ],
)
def test_durations_are_said_in_the_unit_that_reads_best(seconds, text):
    assert duration(seconds) == text
