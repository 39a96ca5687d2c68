"""Stages sent to another pool: by whom they are run, what comes back, and what is said when nobody can run them."""

import shlex
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from noisyir.base.errors import ConfigError, NoisyirError
from noisyir.engine.known_stages import stage_named
from noisyir.engine.plan import failed_step
from noisyir.engine.store import Store
from noisyir.methods import experiments
from noisyir.methods.plans.planning import pipeline_of
from noisyir.registry.backend import connect
from tests.flows.graph import arrows, nodes_of
from tests.flows.test_bench_command import SUITE
from tests.flows.workers import deploy, worker
from tests.tiny import SETTINGS, tiny_data

pytestmark = pytest.mark.usefixtures("prefect_api")

SHORT = (*SETTINGS, "methods=[dpr]", "train.epochs=1")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    tiny_data(home / "beir")
    return home


def settings(home: Path, *more: str) -> tuple[str, ...]:
    return (*SHORT, f"data.path={home / 'beir'}", f"model.weights={home / 'beir' / 'words'}", *more)


def run(home: Path, *more: str, **parameters):
    from noisyir.flows.train_retriever import train_retriever
    from noisyir.tasks.dispatch import Pools

    pools = Pools(elsewhere=parameters.pop("elsewhere", ("gpu",)), patience_seconds=parameters.pop("patience", 240))
    store = str(home / "store")
    return train_retriever("demo", overrides=settings(home, *more), store=store, pools=pools, **parameters)


def parent_of(child):
    from prefect import get_client

    with get_client(sync_client=True) as client:
        return client.read_task_run(child.parent_task_run_id).flow_run_id


def stage_runs(pool: str) -> list:
    from prefect import get_client
    from prefect.client.schemas.filters import WorkPoolFilter, WorkPoolFilterName

    with get_client(sync_client=True) as client:
        return client.read_flow_runs(work_pool_filter=WorkPoolFilter(name=WorkPoolFilterName(any_=[pool])))


