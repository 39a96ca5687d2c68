"""The pipeline as a real Prefect flow, on a tiny collection, under Prefect's test server."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from base64 import b64decode
from pathlib import Path
from uuid import UUID
from xml.etree import ElementTree

import pytest

from noisyir.app import runs
from noisyir.app.runs import Execution, Outcome
from noisyir.base.errors import ConfigError, DataError
from noisyir.base.settings import Params
from noisyir.corruption.kinds.other_documents import Group
from noisyir.engine.meta import Meta
from noisyir.engine.plan import Choice, Plan
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Job, Stage, Step
from noisyir.engine.store import Store
from noisyir.evaluation.artifacts import REPORT
from noisyir.methods import experiments
from noisyir.methods.plans.experiment import Experiment
from noisyir.methods.plans.retrievers import train_retriever as plan_of
from noisyir.registry.backend import connect
from noisyir.registry.tracker import Tracker
from tests.flows.graph import arrows, arrows_of_plan, nodes_of
from tests.flows.recorded import read_flow_run, task_runs
from tests.tiny import SETTINGS, tiny_data

pytestmark = pytest.mark.usefixtures("prefect_api")

ROOT = Path(__file__).parents[2]


class Watched(Tracker):
    """Notes what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[tuple[str, str]] = []

    def tag(self, name: str, value: str) -> None:
        self.tags[name] = value

    def started(self, step: Step) -> None:
        self.events.append(("started", step.name))

    def finished(self, step: Step, meta: Meta, cached: bool) -> None:
        self.events.append(("cached" if cached else "finished", step.name))

    def failed(self, step: Step, error: BaseException) -> None:
        self.events.append(("failed", step.name))

    @property
    def flow_run(self) -> UUID:
        return UUID(self.tags["flow_run"])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def artifacts(home: Path) -> Store:
    return Store(home / "store", home=home)


@pytest.fixture(scope="module")
def exp(home: Path) -> Experiment:
    return experiments.load("demo", [*SETTINGS, *tiny_data(home / "beir")])


def flow_run(exp: Experiment, store: Store, choice: Choice | None = None) -> tuple[Outcome, Watched]:
    from noisyir.flows.train_retriever import run_experiment

    tracker = Watched()
    outcome = run_experiment(
        exp, choice or Choice(), Execution(store=store, runtime=Runtime(device="cpu"), tracker=tracker)
    )
    return outcome, tracker


@pytest.fixture(scope="module")
def first(prefect_api, exp: Experiment, artifacts: Store) -> tuple[Outcome, Watched]:
    """The first run: every stage executes."""
    return flow_run(exp, artifacts)


def test_every_step_is_a_completed_task_run_of_its_name(first, exp: Experiment):
    outcome, tracker = first
    steps = plan_of(exp).steps
    found = task_runs(tracker.flow_run, len(steps))
    assert [run.name for run in found] == [step.name for step in steps] == list(outcome.results)
    assert {run.state_name for run in found} == {"Completed"}
    assert [run.tags for run in found] == [[step.stage.pool] for step in steps]
    assert outcome.executed == len(steps) and set(outcome.kept) >= {"model", "comparison", "report"}


def test_the_page_has_the_plans_edges_and_no_box_twice(first, exp: Experiment):
    steps = plan_of(exp).steps
    nodes = nodes_of(first[1].flow_run, len(steps))
    assert sorted(node["label"] for node in nodes) == sorted(step.name for step in steps)
    found, every = arrows(nodes), sum(len({output.step for output in step.outputs_needed()}) for step in steps)
    assert found == arrows_of_plan(steps) and len(steps) < len(found) < every


def test_the_flow_run_shows_what_was_asked_for(first):
    run = read_flow_run(first[1].flow_run)
    assert (run.name, run.state_name) == ("demo: dpr, npc, seed 42", "Completed")
    assert run.parameters["experiment"]["train"]["epochs"] == 2
    assert run.parameters["runtime"]["device"] == "cpu"


