"""Runs in MLflow: what a pipeline leaves there, and what happens when a stage or MLflow itself fails."""

import logging
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Timer

import pytest

from noisyir.app.runs import Outcome
from noisyir.base.errors import ConfigError, DataError
from noisyir.base.settings import Params
from noisyir.engine.build_stage import run_stage
from noisyir.engine.outside_errors import without_password
from noisyir.engine.plan import Plan
from noisyir.engine.provenance import git_commit
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Stage, Step
from noisyir.engine.store import Store
from noisyir.methods import experiments
from noisyir.methods.plans.experiment import Experiment
from noisyir.methods.plans.retrievers import train_retriever
from noisyir.registry import open_tracker
from noisyir.registry.backend import Backend, connect
from noisyir.registry.tracker import Tracker
from tests.local import free_port
from tests.unit.registry.conftest import run_tiny


@pytest.fixture(scope="module")
def runs(tracked: tuple[Path, Outcome]) -> dict:
    """The tracked pipeline's MLflow runs by name, the parent by its experiment's."""
    client = connect(tracked[0]).client
    (experiment,) = client.search_experiments(filter_string="name = 'noisyir-demo'")
    found = client.search_runs([experiment.experiment_id])
    assert len({run.info.run_name.split(" · ")[0] for run in found}) == len(found)
    return {run.info.run_name.split(" · ")[0]: run for run in found}


def test_one_parent_run_and_one_nested_run_for_each_executed_stage(tracked, runs):
    _, outcome = tracked
    parent = runs.pop("demo")
    assert parent.info.run_id == outcome.facts["mlflow_run"]
    assert set(runs) == set(outcome.results)
    for name, run in runs.items():
        meta = outcome.results[name].meta
        assert run.info.status == "FINISHED"
        assert run.data.tags["mlflow.parentRunId"] == parent.info.run_id
        assert (run.data.tags["stage"], run.data.tags["key"]) == (meta.stage, meta.key)
        assert run.data.tags.get("git_commit") == git_commit()
        assert run.data.metrics["seconds"] == meta.seconds
        for artifact, contents in meta.artifacts.items():
            assert run.data.tags[f"digest.{artifact}"] == contents.digest
            assert run.data.metrics.get(f"rows.{artifact}") == contents.rows
    runs["demo"] = parent


@pytest.mark.parametrize(("wanted", "measured"), [("true", True), ("false", False), (None, False)])
def test_how_busy_the_machine_is_can_be_measured_too(tmp_path, monkeypatch, wanted, measured):
    monkeypatch.setenv("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL", "0.1")
    monkeypatch.delenv("MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING", raising=False)
    if wanted:
        monkeypatch.setenv("MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING", wanted)
    plan = Plan(0)
    plan.add(Stage("idle", 1, Params, {}, {}, lambda job: time.sleep(1)), Params())
    tracker = open_tracker(experiment=experiments.load("demo"), home=tmp_path)
    store = Store(tmp_path / "store", home=tmp_path)
    run_stage(plan.steps[0], {}, store=store, runtime=Runtime(device="cpu"), observer=tracker)
    client = connect(tmp_path).client
    (experiment,) = client.search_experiments(filter_string="name = 'noisyir-demo'")
    (run,) = (run for run in client.search_runs([experiment.experiment_id]) if run.info.run_name == "idle")
    assert run.info.status == "FINISHED" and "seconds" in run.data.metrics
    assert ("system/cpu_utilization_percentage" in run.data.metrics) == measured


def test_settings_are_params_flattened_by_dots(runs):
    assert runs["demo"].data.params["train.epochs"] == runs["train_dpr@dpr"].data.params["epochs"] == "2"
    assert runs["train_dpr@dpr"].data.params["seed"] == "42"
    assert "seed" not in runs["bm25"].data.params


def test_inputs_are_datasets_known_by_digest(tracked, runs):
    _, outcome = tracked
    logged = {item.dataset.name: item.dataset.digest for item in runs["train_npc@npc"].inputs.dataset_inputs}
    used = dict(outcome.results["train_npc@npc"].meta.input_refs())
    assert logged == {name: ref.digest[:36] for name, ref in used.items()}
    assert [item.dataset.source_type for item in runs["ingest"].inputs.dataset_inputs] == ["raw"]


