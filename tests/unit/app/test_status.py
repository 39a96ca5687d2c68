"""What ran lately: states of runs, of which some were killed, and how often stages were reused."""

import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from noisyir.app.runs import Execution, UnregisteredError, run_experiment
from noisyir.app.status import RunState, hours_ago, run_states, stage_rates
from noisyir.base.artifact import Artifact
from noisyir.base.errors import DataError, StoreError
from noisyir.base.settings import Params
from noisyir.engine.plan import Choice, Plan
from noisyir.engine.stage import Job, Stage
from noisyir.engine.store import Store
from noisyir.evaluation.artifacts import REPORT
from noisyir.front.commands.status import _failed
from noisyir.front.commands.status import run as status_command
from noisyir.registry.tracker import Tracker
from tests.refusals import refuses
from tests.run_records import run_record

ROOT = Path(__file__).parents[3]

HOST = socket.gethostname()


def plan_that(fails: bool) -> Plan:
    def page(job: Job[Params]) -> None:
        if fails:
            raise DataError("no pages today")
        (job.new_folder("report") / "report.html").write_text("done")

    return plan_of(page, 1 + fails)


def plan_of(page: Callable[[Job[Params]], None], version: int = 9) -> Plan:
    plan = Plan(0)
    plan.add(Stage("pages", version, Params, {}, {"report": REPORT}, page), Params())
    return plan


def run(
    store: Store, *, fails: bool = False, tags: dict[str, str] | None = None, tracker: Tracker | None = None
) -> None:
    from noisyir.methods import experiments

    tracker = tracker or Tracker()
    for name, value in (tags or {}).items():
        tracker.tag(name, value)
    run_experiment(
        experiments.load("demo", []),
        Choice(),
        Execution(store=store, tracker=tracker),
        pipeline=lambda _: plan_that(fails),
    )


def test_runs_and_how_often_their_stages_were_reused(store: Store):
    for _ in range(3):
        run(store)
    states = run_states(store, HOST, hours_ago(1))
    assert [(state.state, state.built, state.cached) for state in states] == [("done", 0, 1)] * 2 + [("done", 1, 0)]
    (rate,) = stage_rates(store, hours_ago(1))
    assert (rate.stage, rate.built, rate.cached, rate.hit_rate, len(rate.seconds)) == ("pages", 1, 2, 2 / 3, 1)
    assert run_states(store, HOST, hours_ago(-1)) == []


def test_what_a_person_interrupts_is_cancelled_and_what_mlflow_lost_is_no_green_run(store: Store, monkeypatch):
    def interrupt(job: Job[Params]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules[__name__], "plan_that", lambda fails: plan_of(interrupt))
    with pytest.raises(KeyboardInterrupt):
        run(store)
    (state,) = run_states(store, HOST, hours_ago(1))
    assert (state.state, state.failed_in, state.error) == ("cancelled", "pages", None)
    monkeypatch.undo()

    lost = Tracker()
    lost.lost = True
    with refuses(UnregisteredError, "app.unregistered"):
        run(store, tracker=lost)
    assert run_states(store, HOST, hours_ago(1))[0].state == "unregistered"
    run(store)
    assert run_states(store, HOST, hours_ago(1))[0].state == "done"


def test_a_run_says_what_it_is_at_and_prefect_is_asked_about_other_hosts(store: Store, monkeypatch):
    seen = []

    def work(job: Job[Params]) -> None:
        job.progress(120, 400, "steps")
        seen.extend(run_states(store, "elsewhere", hours_ago(1)) + run_states(store, HOST, hours_ago(1)))
        (job.new_folder("report") / "report.html").write_text("done")

    with flow_run_in("RUNNING") as address:
        monkeypatch.setenv("PREFECT_API_URL", address)
        monkeypatch.setattr(sys.modules[__name__], "plan_that", lambda fails: plan_of(work))
        run(store, tags={"flow_run": "f1"})
    assert [(state.state, state.now) for state in seen] == [("running", "pages, 120 of 400 steps")] * 2
    store.runs.record("r9", run_record(status="running", host="gone", tags={"flow_run": "f1"}))
    with flow_run_in("CRASHED") as address:
        monkeypatch.setenv("PREFECT_API_URL", address)
        assert {state.state for state in run_states(store, HOST, hours_ago(10**5))} == {"done", "killed"}
    assert {state.state for state in run_states(store, HOST, hours_ago(10**5))} == {"done", "unknown"}


@contextmanager
def flow_run_in(state: str) -> Iterator[str]:
    """The address of a server that knows one flow run, f1."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/api/flow_runs/f1" else 404)
            self.end_headers()
            self.wfile.write(json.dumps({"state_type": state}).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/api"
    finally:
        server.shutdown()
        server.server_close()


def test_a_failure_says_in_which_step_and_where_to_look(store: Store):
    with pytest.raises(DataError):
        run(store, fails=True, tags={"flow_run_url": "http://prefect/runs/flow-run/1"})
    (state,) = run_states(store, HOST, hours_ago(1))
    assert (state.state, state.failed_in, state.error) == ("failed", "pages", "no pages today")
    assert state.page == "http://prefect/runs/flow-run/1"


KILLED = """
import sys, time
from pathlib import Path
from noisyir.engine.store import Store
from tests.unit.app import test_status
from noisyir.engine.stage import Job
store = Store(sys.argv[1], home=Path(sys.argv[2]))
def sleeps(fails):
    plan = test_status.original(fails)
    def work(job):
        print("working", flush=True)
        time.sleep(600)
    object.__setattr__(plan.steps[0].stage, "run", work)
    return plan