def test_each_new_build_is_a_table_among_the_artifacts(first, exp: Experiment):
    from prefect import get_client
    from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId

    outcome, tracker = first
    with get_client(sync_client=True) as client:
        chosen = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[tracker.flow_run]))
        artifacts = client.read_artifacts(artifact_filter=chosen)
    assert all(artifact.description for artifact in artifacts), "what Prefect's page shows of each in its list"
    found = {artifact.key: artifact.data for artifact in artifacts}
    stages = {step.name.replace("@", "-").replace("_", "-") for step in plan_of(exp).steps}
    assert {key for key in found if not key.endswith("-progress")} == stages | {"stages", "evaluation", "chart"}
    picture = b64decode(found["chart"].partition("base64,")[2]).decode()
    assert ElementTree.fromstring(picture).tag == "{http://www.w3.org/2000/svg}svg"
    assert "interval accent" in picture and "--ink" in picture
    (model,) = [row for row in json.loads(found["train-npc-npc"]) if row["artifact"] == "model"]
    assert model["digest"] == outcome.kept["model"].digest


def test_the_callers_observers_follow_the_stages(first):
    outcome, tracker = first
    assert tracker.events == [(event, name) for name in outcome.results for event in ("started", "finished")]


def test_a_second_run_executes_nothing_under_either_engine(first, exp: Experiment, artifacts: Store):
    again, tracker = flow_run(exp, artifacts)
    assert (again.executed, again.kept) == (0, first[0].kept)
    assert {event for event, _ in tracker.events} == {"cached"}
    run, built = read_flow_run(tracker.flow_run), read_flow_run(first[1].flow_run)
    assert {(task.state_name, task.state_type.value) for task in task_runs(tracker.flow_run, again.cached)} == {
        ("Cached", "COMPLETED")
    }
    assert re.fullmatch(rf"0 built, {again.cached} cached; best: .+ [01]\.\d+", run.state.message)
    assert built.state.message == run.state.message.replace(
        f"0 built, {again.cached} cached", f"{again.cached} built, 0 cached"
    )
    local = runs.run_experiment(exp, Choice(), Execution(store=artifacts))
    assert local.executed == 0


@pytest.mark.parametrize("lost", ["search@npc", "train_dpr@dpr", pytest.param("train_npc@npc", marks=pytest.mark.slow)])
def test_a_deleted_artifact_is_rebuilt_and_nothing_else(first, exp: Experiment, artifacts: Store, lost: str):
    meta = first[0].results[lost].meta
    artifacts.builds.remove(artifacts.builds.of_key(meta.stage, meta.key)[0])
    outcome, _ = flow_run(exp, artifacts)
    assert [name for name, result in outcome.results.items() if not result.cached] == [lost]  # to the same bytes


def test_part_of_the_pipeline_can_be_chosen(first, exp: Experiment, artifacts: Store):
    outcome, tracker = flow_run(exp, artifacts, Choice(only="compare", refresh=("compare",)))
    assert [run.name for run in task_runs(tracker.flow_run, 1)] == ["compare"] == list(outcome.results)
    assert outcome.executed == 1


def test_a_users_error_arrives_as_it_is_and_is_not_retried(first, exp: Experiment, artifacts: Store, tmp_path: Path):
    empty = Store(tmp_path / "store", home=tmp_path)
    unsourced = exp.model_copy(update={"noise": Group(rate=0.5)})
    from noisyir.flows.train_retriever import run_experiment

    tracker = Watched()
    message = r"(?s)^noise.kind=group needs pairs with a source.*\nin step corrupt\ntraceback in [^\n]*\.log$"
    with pytest.raises(DataError, match=message):
        run_experiment(unsourced, Choice(to="corrupt"), Execution(store=empty, tracker=tracker))
    ended = read_flow_run(tracker.flow_run).state
    assert ended.name == "Failed" and ended.message.startswith("corrupt: noise.kind=group needs pairs with a source")
    assert [(run.name, run.state_name, run.run_count) for run in task_runs(tracker.flow_run, 2)] == [
        ("ingest", "Completed", 1),
        ("corrupt", "Failed", 1),
    ]
    assert tracker.events[-1] == ("failed", "corrupt")


