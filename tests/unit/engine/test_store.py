import multiprocessing
import os
import signal
import subprocess
import time
from dataclasses import replace
from itertools import count as numbers
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pyarrow as pa
import pytest

from noisyir.base.errors import DataError, SchemaError, StoreError
from noisyir.base.settings import Params
from noisyir.data.artifacts import QUERIES
from noisyir.engine.build_stage import run_stage
from noisyir.engine.meta import Ref, unsealed
from noisyir.engine.plan import Choice, Plan, execute, forecast
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Job, Stage
from noisyir.engine.store import Store
from noisyir.models.artifacts import MODEL
from noisyir.retrieval.artifacts import BM25_RUN
from tests.refusals import refuses
from tests.run_records import run_record


class MakeParams(Params):
    count: int = 3
    split: str = "train"


def make_queries(job: Job[MakeParams]) -> None:
    ids = [f"q{n}" for n in range(job.params.count)]
    table = {"query_id": ids, "text": [f"text {i}" for i in ids], "split": [job.params.split] * len(ids)}
    job.write("queries", pa.table(table))


def upper_case(job: Job[Params]) -> None:
    texts = [text.upper() for text in job.table("queries")["text"].to_pylist()]
    (job.new_folder("model") / "weights.txt").write_text("\n".join(texts))


MAKE = Stage("make", 1, MakeParams, reads={}, writes={"queries": QUERIES}, run=make_queries)
UPPER = Stage("upper", 1, Params, reads={"queries": QUERIES["text"]}, writes={"model": MODEL}, run=upper_case)


def two_steps(count: int = 3, source: str = "aa") -> Plan:
    plan = Plan(seed=1)
    made = plan.add(replace(MAKE, raw={"source": lambda _: source}), MakeParams(count=count))
    plan.add(UPPER, Params(), queries=made["queries"])
    return plan


ALL = Choice()


def run(plan: Plan, store: Store, choice: Choice = ALL):
    def here(step, inputs, refresh):
        return run_stage(step, inputs, store=store, runtime=Runtime(), refresh=refresh)

    return execute(plan, choice, store, here)


def cached(results) -> dict[str, bool]:
    return {name: result.cached for name, result in results.items()}


def test_a_second_run_executes_nothing(store: Store):
    assert cached(run(two_steps(), store)) == {"make": False, "upper": False}
    assert cached(run(two_steps(), store)) == {"make": True, "upper": True}


def test_a_changed_setting_or_raw_input_builds_under_another_key(store: Store):
    run(two_steps(), store)
    assert cached(run(two_steps(count=4), store)) == {"make": False, "upper": False}
    assert cached(run(two_steps(source="bb"), store))["make"] is False


def test_raw_input_that_changes_after_planning_is_not_built_under_the_old_key(store: Store):
    now = ["aa"]
    plan = Plan(seed=1)
    plan.add(replace(MAKE, raw={"source": lambda _: now[0]}), MakeParams())
    now[0] = "bb"
    with refuses(DataError, "engine.raw_input_not_run", step="make", wrong="source"):
        run(plan, store)
    assert store.builds.all() == []
    now[0] = "aa"
    assert cached(run(plan, store)) == {"make": False}


def test_refreshing_to_equal_bytes_leaves_what_follows_cached(store: Store, monkeypatch):
    made = run(two_steps(), store)["make"].meta
    squares = (float(number**2) for number in numbers(100))
    monkeypatch.setattr("noisyir.engine.build_stage.time", SimpleNamespace(monotonic=lambda: next(squares)))
    again = run(two_steps(), store, Choice(refresh=("make",)))
    assert cached(again) == {"make": False, "upper": True}
    told = again["make"].meta
    assert replace(told, seconds=made.seconds) == made and told.seconds > 100, "as long as it took this time"
    assert len(store.builds.of_key("make", again["make"].meta.key)) == 1  # equal bytes are not kept twice