test_status.original, test_status.plan_that = test_status.plan_that, sleeps
test_status.run(store)
"""


def test_a_killed_run_is_told_from_one_that_works(store: Store):
    arguments = [sys.executable, "-c", KILLED, store.url, str(store.home)]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None and process.stdout.readline() == "working\n"
    (state,) = run_states(store, HOST, hours_ago(1))
    assert state.state == "running"
    assert run_states(store, "elsewhere", hours_ago(1))[0].state == "unknown"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert run_states(store, HOST, hours_ago(1))[0].state == "killed"


def test_the_command(store: Store, capsys, monkeypatch):
    monkeypatch.setenv("NOISYIR_HOME", str(store.home))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    run(store)
    with pytest.raises(DataError):
        run(store, fails=True)
    status_command(hours=1.0, store=store.url)
    told = capsys.readouterr().out
    assert re.search(
        r"Running +nothing\nLast +demo .*failed *\n +demo .*done *\nFailed +demo, \d\d:\d\d: in pages: no pages", told
    )
    assert (
        "log: noisyir status --log" in told and "Disk " in told and "hit rate" not in told and "Traceback" not in told
    )
    status_command(hours=1.0, verbose=True, store=store.url)
    assert "hit rate" in capsys.readouterr().out
    status_command(hours=1.0, log=True, store=store.url)
    told = capsys.readouterr().out
    assert f"{store.home}/logs/" in told and "Traceback" in told and "DataError: no pages today" in told
    status_command(hours=1.0, as_json=True, store=store.url)
    told = json.loads(capsys.readouterr().out)
    assert [one["state"] for one in told["runs"]] == ["failed", "done"] and told["models"] == []
    status_command(hours=1.0, log=True, store=f"{store.url}-other")
    assert "no run failed" in capsys.readouterr().out
    run(store)
    capsys.readouterr()
    status_command(hours=1.0, store=store.url)
    told = capsys.readouterr().out
    assert "failed" in told and "Failed" not in told, "the run after it has ended well"


def test_a_failure_is_forgotten_when_a_later_run_went_beyond_it_and_not_after_a_part():
    def state(hour: int, said: str, steps: int) -> RunState:
        began = datetime(2026, 1, 1, hour, tzinfo=UTC)
        return RunState(str(hour), "pairs", began, said, 1.0, steps, 0, None, None, None, {})

    fell, part, whole = state(1, "failed", 5), state(2, "done", 1), state(3, "done", 6)
    assert _failed([part, fell]) == [fell] and _failed([whole, part, fell]) == []
    assert _failed([state(4, "failed", 0), whole, fell]) == [state(4, "failed", 0)]


def test_a_run_is_listed_with_its_result(store: Store, monkeypatch):
    judged = {"judged": 30, "interval": [0.36, 0.25, 0.49]}
    made = iter(
        [("audit", {}), ("audit", {"judgements": judged}), ("standings", {"result": "best: BM25, nDCG@10 0.713"})]
    )

    def kept(_: bool) -> Plan:
        name, notes = next(made)

        def page(job: Job[Params]) -> None:
            (job.new_folder(name) / "page").write_text(str(notes))
            for note, value in notes.items():
                job.note(note, value)

        plan = Plan(0)
        plan.keep(**plan.add(Stage(name, len(notes) + 1, Params, {}, {name: Artifact(name, 1)}, page), Params()))
        return plan

    monkeypatch.setattr(sys.modules[__name__], "plan_that", kept)
    for _ in range(3):
        run(store)
    results = [state.result for state in run_states(store, HOST, hours_ago(1))]
    assert results == ["best: BM25, nDCG@10 0.713", "30 judged, 36 % wrong (25 to 49)", "not judged"]
    store.runs.record("r9", run_record(tags={"only": "encode"}) | {"id": "r9", "began": datetime.now(UTC).isoformat()})
    assert "only encode" in [state.result for state in run_states(store, HOST, hours_ago(1))]


_KILLED = """
import os, signal, sys
from noisyir.app.runs import Execution
from noisyir.engine.store import Store
from tests.unit.app import test_status
from pathlib import Path

def work(job):
    job.progress(1, 2, "steps")
    os.kill(os.getpid(), signal.SIGKILL)

test_status.plan_that = lambda fails: test_status.plan_of(work)
test_status.run(Store(Path(sys.argv[1]), home=Path(sys.argv[2])))
"""


def test_the_last_word_of_a_killed_run_goes_with_the_next_run_and_that_of_one_elsewhere_stays(store: Store):
    runs = Path(store.root) / ".runs"
    subprocess.run([sys.executable, "-c", _KILLED, str(store.root), str(store.home)], cwd=ROOT)
    assert len(list(runs.glob("*.now"))) == 1
    store.runs.record("r9", run_record(status="running", host="elsewhere") | {"id": "r9"})
    store.runs.set_progress("r9", {"step": "x"})
    run(store)
    assert [path.name for path in runs.glob("*.now")] == ["r9.now"]
    assert [state.state for state in run_states(store, HOST, hours_ago(1))] == ["done", "killed"]


def test_a_step_that_failed_is_named_once(store: Store, capsys, monkeypatch):
    from noisyir.methods import experiments

    def page(job: Job[Params]) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setenv("NOISYIR_HOME", str(store.home))
    with pytest.raises(StoreError, match=r"^stage pages: the disk is full"):
        run_experiment(experiments.load("demo"), Choice(), Execution(store=store), lambda _: plan_of(page))
    status_command(hours=1.0, store=store.url)
    assert ": in pages: the disk is full" in " ".join(capsys.readouterr().out.split())
