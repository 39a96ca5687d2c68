import os
from datetime import UTC, datetime, timedelta

from noisyir.app import retention
from noisyir.app.retention import deletable, unneeded
from noisyir.engine.plan import Choice
from noisyir.engine.store import Store
from noisyir.front.cli import main
from tests.run_records import run_record
from tests.unit.engine.test_store import run, two_steps


def record(store: Store, name: str, plan, results, **facts: str) -> None:
    steps = {
        step.name: {
            "key": step.key,
            "stage": step.stage.name,
            "build": results[step.name].meta.build if results else None,
            "cached": False,
        }
        for step in plan.steps
    }
    store.runs.record(name, run_record(steps=steps, facts=facts))


def doomed(store: Store, keep_runs: int) -> list[tuple[str, int]]:
    """(stage, its setting `count`) of every build that may go."""
    found = unneeded(store, keep_runs=keep_runs, host="here").values()
    return sorted((meta.stage, int(meta.params.get("count", 0))) for meta, _ in found)


def test_recent_runs_and_registered_models_keep_what_they_were_made_from(store: Store):
    for number, facts in enumerate([{"registered": "noisyir-retriever v1"}, {}, {}]):
        plan = two_steps(count=number + 1)
        record(store, f"run{number}", plan, run(plan, store), **facts)
    assert doomed(store, 2) == []
    assert doomed(store, 1) == [("make", 2), ("upper", 0)]
    assert doomed(store, 0) == [("make", 2), ("make", 3), ("upper", 0), ("upper", 0)]


def test_inputs_of_a_kept_build_are_kept_although_no_run_names_them(store: Store):
    plan = two_steps()
    results = run(plan, store)
    only_last = {
        "upper": {"stage": "upper", "key": plan.steps[1].key, "build": results["upper"].meta.build, "cached": False}
    }
    store.runs.record("run", run_record(steps=only_last))
    assert doomed(store, 1) == []


def test_an_unfinished_run_keeps_every_build_of_its_keys(store: Store):
    plan = two_steps()
    run(plan, store, Choice(to="make"))
    record(store, "running", plan, {})
    assert doomed(store, 1) == []


def test_what_a_run_of_another_machine_may_still_need_stays_for_a_week(store: Store):
    plan = two_steps()
    run(plan, store, Choice(to="make"))
    steps = {
        step.name: {"stage": step.stage.name, "key": step.key, "build": None, "cached": None} for step in plan.steps
    }
    began = datetime.now(UTC) - timedelta(days=1)
    store.runs.record("r1", run_record(steps=steps, status="running", host="there", began=began.isoformat()))
    assert doomed(store, 0) == []
    store.runs.record("r1", run_record(steps=steps, status="running", host="here", began=began.isoformat()))
    assert doomed(store, 0) == [("make", 3)]  # who asks holds the store alone: no run of this machine lives
    began -= timedelta(days=7)
    store.runs.record("r1", run_record(steps=steps, status="running", host="there", began=began.isoformat()))
    assert doomed(store, 0) == [("make", 3)]


def test_what_the_registry_names_stays_although_no_record_says_so(store: Store, monkeypatch):
    model = run(two_steps(), store)["upper"].meta.ref("model")
    monkeypatch.setattr(retention, "registered_digests", lambda home: {model.digest})
    assert doomed(store, 0) == []
    monkeypatch.setattr(retention, "registered_digests", lambda home: set())
    assert len(doomed(store, 0)) == 2


def test_a_run_that_begins_elsewhere_meanwhile_keeps_what_it_needs(store: Store):
    plan = two_steps()
    results = run(plan, store)
    deleting = deletable(store, keep_runs=1, host="here")
    _, why = next(deleting)
    assert "no recorded run" in why
    record(store, "elsewhere", plan, results)
    assert list(deleting) == []


def test_checkpoints_of_the_last_runs_stay(store: Store):
    plan = two_steps()
    record(store, "killed", plan, {})
    work = store.work.folder("upper", plan.steps[1].key, {})
    assert main(["store", "gc", "--keep-runs", "1", "--store", store.root]) == 0 and work.exists()
    assert main(["store", "gc", "--keep-runs", "0", "--store", store.root]) == 0 and not work.exists()


def test_a_checkpoint_of_a_worker_that_was_killed_once_its_build_was_there_goes(store: Store):
    plan = two_steps()
    record(store, "run", plan, run(plan, store))
    left = store.work.folder("make", plan.steps[0].key, {})
    with store.locks.alone():
        assert store.work.remove_leftovers(retention.keys_to_go_on_with(store, keep_runs=1)) == [left]


def test_gc_asks_on_a_terminal_and_deletes_nothing_without_a_yes(store: Store, monkeypatch, capsys):
    for number in range(2):
        plan = two_steps(count=number + 1)
        record(store, f"run{number}", plan, run(plan, store))
    command = ["store", "gc", "--store", str(store.root), "--keep-runs"]

    def gc(answer: str, *more: str) -> str:
        leader, terminal = os.openpty()
        os.write(leader, answer.encode())
        with os.fdopen(terminal) as stdin, monkeypatch.context() as patch:
            patch.setattr("sys.stdin", stdin)
            assert main([*command, "1", *more]) == 0
        os.close(leader)
        return capsys.readouterr().out

    said = gc("n\n")
    assert "delete 2 builds" in said and "s to make?" in said and doomed(store, 1) == [("make", 1), ("upper", 0)]
    gc("", "--yes")
    assert doomed(store, 1) == [] and doomed(store, 0) == [("make", 2), ("upper", 0)]
    assert main([*command, "0"]) == 0 and doomed(store, 0) == []  # no terminal: nobody to ask