def test_only_reads_what_the_step_of_that_name_made_where_its_stage_is_called_so_too(store: Store):
    plan = Plan(seed=1)
    for label, count in (("few", 2), ("", 3)):
        made = plan.add(replace(MAKE, raw={"source": lambda _: "aa"}), MakeParams(count=count), label)
        plan.add(UPPER, Params(), f"of_{label}" if label else "", queries=made["queries"])
    before = run(plan, store)
    again = run(plan, store, Choice(only="upper", refresh=("upper",)))
    assert again["upper"].meta.build == before["upper"].meta.build
    assert again["upper"].meta.inputs["queries"]["build"] == before["make"].meta.build


def test_refreshing_to_other_bytes_rebuilds_what_follows_and_keeps_the_old_build(store: Store, monkeypatch):
    first = run(two_steps(), store)

    def other(job: Job[MakeParams]) -> None:
        job.write("queries", pa.table({"query_id": ["x"], "text": ["other"], "split": ["train"]}))

    plan = two_steps()
    object.__setattr__(plan.steps[0], "stage", replace(plan.steps[0].stage, run=other))
    assert cached(run(plan, store, Choice(refresh=("make",)))) == {"make": False, "upper": False}
    old = first["upper"].meta.ref("model")
    assert (store.builds.folder(old) / "weights.txt").read_text() == "TEXT Q0\nTEXT Q1\nTEXT Q2"


def test_only_needs_its_upstream_in_the_store(store: Store):
    with refuses(StoreError, "engine.upstream_artifact_not_cached", step="make"):
        run(two_steps(), store, Choice(only="upper"))
    run(two_steps(), store, Choice(to="make"))
    assert cached(run(two_steps(), store, Choice(only="upper"))) == {"upper": False}


def test_a_forecast_runs_nothing(store: Store):
    states = [entry.state for entry in forecast(two_steps(), Choice(), store)]
    assert states == ["would run", "would run"] and store.builds.all() == []
    run(two_steps(), store, Choice(to="make"))
    assert [entry.state for entry in forecast(two_steps(), Choice(), store)] == ["cached", "would run"]
    assert [entry.state for entry in forecast(two_steps(), Choice(to="make"), store)] == ["cached", "not chosen"]


def test_a_failed_stage_leaves_no_build(store: Store):
    def half(job: Job[Params]) -> None:
        (job.new_folder("model") / "half").write_text("x")
        raise RuntimeError("it broke")

    plan = Plan(seed=1)
    plan.add(Stage("half", 1, Params, reads={}, writes={"model": MODEL}, run=half), Params())
    with pytest.raises(RuntimeError, match="it broke"):
        run(plan, store)
    assert store.builds.all() == [] and not list(Path(store.root).glob(".staging/*"))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"query_id": ["a", "a"], "text": ["x", "y"], "split": ["train"] * 2}, r"1 keys occur more than once.*'a'"),
        ({"query_id": ["a"], "text": ["x"]}, r"queries v1 lacks \['split'\].*--refresh bad"),
        ({"query_id": ["a"], "text": [None], "split": ["train"]}, r"queries.text: 1 values are null"),
    ],
)
def test_a_table_that_breaks_its_contract_is_refused(store: Store, table, message):
    stage = Stage(
        "bad", 1, Params, reads={}, writes={"queries": QUERIES}, run=lambda j: j.write("queries", pa.table(table))
    )
    plan = Plan(seed=1)
    plan.add(stage, Params())
    with pytest.raises(SchemaError, match=message):
        run(plan, store)
    assert store.builds.all() == []


def test_nan_scores_are_refused(store: Store):
    table = pa.table({"query_id": ["a"], "doc_id": ["d"], "rank": [1], "score": [float("nan")]})
    stage = Stage("nan", 1, Params, reads={}, writes={"bm25_run": BM25_RUN}, run=lambda j: j.write("bm25_run", table))
    plan = Plan(seed=1)
    plan.add(stage, Params())
    with refuses(SchemaError, "engine.holds_nan_infinite_values", name="score"):
        run(plan, store)