def test_the_training_curve_is_there_in_full(tracked, runs):
    home, outcome = tracked
    store = Store(home / "store", home=home)
    curves = store.builds.table(outcome.results["train_npc@npc"].meta.ref("curves"), ["name", "step", "value"])
    client = connect(home).client
    wanted: dict[str, list[tuple[int, float]]] = {}
    for row in curves.to_pylist():
        wanted.setdefault(row["name"].replace("@", "_"), []).append((row["step"], row["value"]))
    assert wanted
    for name, points in wanted.items():
        history = client.get_metric_history(runs["train_npc@npc"].info.run_id, name)
        assert [point.step for point in history] == [step for step, _ in points]
        assert [point.value for point in history] == pytest.approx([value for _, value in points])


def test_measures_note_and_report_are_in_the_parent_run(tracked, runs):
    home, outcome = tracked
    store, parent = Store(home / "store", home=home), runs["demo"]
    assert re.fullmatch(r"demo · npc · [01]\.\d{3}", parent.info.run_name), "its kept system and value"
    rows = store.builds.table(outcome.kept["comparison"], ["system", "measure", "mean"]).to_pylist()
    assert {row["system"] for row in rows} == {
        "bm25",
        *(f"{n}{h}" for n in ("zero_shot", "dpr", "npc") for h in ("", "_hybrid")),
    }
    for row in rows:
        assert parent.data.metrics[f"{row['system']}.{row['measure'].replace('@', '_')}"] == row["mean"]
    note = parent.data.tags["mlflow.note.content"]
    assert "**npc** (this model)" in note and note.startswith("demo: "), "MLflow's lists show its first line as it is"
    source = store.builds.of_key("ingest", outcome.results["ingest"].meta.key)[0].raw["source"]
    assert f"{Path(runs['ingest'].data.params['path']).name}, digest {source[:12]}: " in note
    files = [item.path for item in connect(home).client.list_artifacts(parent.info.run_id, "report")]
    assert "report/report.html" in files


