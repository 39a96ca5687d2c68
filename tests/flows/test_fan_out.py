"""Steps side by side under Prefect, and the shards of a corpus and a whole bench on a Ray cluster of two workers."""

from uuid import UUID

import pytest

from noisyir.app import runs
from noisyir.app.runs import Execution
from noisyir.base.errors import DataError
from noisyir.engine.plan import Choice, execute
from noisyir.engine.runtime import FanOut, Runtime
from noisyir.engine.stage import Observer
from noisyir.engine.store import Store
from noisyir.methods import experiments
from noisyir.registry.tracker import Tracker
from tests.flows.recorded import read_flow_run, task_runs
from tests.flows.test_bench_command import SUITE
from tests.tiny import SETTINGS
from tests.unit.engine.said import Watched, plan_of, text_of

pytestmark = pytest.mark.usefixtures("prefect_api")

RAY = FanOut(engine="ray", workers=2)


class Followed(Tracker):
    """Notes how far stages are."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, int]] = []

    def progress(self, step, done, total, unit):
        self.seen.append((step.name, done))

    @property
    def flow_run(self) -> UUID:
        return UUID(self.tags["flow_run"])


def digests(outcome: runs.Outcome) -> dict[str, dict[str, str]]:
    return {
        name: {artifact: contents.digest for artifact, contents in result.meta.artifacts.items()}
        for name, result in outcome.results.items()
    }


def _but_pages(outcome: runs.Outcome) -> dict[str, dict[str, str]]:
    """The digests of all but the page, which says when it was made."""
    return {
        name: {artifact: digest for artifact, digest in made.items() if artifact != "bench_page"}
        for name, made in digests(outcome).items()
    }


def side_by_side(plan, store, observer, runtime):
    from prefect import flow
    from prefect.runtime import flow_run

    from noisyir.tasks.stage_task import through_tasks

    runs: list[UUID] = []

    @flow
    def two_at_once() -> None:
        runs.append(UUID(flow_run.id))
        with through_tasks(store=store, runtime=runtime, observer=observer) as run_step:
            results = execute(plan, Choice(), store, run_step, runtime.steps_at_once)
            assert text_of(store, results["say@d"].meta) == "abacd"

    return two_at_once, runs


def test_steps_side_by_side_are_task_runs_of_one_flow_run(store):
    observer = Watched()
    flow, runs = side_by_side(plan_of(seconds=2.0), store, observer, Runtime(steps_at_once=2, threads=2))
    flow()
    found = {run.name: run for run in task_runs(runs[0], 4)}
    assert set(found) == {"say@a", "say@b", "say@c", "say@d"}
    assert {run.state_name for run in found.values()} == {"Completed"}
    b, c = found["say@b"], found["say@c"]
    assert b.start_time < c.end_time and c.start_time < b.end_time  # at the same time
    of_b = [event for event, name in observer.events if name == "say@b"]
    assert of_b == ["started", "1 of 2 words", "loss 0.5 at 3", "finished"]


def test_the_first_failure_of_steps_side_by_side_fails_the_flow_run(store):
    flow, runs = side_by_side(plan_of(b="b is bad"), store, Watched(), Runtime(steps_at_once=2, threads=2))
    with pytest.raises(DataError) as caught:
        flow()
    assert str(caught.value) == "b is bad"
    assert {run.name: run.state_name for run in task_runs(runs[0], 3)} == {
        "say@a": "Completed", "say@b": "Failed", "say@c": "Completed",
    }  # fmt: skip
    assert read_flow_run(runs[0]).state_name == "Failed"


@pytest.mark.parametrize("through_prefect", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_shards_encoded_on_a_cluster_are_those_encoded_here(through_prefect, collection, tmp_path):
    from noisyir.flows.train_retriever import run_experiment

    exp = experiments.load(
        "demo", [*SETTINGS, f"data.path={collection}", f"model.weights={collection / 'words'}", "encode.shard_rows=7"]
    )
    encode = "encode@zero_shot"
    here, there = (Store(tmp_path / name, home=tmp_path) for name in ("here", "there"))
    how = {"tracker": Tracker(), "observer": Observer()}
    expected = runs.run_experiment(exp, Choice(to=encode), Execution(store=here, runtime=Runtime(device="cpu"), **how))
    runs.run_experiment(exp, Choice(to="init_model"), Execution(store=there, runtime=Runtime(device="cpu"), **how))

    tracker = Followed()
    call = run_experiment if through_prefect else runs.run_experiment
    machine = Runtime(device="cpu", threads=2, fan_out=RAY)
    outcome = call(exp, Choice(to=encode), Execution(store=there, runtime=machine, tracker=tracker))
    assert digests(outcome) == digests(expected)
    if through_prefect:  # which sees the stage, and no shard
        assert {run.name for run in task_runs(tracker.flow_run, len(outcome.results))} == set(outcome.results)
    seen = [done for name, done in tracker.seen if name == encode]
    assert len(seen) == 16 and seen[-1] == 104  # 80 documents and 24 queries
    assert not list((tmp_path / "there" / ".work").iterdir())


@pytest.mark.slow
def test_a_bench_on_a_cluster_is_that_of_this_machine(collection, tmp_path, monkeypatch):
    from noisyir.flows.bench_noise import bench_noise, run_suite

    path = tmp_path / "tiny.yaml"
    path.write_text(SUITE.format(path=collection))
    suite = experiments.with_seeds(experiments.load_suite(str(path)), 1)
    tracker, observer = Followed(), Watched()
    store = Store(tmp_path / "there", home=tmp_path)
    machine = Runtime(device="cpu", threads=2, steps_at_once=2, fan_out=RAY)
    outcome = run_suite(suite, Choice(), Execution(store=store, runtime=machine, tracker=tracker, observer=observer))
    found = task_runs(tracker.flow_run, len(outcome.results))
    assert {run.name for run in found} == set(outcome.results)
    assert {run.state_name for run in found} == {"Completed"}
    assert {name for name, cached in observer.finished_steps if not cached} == set(outcome.results)

    monkeypatch.setenv("NOISYIR_HOME", str(tmp_path))
    here = bench_noise(
        str(path), seeds=1, jobs=2, store=str(tmp_path / "here"), runtime=Runtime(device="cpu", threads=2)
    )
    assert _but_pages(here) == _but_pages(outcome)
    again = run_suite(suite, Choice(), Execution(store=store, runtime=machine, tracker=Followed()))
    assert again.executed == 0