def test_damage_is_found_and_named(store: Store):
    results = run(two_steps(), store)
    meta = results["make"].meta
    assert store.builds.verify(meta) == {}
    part = Path(store.root) / meta.ref("queries").path / "part-00000.parquet"
    data = bytearray(part.read_bytes())
    data[10] ^= 1
    part.write_bytes(data)
    assert store.builds.verify(meta) == {"queries/part-00000.parquet": "has other bytes than were written"}
    with refuses(StoreError, "engine.damaged_artifact_run_experiment", artifact="queries", stage="make"):
        store.builds.parts(meta.ref("queries"))
    part.write_bytes(data[:-5])
    with refuses(StoreError, "engine.damaged_artifact_run_experiment", artifact="queries", stage="make"):
        store.builds.parts(meta.ref("queries"))


def test_an_unwritable_store_is_one_line(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with refuses(StoreError, "engine.cannot_write_store_name"):
        Store(tmp_path / "file" / "store", home=tmp_path).check_writable()


def test_removed_builds_are_gone(store: Store):
    meta = run(two_steps(), store)["upper"].meta
    store.builds.remove(meta)
    assert [m.stage for m in store.builds.all()] == ["make"]
    with refuses(StoreError, "engine.not_run_again", stage="upper"):
        store.builds.meta(meta.ref("model"))


def slow_stage(job: Job[Params]) -> None:
    with (Path(os.environ["COUNT_FILE"])).open("a") as log:
        log.write("built\n")
    shard = job.work / "shard"
    if not shard.exists():
        shard.write_text("kept")
        time.sleep(float(os.environ["SLOW_SECONDS"]))
    (job.new_folder("model") / "w").write_text(shard.read_text())


def slow_plan() -> Plan:
    plan = Plan(seed=1)
    plan.add(Stage("slow", 1, Params, reads={}, writes={"model": MODEL}, run=slow_stage), Params())
    return plan


def _run_slow(root: str) -> None:
    run(slow_plan(), Store(root, home=Path(root)))


def _start_slow(tmp_path: Path, monkeypatch, seconds: float) -> multiprocessing.Process:
    monkeypatch.setenv("COUNT_FILE", str(tmp_path / "count"))
    monkeypatch.setenv("SLOW_SECONDS", str(seconds))
    process = multiprocessing.get_context("spawn").Process(target=_run_slow, args=(str(tmp_path / "store"),))
    process.start()
    return process


def test_two_runs_at_once_build_once(tmp_path: Path, monkeypatch):
    processes = [_start_slow(tmp_path, monkeypatch, 0.7) for _ in range(2)]
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert (tmp_path / "count").read_text() == "built\n"
    assert len(Store(tmp_path / "store", home=tmp_path).builds.all()) == 1


def test_a_killed_build_shows_nothing_and_its_work_is_taken_up(tmp_path: Path, monkeypatch):
    process = _start_slow(tmp_path, monkeypatch, 60)
    while not list((tmp_path / "store").glob(".work/*/shard")):
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    store = Store(tmp_path / "store", home=tmp_path)
    assert store.builds.all() == []
    began = time.monotonic()
    run(slow_plan(), store)  # would sleep for a minute if the shard had been lost
    assert time.monotonic() - began < 30
    assert len(store.builds.all()) == 1 and not list((tmp_path / "store").glob(".work/*"))


def test_leftovers_of_dead_builds_are_removed_but_not_of_living_ones(store: Store):
    dead = store.work.folder("gone", "k1", {})
    with store.locks.held("busy", "k2"):
        living = store.work.folder("busy", "k2", {})
        assert store.work.remove_leftovers() == [dead]
        assert living.exists() and not dead.exists()


def test_locks_of_runs_that_have_ended_are_removed_and_whoever_waits_for_one_gets_it_anew(store: Store):
    with store.locks.held("run", "dead"):
        pass
    with store.locks.held("run", "living"):
        store.work.remove_leftovers()
        assert [path.name for path in (Path(store.root) / ".locks").iterdir()] == ["run-living"]
        assert store.locks.is_held("run", "living") and not store.locks.is_held("run", "dead")
        waiting = Thread(target=lambda: taken.append(_is_locked_inside(store)))
        taken: list[bool] = []
        waiting.start()
        time.sleep(0.2)
        (Path(store.root) / ".locks" / "run-living").unlink()
    waiting.join()
    assert taken == [True]


def _is_locked_inside(store: Store) -> bool:
    with store.locks.held("run", "living"):
        return store.locks.is_held("run", "living")


def test_refs_outlive_a_round_trip_through_json(store: Store):
    meta = run(two_steps(), store)["upper"].meta
    assert type(meta).from_json(meta.to_json()) == meta
    assert [(name, type(ref)) for name, ref in meta.input_refs()] == [("queries", Ref)]


def test_who_lists_the_builds_again_checks_none_again_that_is_the_same(store: Store, monkeypatch):
    run(two_steps(), store)
    listed, checked = store.builds.all(), []
    monkeypatch.setattr("noisyir.engine.meta.unsealed", lambda text: checked.append(text) or unsealed(text))
    assert Store(store.root, home=store.home).builds.all() == listed and not checked
    path = Path(store.root) / listed[0].folder / "_meta.json"
    path.write_text(listed[0].to_json() + "\n")
    assert store.builds.all() == listed and len(checked) == 1


def test_a_run_record_is_never_seen_half_written_and_a_torn_one_is_left_out(store: Store, caplog):
    start, end = run_record(status="running"), run_record()
    store.runs.record("1", start)
    store.runs.record("1", end)
    store.runs.record("2", start)
    folder = Path(store.root) / ".runs"
    assert sorted(path.name for path in folder.iterdir()) == ["1.json", "2.json"]
    with pytest.raises(TypeError):
        store.runs.record("2", {"at": object()})
    (folder / "3.json.ab12").write_text('{"at"')  # of a process that died while it wrote
    assert store.runs.all() == [start, end] and not caplog.records
    (folder / "2.json").write_text('{"at"')
    assert store.runs.all() == [end]
    (warning,) = [record for record in caplog.records if record.name == "noisyir"]
    assert "2.json cannot be read" in warning.message


def test_a_decision_is_written_whole_and_once(store: Store):
    store.promotions.record("1", {"verdict": "promoted"})
    with refuses(StoreError, "engine.json_already_no_decision", name="1"):
        store.promotions.record("1", {"verdict": "refused"})
    assert [path.name for path in (Path(store.root) / ".promotions").iterdir()] == ["1.json"]
    assert store.promotions.all() == [{"verdict": "promoted"}]


def test_a_build_of_a_checkout_tells_its_commit():
    from noisyir.engine.provenance import git_commit

    root = Path(__file__).parents[3]
    if not (root / ".git").exists():
        pytest.skip("not a checkout")
    said = subprocess.run(["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    assert (git_commit() or "").rstrip("+") == said.stdout[:12]


def test_files_get_the_rights_that_the_umask_means(store: Store):
    def private(job: Job[Params]) -> None:
        path = job.new_folder("model") / "weights"
        path.write_text("x")
        path.chmod(0o600)

    plan = Plan(seed=1)
    plan.add(Stage("private", 1, Params, reads={}, writes={"model": MODEL}, run=private), Params())
    before = os.umask(0o002)
    try:
        [result] = run(plan, store).values()
    finally:
        os.umask(before)
    assert (store.builds.folder(result.meta.ref("model")) / "weights").stat().st_mode & 0o777 == 0o664