def test_a_cached_run_imports_no_mlflow_and_creates_nothing(tracked, runs, collection: Path):
    home, outcome = tracked
    code = (
        "import sys; from pathlib import Path; from tests.unit.registry.conftest import run_tiny;"
        "sys.modules['mlflow'] = None;"
        "o = run_tiny(Path(sys.argv[1]), Path(sys.argv[2])); print(o.executed, o.facts['registered'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, home, collection],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split(maxsplit=1) == ["0", outcome.facts["registered"] + "\n"]
    client = connect(home).client
    assert len(client.search_runs([runs["demo"].info.experiment_id])) == len(runs)


def test_one_stage_again_leaves_a_run_that_names_it_and_one_from_the_store_leaves_none(
    tracked, collection: Path, tmp_path
):
    home = shutil.copytree(tracked[0], tmp_path / "home")
    client = connect(home).client
    before = client.search_runs(["1"])
    for refresh in ((), ("compare",)):
        run_tiny(home, collection, only="compare", refresh=refresh)
    new = [one for one in client.search_runs(["1"]) if one.info.run_id not in {old.info.run_id for old in before}]
    assert sorted(one.info.run_name for one in new) == ["compare", "demo · compare"]


def test_telemetry_is_off_and_stdout_stays_clean(migrated: Path):
    code = (
        "import sys; from pathlib import Path; from noisyir.registry.backend import connect;"
        "connect(Path(sys.argv[1]));"
        "from mlflow.telemetry.client import get_telemetry_client; assert get_telemetry_client() is None"
    )
    done = subprocess.run([sys.executable, "-c", code, migrated], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


@pytest.fixture
def tracker(home: Path, tiny: Callable[..., Experiment]) -> Tracker:
    return open_tracker(experiment=tiny(), home=home)


@pytest.fixture
def step(tiny: Callable[..., Experiment]) -> Step:
    return train_retriever(tiny()).named("train_dpr")[0]


def statuses(backend: Backend) -> dict[str, str]:
    found = backend.client.search_runs([backend.experiment_id("noisyir-demo")])
    return {run.info.run_name: run.info.status for run in found}


def test_long_curves_arrive_whole(tracker: Tracker, step: Step, backend: Backend):
    tracker.started(step)
    for at in range(2345):
        tracker.metric(step, "loss", 1 / (at + 1), at)
    tracker.failed(step, DataError("enough"))
    (run,) = backend.client.search_runs([backend.experiment_id("noisyir-demo")], "tags.stage = 'train_dpr'")
    history = backend.client.get_metric_history(run.info.run_id, "loss")
    assert [(point.step, point.value) for point in history] == [(at, 1 / (at + 1)) for at in range(2345)]


@pytest.mark.parametrize(("error", "status"), [(DataError("no file\nx"), "FAILED"), (KeyboardInterrupt(), "KILLED")])
def test_a_failed_stage_ends_its_run_and_the_parent(tracker, step, backend, error, status):
    tracker.started(step)
    tracker.failed(step, error)
    tracker.abort(error)
    assert statuses(backend) == {"demo": status, "train_dpr@dpr": status}
    (run,) = backend.client.search_runs([backend.experiment_id("noisyir-demo")], "tags.stage = 'train_dpr'")
    assert run.data.tags["error"] in ("no file x", "KeyboardInterrupt")


def test_a_retried_stage_has_a_run_for_each_try(tracker: Tracker, step: Step, backend: Backend):
    tracker.started(step)
    tracker.failed(step, OSError("lost a disk"))
    tracker.started(step)
    runs = backend.client.search_runs([backend.experiment_id("noisyir-demo")], "tags.stage = 'train_dpr'")
    assert sorted(run.info.status for run in runs) == ["FAILED", "RUNNING"]


def test_aborting_before_any_stage_creates_nothing(tracker: Tracker, backend: Backend):
    tracker.abort(DataError("no such file"))
    assert statuses(backend) == {}


def test_losing_mlflow_warns_once_and_does_not_stop_the_run(
    tracker: Tracker, step: Step, home: Path, caplog: pytest.LogCaptureFixture
):
    tracker.started(step)
    with (home / "mlflow.db").open("r+b") as database:
        database.write(bytes(1_000_000))
    with caplog.at_level(logging.WARNING, "noisyir"):
        tracker.failed(step, DataError("x"))
        tracker.started(step)
        assert tracker.finish(Store(home / "store", home=home), {}) == {}
    said = [record.message.split(",")[0] for record in caplog.records if record.name.startswith("noisyir")]
    assert said == ["MLflow is lost"]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("http://ann:s3cret@host:5000/x: no", "http://host:5000/x: no"),
        ("postgresql+psycopg2://ann:p@ss@db/mlflow", "postgresql+psycopg2://db/mlflow"),
        ("models:/noisyir-retriever@champion at sqlite:////a/b@c.db", None),
    ],
)
def test_messages_keep_passwords_back(said: str, shown: str | None):
    assert without_password(said) == (shown or said)


def test_a_server_that_is_not_there_is_one_clear_line_without_the_password(
    tracker: Tracker, step: Step, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://ann:s3cret@127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    said = r"cannot open MLflow at http://127\.0\.0\.1:9: .* with --no-track$"
    with pytest.raises(ConfigError, match=said) as caught:
        tracker.started(step)
    assert "s3cret" not in str(caught.value)


def test_no_tracking_keeps_nothing(tiny: Callable[..., Experiment], tmp_path: Path):
    tracker = open_tracker(experiment=tiny(), home=tmp_path, enabled=False)
    assert type(tracker) is Tracker
    assert tracker.finish(Store(tmp_path / "store", home=tmp_path), {}) == {}
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_is_starting_is_waited_for(home: Path, monkeypatch, caplog):
    port = free_port()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    waiting = open_tracker(experiment=experiments.load("demo", []), home=home, patience=60)
    starting = Timer(1.0, _serve, (port,))
    starting.daemon = True
    starting.start()
    with caplog.at_level(logging.WARNING, "noisyir"):
        waiting.ready(new=True)
    assert [record.message.split(",")[0] for record in caplog.records] == ["waiting for MLflow"]


def _serve(port: int) -> None:
    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

    HTTPServer(("127.0.0.1", port), Answer).serve_forever()


def test_a_server_s_addresses_do_not_stand_between_the_lines_of_a_run():
    from mlflow.environment_variables import MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT

    assert MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT.get()
