"""Steps in several processes: the same builds as one after the other, and what a failure leaves."""

import os
import signal
import time

import pytest

from noisyir.config import Params, Runtime
from noisyir.errors import ConfigError, DataError, NoisyirError, StoreError
from noisyir.observe import Silent
from noisyir.parallel import execute_in_processes
from noisyir.plan import Choice, Plan, execute
from noisyir.schemas import Artifact
from noisyir.stage import Job, Stage, run_stage
from noisyir.store import Store

NOTE = Artifact("note", 1)


class Says(Params):
    """What a stage does."""

    text: str = ""
    seconds: float = 0.0
    fault: str | None = None


def say(job: Job[Says]) -> None:
    """Write the text behind those of the inputs, after a while, or fail."""
    time.sleep(job.params.seconds)
    folder = job.new_folder("note")
    before = [(job.store.folder(ref) / "text").read_text() for ref in job.refs("before").values()]
    (folder / "text").write_text("".join([*before, job.params.text]))
    job.note("threads", job.runtime.cpu_threads)
    if job.params.fault == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if job.params.fault:
        raise DataError(job.params.fault)


SAY = Stage("say", 1, Says, {"before": NOTE.all().each()}, {"note": NOTE}, say, seeded=True)


class Watched(Silent):
    """Notes what is finished."""

    def __init__(self) -> None:
        self.finished_steps: list[tuple[str, bool]] = []

    def finished(self, step, meta, cached):
        self.finished_steps.append((step.name, cached))


def plan_of(**faults: str) -> Plan:
    """Two branches from one step, and one that joins them."""
    plan = Plan(0)

    def add(name: str, seconds: float = 0.0, **before) -> None:
        params = Says(text=name, seconds=seconds, fault=faults.get(name))
        plan.keep(**{name: plan.add(SAY, params, name, before={n: plan.results[o] for n, o in before.items()})["note"]})

    add("a")
    add("b", 0.2, one="a")
    add("c", 0.2, one="a")
    add("d", one="b", two="c")
    return plan


def in_processes(plan, store, choice=None, jobs=2):
    observer = Watched()
    results = execute_in_processes(plan, choice or Choice(), store, Runtime(threads=4), observer, jobs)
    return results, observer.finished_steps


def one_by_one(plan, store):
    return execute(
        plan, Choice(), store, lambda step, inputs, refresh: run_stage(step, inputs, store=store, runtime=Runtime())
    )


def text_of(store, meta):
    return (store.folder(meta.ref("note")) / "text").read_text()


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
    with pytest.raises(StoreError, match=r"say@a .* is not cached: run with --to say@a first"):
        in_processes(plan_of(), store, Choice(only="say@b"))
    results, _ = in_processes(plan_of(), store, Choice(to="say@b"))
    assert list(results) == ["say@a", "say@b"]


def test_the_first_error_comes_through_and_what_was_at_work_is_kept(store):
    with pytest.raises(DataError, match=r"^b does not like it$"):
        in_processes(plan_of(b="b does not like it"), store)
    built = {text_of(store, meta) for meta in store.all_builds()}
    assert built == {"a", "ac"}  # c was at work, d was not begun, nothing is left of b
    assert not list((store.home / "store" / ".staging").iterdir())
    results, finished = in_processes(plan_of(), store)
    assert text_of(store, results["say@d"].meta) == "abacd" and dict(finished)["say@c"]


def test_a_killed_process_is_said_in_words_and_the_run_continues(store):
    with pytest.raises(NoisyirError, match=r"a process was killed, .* while these ran: say@b.*continues where it"):
        in_processes(plan_of(b="killed"), store, jobs=1)
    assert {text_of(store, meta) for meta in store.all_builds()} == {"a"}
    results, finished = in_processes(plan_of(), store)
    assert text_of(store, results["say@d"].meta) == "abacd" and dict(finished)["say@a"]


@pytest.mark.parametrize("jobs", [0, -1])
def test_less_than_one_process_is_refused(store, jobs):
    with pytest.raises(ConfigError, match=f"at least 1, not {jobs}"):
        in_processes(plan_of(), store, jobs=jobs)
