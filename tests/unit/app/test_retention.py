from noisyir.app.retention import unneeded
from noisyir.engine.plan import Choice
from noisyir.engine.store import Store
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
    store.record_run(name, run_record(steps=steps, facts=facts))


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
    assert doomed(store, 0) == [
        ("make", 2),
        ("make", 3),
        ("upper", 0),
        ("upper", 0),
    ]


def test_inputs_of_a_kept_build_are_kept_although_no_run_names_them(store: Store):
    plan = two_steps()
    results = run(plan, store)
    only_last = {
        "upper": {"stage": "upper", "key": plan.steps[1].key, "build": results["upper"].meta.build, "cached": False}
    }
    store.record_run("run", run_record(steps=only_last))
    assert doomed(store, 1) == []


def test_an_unfinished_run_keeps_every_build_of_its_keys(store: Store):
    plan = two_steps()
    run(plan, store, Choice(to="make"))
    record(store, "running", plan, {})
    assert doomed(store, 1) == []
