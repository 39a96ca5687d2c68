"""Two homes that share nothing but a store on S3: each stage is built once, the slow are kept out."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from threading import Barrier, Event, Thread

import pytest

from noisyir.base.errors import StoreError
from noisyir.engine.locks import WAIT
from noisyir.engine.meta import META
from noisyir.engine.plan import Choice
from noisyir.engine.remote.leases import BARRED, SECONDS, Lease, LeaseLostError
from noisyir.engine.store import Store
from tests.refusals import refuses

from .test_store import cached, run, two_steps

HOLD = """
import sys, time
from pathlib import Path
from noisyir.engine.store import Store
store = Store(sys.argv[1], home=Path(sys.argv[2]))
with store.locks.in_use(), store.locks.held(sys.argv[3], sys.argv[4]):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases whose holder counts as dead after three seconds."""
    monkeypatch.setenv(SECONDS, "3")


@pytest.fixture
def holder(bucket: str, tmp_path: Path) -> Iterator:
    """`holder(stage, key)`: a process of the home `one` that holds a key of the store until it is killed."""
    begun: list[subprocess.Popen] = []

    def begin(stage: str, key: str) -> subprocess.Popen:
        words = [sys.executable, "-c", HOLD, bucket, str(tmp_path / "one"), stage, key]
        begun.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
        assert begun[-1].stdout is not None and begun[-1].stdout.readline() == "held\n"
        return begun[-1]

    yield begin
    for process in begun:
        process.kill()
        process.wait()


def homes(bucket: str, tmp_path: Path) -> tuple[Store, Store]:
    return Store(bucket, home=tmp_path / "one"), Store(bucket, home=tmp_path / "two")


def test_homes_that_want_the_same_stages_at_once_build_each_once(bucket: str, tmp_path: Path):
    meeting, built = Barrier(4), []

    def work(home: str) -> None:
        store = Store(bucket, home=tmp_path / home)
        meeting.wait()
        built.extend(name for name, was in cached(run(two_steps(), store)).items() if not was)

    threads = [Thread(target=work, args=(home,)) for home in ("one", "two", "three", "four")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(built) == ["make", "upper"]
    assert [meta.stage for meta in Store(bucket, home=tmp_path).builds.all()] == ["make", "upper"]


def test_a_lease_outlasts_its_term_while_its_holder_lives(holder, bucket: str, tmp_path: Path, monkeypatch):
    monkeypatch.setenv(SECONDS, "15")
    process = holder("make", "k1")
    there = Store(bucket, home=tmp_path / "two")
    assert there.locks.is_held("make", "k1") and not there.locks.is_held("make", "k2")
    monkeypatch.setenv(WAIT, "17")
    said = rf"make-k1 is locked by process {process.pid} of {socket.gethostname()} since .*: gave up after 17 s"
    with pytest.raises(StoreError, match=said), there.locks.held("make", "k1"):
        pass


def test_what_a_dead_process_held_is_free_at_home_at_once(holder, bucket: str, tmp_path: Path):
    end(holder("make", "k1"))
    one, two = homes(bucket, tmp_path)
    assert two.locks.is_held("make", "k1") and not one.locks.is_held("make", "k1")
    with one.locks.held("make", "k1") as waited:
        assert not waited


def test_what_a_dead_process_held_is_taken_over_elsewhere_after_its_term(soon, holder, bucket: str, tmp_path: Path):
    end(holder("make", "k1"))
    _, two = homes(bucket, tmp_path)
    with two.locks.held("make", "k1"):
        assert two.locks.is_held("make", "k1")


def end(process: subprocess.Popen) -> None:
    process.kill()
    process.wait()


def test_a_store_that_fell_silent_is_asked_to_let_go_no_longer_than_for_a_first_answer(monkeypatch):
    monkeypatch.setenv("NOISYIR_REMOTE_SECONDS", "0.2")
    answers, asked = Event(), Event()

    class Observer:
        """Conditional files that take the first write and then say nothing."""

        def create(self, path: str, body: bytes) -> str:
            return "tag"

        def replace(self, path: str, body: bytes, tag: str) -> str:
            asked.set()
            answers.wait()
            return "tag"

    lease = Lease(Observer(), ".leases/store", "home", "store")  # type: ignore[arg-type]
    assert lease.take(None)
    lease.end()
    assert asked.wait(10) and not answers.is_set()  # it returned without an answer
    answers.set()


def test_a_slow_holder_cannot_publish_once_another_has_taken_over(soon, bucket: str, tmp_path: Path):
    one, two = homes(bucket, tmp_path)
    step = two_steps().steps[0]
    with one.locks.held("make", step.key):
        one.locks._held[f"make-{step.key}"]._over.set()  # it is stopped: no heartbeat goes out any more
        made = run(two_steps(), two)["make"].meta
        with refuses(LeaseLostError, "engine.taken_over_while_process", seconds=3.0):
            publish(one, step.key)
    assert two.builds.of_key("make", step.key) == [made] and two.builds.orphans(timedelta(seconds=-1)) == []


def test_a_holder_that_is_stopped_between_its_last_look_and_its_last_write_is_barred(soon, bucket: str, tmp_path: Path):
    one, two = homes(bucket, tmp_path)
    step, made = two_steps().steps[0], []
    write = one.fs.pipe_file

    class Slow:
        """The store's file system, which before it writes a meta sleeps for longer than a lease lasts."""

        def __getattr__(self, name: str):
            return getattr(two.fs, name)

        def pipe_file(self, path: str, text: bytes, **how: str) -> None:
            if path.endswith(META):
                one.locks._held[f"make-{step.key}"]._over.set()
                made.append(run(two_steps(), two)["make"].meta)
            write(path, text, **how)

    one._root.fs = Slow()
    with one.locks.held("make", step.key), refuses(LeaseLostError, "engine.built_another_machine_meanwhile"):
        publish(one, step.key)
    assert two.builds.of_key("make", step.key) == made and two.builds.orphans(timedelta(seconds=-1)) == []