@pytest.mark.timeout(600)
@pytest.mark.slow  # a worker starts a process of Prefect for each of two runs
def test_the_pools_worker_builds_and_the_parent_reads_the_store(home: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("NOISYIR_HOME", str(home))
    deploy("gpu")
    with worker("gpu", tmp_path / "worker.log"):
        outcome = run(home, to="train_dpr")
        assert not any(result.cached for result in outcome.results.values())
        (child,) = stage_runs("gpu")
        assert (child.name, child.state_name, child.tags) == ("train_dpr@dpr", "Completed", ["gpu"])
        assert child.parent_task_run_id is not None  # so that it is cancelled with its parent

        nodes = nodes_of(parent_of(child), len(outcome.results))
        boxes = {node["label"]: node for node in nodes if node["kind"] == "task-run"}
        assert sorted(boxes) == sorted(outcome.results) and len(nodes) == len(boxes) + 1
        assert {("corrupt", "train_dpr@dpr"), ("init_model", "train_dpr@dpr")} <= arrows(nodes)
        (inside,) = [node for node in nodes if node["kind"] == "flow-run"]
        assert inside["encapsulating"] == [{"id": boxes["train_dpr@dpr"]["id"]}]

        again = run(home, to="train_dpr")
        assert again.executed == 0 and len(stage_runs("gpu")) == 1

        message = r"^stage train_dpr@dpr: on the pool gpu failed: ConfigError: .*/runs/flow-run/"
        with pytest.raises(NoisyirError, match=message):
            run(home, "train.pool=own", to="train_dpr")

    client = connect(home).client
    stages = client.search_runs(
        [client.get_experiment_by_name("noisyir-demo").experiment_id], "tags.stage = 'train_dpr'"
    )
    built = [one for one in stages if one.info.status == "FINISHED"]
    assert [one.data.tags["mlflow.parentRunId"] for one in built] == [outcome.facts["mlflow_run"]]
    assert UUID(built[0].data.tags["flow_run"]) == child.id


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_stages_of_a_pool_that_follow_each_other_go_together_and_one_that_fails_is_named(
    home: Path, tmp_path: Path, monkeypatch
):
    monkeypatch.setenv("NOISYIR_HOME", str(home))
    deploy("gpu")
    before = {child.id for child in stage_runs("gpu")}
    with worker("gpu", tmp_path / "worker.log"):
        outcome = run(home, "data.max_held_out=8", to="search")
        (child,) = [child for child in stage_runs("gpu") if child.id not in before]
        together = ["encode@zero_shot", "index@zero_shot", "train_dpr@dpr", "encode@dpr", "index@dpr"]
        assert child.name == ", ".join(together)
        assert not any(outcome.results[name].cached for name in together)
        assert {outcome.results[name].meta.stage for name in together} == {"encode", "index", "train_dpr"}
        same_bytes = run(home, "data.max_held_out=8", to="search", refresh=("encode@dpr",))
        assert [name for name, result in same_bytes.results.items() if not result.cached] == ["encode@dpr"]
        with pytest.raises(NoisyirError, match=r"^stage index@zero_shot: on the pool gpu failed: .*Nonsense") as raised:
            run(home, "data.max_held_out=8", "encode.dtype=float16", "index.factory=Nonsense", to="search")
    assert failed_step(raised.value) == "index@zero_shot" and str(raised.value).count("index@zero_shot") == 1


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_stages_of_an_audit_and_of_a_bench_go_to_their_pool(home: Path, tmp_path: Path, monkeypatch):
    from noisyir.flows.bench_noise import bench_noise
    from noisyir.flows.denoise import denoise
    from noisyir.tasks.dispatch import Pools

    monkeypatch.setenv("NOISYIR_HOME", str(home))
    deploy("gpu")
    before = {child.id for child in stage_runs("gpu")}
    how = {"store": str(tmp_path / "store"), "pools": Pools(elsewhere=("gpu",), patience_seconds=240)}
    suite = tmp_path / "tiny.yaml"
    suite.write_text(SUITE.format(path=home / "beir"))
    with worker("gpu", tmp_path / "worker.log"):
        audited = denoise("demo", overrides=settings(home), **how)
        benched = bench_noise(str(suite), overrides=("detect=false",), seeds=1, jobs=2, **how)
    children = [child for child in stage_runs("gpu") if child.id not in before]
    built = {
        (name, result.meta.stage)
        for outcome in (audited, benched)
        for name, result in outcome.results.items()
        if not result.cached
    }
    assert {child.state_name for child in children} == {"Completed"}
    sent = [name for child in children for name in child.name.split(", ")]
    assert sorted(sent) == sorted(name for name, stage in built if stage_named(stage).pool == "gpu")
    assert len(children) < len(sent)
    assert {stage for _, stage in built} >= {"ingest", "score_pairs", "train_dpr", "encode", "noise_table"}


def test_a_pool_without_workers_is_said_and_its_run_does_not_stay_behind(home: Path):
    from prefect import get_client
    from prefect.client.schemas.actions import WorkPoolUpdate

    deploy("cpu")
    with pytest.raises(NoisyirError, match="the pool cpu has none: prefect worker start --pool cpu"):
        run(home, "data.max_held_out=5", elsewhere=("cpu",), patience=1, to="ingest")
    with get_client(sync_client=True) as client:
        client.update_work_pool("cpu", WorkPoolUpdate(is_paused=True))
        said = run(home, "data.max_held_out=5", elsewhere=("cpu",), patience=1, to="ingest", return_state=True).message
        assert said == "ingest: waited 1 s for a worker, and the pool cpu is paused: prefect work-pool resume cpu"
        client.update_work_pool("cpu", WorkPoolUpdate(is_paused=False))
    assert {child.state_name for child in stage_runs("cpu")} <= {"Cancelled", "Cancelling"}


def test_the_line_of_a_failed_child_names_its_step_once():
    from prefect.client.schemas.objects import FlowRun
    from prefect.states import Failed

    from noisyir.tasks.dispatch import _failure

    step, child = pipeline_of(experiments.load("demo")).named("train_dpr")[0], FlowRun(flow_id=uuid4())
    raised = Failed(message=f"Flow run encountered an exception: StoreError: stage {step.name}: the disk is full")
    said = f"stage {step.name}: on the pool gpu failed: StoreError: the disk is full. Its log: "
    assert _failure(step, child, raised).startswith(said)


def test_a_missing_deployment_is_said(home: Path):
    from prefect import get_client

    deploy("cpu")
    with get_client(sync_client=True) as client:
        client.delete_deployment(client.read_deployment_by_name("dispatched_step/cpu").id)
    with pytest.raises(ConfigError, match=r"no deployment dispatched_step/cpu: python -m infra.bootstrap"):
        run(home, "data.max_held_out=6", elsewhere=("cpu",), to="ingest")


def test_a_person_runs_one_stage_again(home: Path, tmp_path: Path, monkeypatch):
    from prefect import get_client

    from noisyir.flows.single_stage import single_stage

    monkeypatch.setenv("NOISYIR_HOME", str(tmp_path))
    store = Store(tmp_path / "store", home=tmp_path)
    single_stage("demo", "ingest", overrides=settings(home), store=store.url)
    again = single_stage("demo", "corrupt", settings(home), refresh=True, store=store.url, return_state=True)
    with get_client(sync_client=True) as client:
        assert client.read_flow_run(again.state_details.flow_run_id).name == "demo: corrupt"
    assert [list(one["steps"]) for one in store.runs.all()] == [["corrupt"], ["ingest"]]
    typed = ("noisyir", "run", "demo", *settings(home), "--only")
    assert [tuple(shlex.split(one["command"])) for one in store.runs.all()] == [(*typed, "corrupt"), (*typed, "ingest")]


def test_a_child_tells_its_progress_in_the_run_that_sent_it(home: Path, tmp_path: Path, monkeypatch):
    from noisyir.flows.dispatched_step import dispatched_step
    from noisyir.training.launch import SerializedStep

    monkeypatch.setenv("NOISYIR_HOME", str(tmp_path))
    store = Store(tmp_path / "store", home=tmp_path)
    first = pipeline_of(experiments.load("demo", settings(home))).steps[0]
    sent = SerializedStep.of(first, first.inputs).model_dump(mode="json")  # as parameters travel
    store.runs.record("the-sender", {})
    dispatched_step((sent,), store=store.url, run="the-sender")
    assert store.runs.progress("the-sender")["step"] == first.name == "ingest"
