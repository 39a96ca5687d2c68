"""`noisyir bench noise` from the command line: killed and continued, nothing done twice, and its page."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from noisyir.engine.store import Store
from noisyir.front.cli import main
from tests.local import until
from tests.tiny import tiny_data

SUITE = """
experiment:
  name: tiny
  data: {{kind: beir, path: {path}}}
  model: {{weights: {path}/words}}
  train: {{epochs: 2, learning_rate: 0.01, batch_size: 16, dev_queries: 0}}
  encode: {{splits: [test]}}
  search: {{top_k: 10}}
  score: {{splits: [test], measures: [RR@10]}}
  detectors: {{bm25: {{kind: bm25_margin}}}}
noise: [{{rate: 0.4}}]
methods: [dpr, oracle]
"""


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("suite")
    path = folder / "tiny.yaml"
    tiny_data(folder / "beir")
    path.write_text(SUITE.format(path=folder / "beir"))
    return path


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def bench(home: Path, suite: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """`bench("--seeds", 2, ...)`: run the suite in this process; (exit code, stdout, stderr)."""

    def run(*args: object, home: Path = home) -> tuple[int, str, str]:
        monkeypatch.setenv("NOISYIR_HOME", str(home))
        capsys.readouterr()
        code = main(["bench", "noise", "--suite", str(suite), *map(str, args)])
        return code, *capsys.readouterr()

    return run


def children_of(parent: int) -> set[int]:
    """Processes that `parent` began and that have not ended."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in listed.splitlines()]
    return {int(pid) for pid, ppid, state in rows if int(ppid) == parent and not state.startswith("Z")}


def has_ended(pid: int) -> bool:
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
    return not state or state.startswith("Z")


def states(stderr: str) -> dict[str, str]:
    """What the progress lines say of each step: `cached`, or how long it took."""
    return {line.split()[0]: line.split()[1] for line in stderr.splitlines() if line.startswith("  ")}


def forecast(stdout: str) -> dict[str, str]:
    found = re.findall(r"^(?!time )(\S+) .* (cached|never run here|newest build [\d.]+ s)", stdout, re.MULTILINE)
    return {name: state if state == "cached" else "would run" for name, state in found}


@pytest.fixture(scope="module")
def killed(home: Path, suite: Path) -> set[str]:
    """A bench of two seeds, killed as soon as the noisy pairs are there; the names of the builds that it left."""
    command = [sys.executable, "-m", "noisyir.front.cli", "bench", "noise", "--suite", str(suite), "--seeds", "2"]
    environment = {**os.environ, "NOISYIR_HOME": str(home)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        until(lambda: len(list(home.glob("store/corrupt/*/*/_meta.json"))) == 2, 240)
        workers = children_of(process.pid)
        os.kill(process.pid, signal.SIGKILL)
    assert workers
    until(lambda: all(map(has_ended, workers)), 240)  # a killed bench leaves no processes behind
    store = Store(home / "store", home=home)
    assert not any(store.builds.verify(meta) for meta in store.builds.all())
    return {meta.build for meta in store.builds.all()}


def test_a_killed_bench_continues_and_a_finished_one_runs_nothing(killed, bench, home, tmp_path):
    assert not list(home.glob("store/noise_table/*/*")), "killed too late to disturb"
    code, out, err = bench("--seeds", 2, "--jobs", 2, "--out", tmp_path / "made")
    assert code == 0, err
    ran = states(err)
    assert {ran[name] for name in ("ingest", "corrupt@uniform:0.4:0", "corrupt@uniform:0.4:1")} == {"cached"}
    trained = {name for name in ran if name.startswith("train_dpr")}
    assert trained == {f"train_dpr@uniform:0.4:{seed}:{method}" for seed in (0, 1) for method in ("dpr", "oracle")}

    store = Store(home / "store", home=home)
    assert killed <= {meta.build for meta in store.builds.all()}  # what was done before the kill was not done again
    page = (tmp_path / "made" / "bench.md").read_text()
    assert page in out and (tmp_path / "made" / "bench.html").read_text().startswith("<!doctype html>")
    (table,) = [meta for meta in store.builds.all() if meta.stage == "noise_table"]
    values = store.builds.table(table.ref("bench_values")).to_pylist()
    assert len(values) == 2 * 2 * 12 and {(row["method"], row["seed"]) for row in values} == {
        (method, seed) for method in ("dpr", "oracle") for seed in (0, 1)
    }
    summary = store.builds.table(table.ref("bench_summary")).to_pylist()
    for row in summary:
        mean = sum(v["value"] for v in values if v["method"] == row["method"]) / 24
        assert row["mean"] == pytest.approx(mean) and f"{mean:.3f}" in page

    code, _, err = bench("--seeds", 2, "--jobs", 2)
    again = states(err)
    assert code == 0 and set(again) == set(ran) and set(again.values()) == {"cached"}


def test_a_dry_run_builds_nothing_and_tells_what_a_change_would_cost(killed, bench, tmp_path):
    code, out, _ = bench("--seeds", 2, "--dry-run", home=tmp_path)
    assert code == 0 and set(forecast(out).values()) == {"would run"} and not (tmp_path / "store").exists()
    code, out, _ = bench("--seeds", 2, "--dry-run")
    assert code == 0 and set(forecast(out).values()) == {"cached"}
    _, out, _ = bench("--seeds", 2, "--dry-run", "methods=[dpr,oracle,drop]")
    more = {name for name, state in forecast(out).items() if state == "would run"}
    of_drop = ("train_dpr", "encode", "index", "search", "score")
    assert more == {f"{stage}@uniform:0.4:{seed}:drop" for stage in of_drop for seed in (0, 1)} | {"noise_table"}
    _, out, _ = bench("--seeds", 1, "--dry-run", "--refresh", "detect")
    assert {name for name, state in forecast(out).items() if state == "would run"} == {
        "detect@uniform:0.4:0", "score_detection@uniform:0.4:0", "noise_table",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--jobs", "0"], "0 is no number of steps at a time"),
        (["--seeds", "0"], "--seeds is a number of seeds: give 1 or more"),
        (["methods=[dpr]", "table.reference=oracle"], "no method 'oracle'"),
        (["experiment.data.path=nowhere"], "nowhere is not a folder"),
        (["--suite", "pidocs"], "no suite 'pidocs' (did you mean pydocs?)"),
    ],
)
def test_what_cannot_be_run_is_one_line_and_builds_nothing(bench, tmp_path, args, message):
    code, out, err = bench(*args, home=tmp_path)
    assert (code, out) == (1, "") and err.startswith("noisyir: ") and message in err and len(err.splitlines()) == 1
    assert not list(tmp_path.glob("store/[!.]*"))


def test_a_page_that_cannot_be_copied_is_said_in_one_line(killed, bench, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = bench("--seeds", 2, "--out", tmp_path / "file")
    assert code == 1 and f"cannot write to the folder --out {tmp_path / 'file'}" in err.splitlines()[-1]