def publish(store: Store, key: str) -> None:
    staging = store.work.staging("make", key)
    (staging / "queries").mkdir()
    (staging / "queries" / "part").write_text("late")
    fields = {"version": 1, "params": {}, "seed": 1, "inputs": {"source": "aa"}, "seconds": 1.0, "notes": {}}
    store.builds.publish(
        staging, stage="make", key=key, artifacts={"queries": (1, 1)}, git_commit=None, packages={}, **fields
    )


def test_a_barred_build_is_no_build_and_gc_removes_what_is_left_of_it(bucket: str, tmp_path: Path, caplog):
    store = Store(bucket, home=tmp_path / "one")
    store.fs.pipe_file(f"{store.root}/make/k1/b1/{META}", BARRED)
    assert store.builds.of_key("make", "k1") == [] and store.builds.damaged() == {} and not caplog.records
    assert store.builds.orphans(timedelta(seconds=-1)) == ["make/k1/b1"]
    run(two_steps(), store, Choice())
    assert store.builds.orphans(timedelta(seconds=-1)) == ["make/k1/b1"]


def test_nothing_is_deleted_while_another_home_uses_the_store(holder, bucket: str, tmp_path: Path, monkeypatch):
    one, two = homes(bucket, tmp_path)
    process = holder("make", "k1")
    with pytest.raises(StoreError, match=rf"store is locked by process {process.pid} of .*gave up"), two.locks.alone():
        pass
    end(process)
    with one.locks.alone():  # at home it is seen to be dead
        pass
    with two.locks.in_use(), refuses(StoreError, "engine.waited_gave_up"), one.locks.alone():
        pass
    monkeypatch.setenv(WAIT, "1")
    with one.locks.alone(), refuses(StoreError, "engine.waited_gave_up", most=1.0), two.locks.in_use():
        pass


def test_who_was_alone_and_lost_it_deletes_nothing_more(soon, bucket: str, tmp_path: Path, monkeypatch):
    one, two = homes(bucket, tmp_path)
    made = run(two_steps(), one)["make"].meta
    monkeypatch.setenv(WAIT, "60")
    with one.locks.alone():
        one.locks._held["store"]._over.set()  # it is stopped
        with two.locks.alone():
            pass
        with pytest.raises(LeaseLostError):
            one.builds.remove(made)
    assert two.builds.meta(made.ref("queries")) == made


def test_a_store_of_another_protocol_says_that_its_locks_are_of_one_home(tmp_path: Path, caplog):
    store = Store("memory://leases", home=tmp_path)
    with store.locks.held("make", "k") as waited:
        assert not waited
    assert "memory://leases: conditional writes are known of S3 alone" in caplog.text
