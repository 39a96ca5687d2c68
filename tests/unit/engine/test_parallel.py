"""Steps in several processes: the same builds as one after the other, and what a failure leaves."""

import threading
from contextvars import ContextVar

import pytest

from noisyir.app.runs import Execution
from noisyir.base.errors import ConfigError, DataError, NoisyirError, StoreError
from noisyir.engine.build_stage import run_stage
from noisyir.engine.plan import Choice, Plan, execute
from noisyir.engine.remote.parallel import at_once
from noisyir.engine.runtime import Runtime
from noisyir.engine.store import Store
from tests.refusals import refuses

from .said import SAY, Says, Watched, plan_of, text_of


def side_by_side(plan, store, runtime, observer, choice=None):
    with Execution(store, runtime, observer=observer).steps() as run_step:
        return execute(plan, choice or Choice(), store, run_step, runtime.steps_at_once)


def in_processes(plan, store, choice=None, jobs=2):
    observer = Watched()
    results = side_by_side(plan, store, at_once(Runtime(threads=4), jobs), observer, choice)
    return results, observer.finished_steps


def one_by_one(plan, store):
    return execute(
        plan, Choice(), store, lambda step, inputs, refresh: run_stage(step, inputs, store=store, runtime=Runtime())
    )


def test_the_builds_are_those_of_one_process(store, tmp_path):
    plan, other = plan_of(), Store(tmp_path / "other", home=tmp_path / "home")
    results, finished = in_processes(plan, store)
    expected = one_by_one(plan, other)
    assert list(results) == list(expected) == [step.name for step in plan.steps]
    for name, result in results.items():
        assert result.meta.key == expected[name].meta.key
        assert result.meta.artifacts["note"].digest == expected[name].meta.artifacts["note"].digest
    assert text_of(store, results["say@d"].meta) == "abacd"
    assert finished[0] == ("say@a", False) and finished[-1] == ("say@d", False) and len(finished) == 4
    assert {result.meta.notes["threads"] for result in results.values()} == {2}  # of four, for two processes

    again, finished = in_processes(plan, store, Choice(refresh=("say@b",)))
    assert all(again[name].meta.build == results[name].meta.build for name in results)
    assert dict(finished) == {"say@a": True, "say@b": False, "say@c": True, "say@d": True}


def test_part_of_a_plan_needs_the_rest_in_the_store(store):
    with refuses(StoreError, "engine.upstream_artifact_not_cached", step="say@a"):
        in_processes(plan_of(), store, Choice(only="say@b"))
    results, _ = in_processes(plan_of(), store, Choice(to="say@b"))
    assert list(results) == ["say@a", "say@b"]


def test_the_first_error_comes_through_and_what_was_at_work_is_kept(store):
    with pytest.raises(DataError) as caught:
        in_processes(plan_of(b="b does not like it"), store)
    assert str(caught.value) == "b does not like it"
    assert "in say\n" in caught.value.__notes__[0]  # where in the other process
    built = {text_of(store, meta) for meta in store.builds.all()}
    assert built == {"a", "ac"}  # c was at work, d was not begun, nothing is left of b
    assert not list((store.home / "store" / ".staging").iterdir())
    results, finished = in_processes(plan_of(), store)
    assert text_of(store, results["say@d"].meta) == "abacd" and dict(finished)["say@c"]


def test_a_killed_process_is_said_in_words_and_the_run_continues(store):
    said = r"the process of say@b was killed by SIGKILL, most likely for want of memory.*same command to continue"
    with pytest.raises(NoisyirError, match=said):
        in_processes(plan_of(b="killed"), store)
    assert {text_of(store, meta) for meta in store.builds.all()} == {"a", "ac"}  # c has a process of its own
    results, finished = in_processes(plan_of(), store)
    assert text_of(store, results["say@d"].meta) == "abacd" and dict(finished)["say@a"]


def test_observers_hear_from_other_processes_what_they_hear_from_this_one(store, tmp_path):
    here, there = Watched(), Watched()
    other = Store(tmp_path / "other", home=tmp_path)
    for observer, jobs, where in ((here, 1, store), (there, 2, other)):
        with pytest.raises(DataError):
            side_by_side(plan_of(c="fault"), where, Runtime(steps_at_once=jobs), observer)
    assert sorted(here.events) == sorted(there.events)
    of_b = [event for event, name in there.events if name == "say@b"]
    assert of_b == ["started", "1 of 2 words", "loss 0.5 at 3", "finished"] and ("failed", "say@c") in there.events


def test_threads_keep_to_the_number_of_steps_and_to_the_callers_context(store):
    caller, at_work, most, lock = ContextVar("caller"), 0, 0, threading.Lock()
    caller.set("the flow")
    seen = []

    def run_step(step, inputs, refresh):
        nonlocal at_work, most
        with lock:
            at_work, most = at_work + 1, max(most, at_work + 1)
        result = run_stage(step, inputs, store=store, runtime=Runtime())
        with lock:
            at_work -= 1
        seen.append(caller.get())
        caller.set(step.name)  # of no other step's concern
        return result

    plan = Plan(0)
    for name in "abcdef":
        plan.add(SAY, Says(text=name, seconds=0.5), name, before={})
    results = execute(plan, Choice(), store, run_step, at_once=3)
    assert list(results) == [step.name for step in plan.steps] and set(seen) == {"the flow"}
    assert most == 3 and caller.get() == "the flow"


def test_an_interrupt_does_not_wait_for_the_steps_at_work(store):
    over = threading.Event()

    def run_step(step, inputs, refresh):
        if step.name == "say@b":
            raise KeyboardInterrupt
        if step.name == "say@c":
            over.wait(30)
        return run_stage(step, inputs, store=store, runtime=Runtime())

    with pytest.raises(KeyboardInterrupt):
        execute(plan_of(), Choice(), store, run_step, at_once=2)
    over.set()


@pytest.mark.parametrize("jobs", [0, -1])
def test_less_than_one_process_is_refused(store, jobs):
    with pytest.raises(ConfigError, match=f"{jobs} is no number of steps at a time"):
        in_processes(plan_of(), store, jobs=jobs)