def test_another_error_is_tried_once_more(store: Store, monkeypatch: pytest.MonkeyPatch):
    from prefect import flow

    from noisyir.tasks import stage_task

    monkeypatch.setattr(stage_task, "RETRY_AFTER_SECONDS", 0)
    tries = []

    def fails_once(job: Job[Params]) -> None:
        tries.append(job.step.name)
        if len(tries) == 1:
            raise RuntimeError("CUDA went away")
        (job.new_folder("report") / "report.html").write_text("done")

    plan = Plan(0)
    plan.add(Stage("flaky", 1, Params, {}, {"report": REPORT}, fails_once), Params())
    tracker = Watched()

    @flow
    def once() -> bool:
        with stage_task.through_tasks(store=store, runtime=Runtime(), observer=tracker) as run_step:
            return run_step(plan.steps[0], {}, False).cached

    assert once() is False
    assert [event for event, _ in tracker.events] == ["started", "failed", "started", "finished"]


def test_a_deployment_runs_by_name_and_tracks_by_itself(first, exp: Experiment, artifacts: Store, tracked_home: Path):
    from noisyir.flows.train_retriever import train_retriever

    overrides = (*SETTINGS, f"data.path={exp.data.path}", f"model.weights={exp.model.weights}")
    outcome = train_retriever("demo", overrides=overrides, store=artifacts.url, to="corrupt")
    assert (outcome.executed, list(outcome.results)) == (0, ["ingest", "corrupt"])
    client = connect(tracked_home).client  # of this test alone: the facts may be another test's, of the same builds
    (tracked,) = client.search_runs([client.get_experiment_by_name("noisyir-demo").experiment_id])
    assert read_flow_run(UUID(tracked.data.tags["flow_run"])).name == "demo: dpr, npc, seed 42"


def test_a_run_that_built_nothing_has_a_row_in_mlflow(first, exp: Experiment, artifacts: Store, tracked_home: Path):
    from noisyir.flows.train_retriever import train_retriever

    overrides = (*SETTINGS, f"data.path={exp.data.path}", f"model.weights={exp.model.weights}")
    registered, again = (train_retriever("demo", overrides=overrides, store=artifacts.url) for _ in range(2))
    assert registered.facts["registered"] and (again.executed, again.facts) == (0, registered.facts)
    client = connect(tracked_home).client
    rows = client.search_runs([client.get_experiment_by_name("noisyir-demo").experiment_id])
    (row,) = [one for one in rows if one.info.run_id != registered.facts["mlflow_run"]]
    assert (row.info.run_name, row.info.status) == (f"demo · 0 built, {again.cached} cached", "FINISHED")
    assert row.data.tags["repeats"] == registered.facts["mlflow_run"] and row.data.metrics
    assert read_flow_run(UUID(row.data.tags["flow_run"])).state.message.startswith(f"0 built, {again.cached} cached; ")


def test_a_server_that_is_not_there_is_one_clear_line(exp: Experiment, artifacts: Store):
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with (
        temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}),
        pytest.raises(ConfigError, match=r"^Prefect does not answer at http://127.0.0.1:9/api: .*--engine local$"),
    ):
        flow_run(exp, artifacts)


def test_the_command_line_needs_no_server_and_prints_only_its_own(prefect_database, exp: Experiment, tmp_path: Path):
    (tmp_path / "prefect").mkdir()
    shutil.copy(prefect_database, tmp_path / "prefect" / "prefect.db")  # for its migrations take as long as the rest
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT")}
    arguments = ["run", "demo", *SETTINGS, f"data.path={exp.data.path}", "--to", "corrupt", "--engine", "prefect"]
    done = subprocess.run(
        [sys.executable, "-m", "noisyir.front.cli", *arguments, "--no-track", "--json"],
        cwd=ROOT,
        env=environment | {"NOISYIR_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert [step["name"] for step in json.loads(done.stdout)["steps"]] == ["ingest", "corrupt"]
    assert "prefect" not in done.stderr.lower() and "Traceback" not in done.stderr
    with sqlite3.connect(tmp_path / "prefect" / "prefect.db") as database:
        rows = database.execute("select name, state_name from task_run order by start_time").fetchall()
        lines = database.execute("select count(*) from log where message like 'built %'").fetchone()[0]
        ends = database.execute("select message from log where message like 'Finished in%step=%'").fetchall()
    assert rows == [("ingest", "Completed"), ("corrupt", "Completed")]
    assert lines == 2 and [re.findall(r"step=(\w+)", end) for (end,) in ends] == [["ingest"], ["corrupt"]]
