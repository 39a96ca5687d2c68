"""Who waits for a lock is told who holds it, and gives up when it was asked to."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from noisyir.base.durations import seconds_of
from noisyir.base.errors import ConfigError, StoreError
from noisyir.engine import locks
from noisyir.engine.locks import WAIT, held, held_one_of
from noisyir.engine.store import Store
from noisyir.front.cli import main
from noisyir.methods import experiments
from noisyir.methods.plans.planning import pipeline_of
from tests.refusals import refuses
from tests.tiny import SETTINGS, write_beir

HOLD = """
import sys, time
from pathlib import Path
from noisyir.engine.locks import held
from noisyir.engine.locks import current_run
current_run.set("20260131T090000000000-nightly")
with held(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def hold() -> Iterator:
    """`hold(path)`: another process that holds the lock, for a run of its own."""
    begun: list[subprocess.Popen] = []

    def begin(path: Path) -> subprocess.Popen:
        process = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True)
        begun.append(process)
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        return process

    yield begin
    for process in begun:
        process.kill()
        process.wait()


def test_a_run_gives_up_waiting_for_a_build_and_says_for_whom(hold, tmp_path: Path, monkeypatch, capsys):
    settings = [*SETTINGS, f"data.path={write_beir(tmp_path / 'data')}"]
    step = pipeline_of(experiments.load("demo", settings)).steps[0]
    store = Store(tmp_path / "store", home=tmp_path)
    holder = hold(store.locks.file(step.stage.name, step.key))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(WAIT, "10m")  # in the place of which --wait puts its own
    command = ["run", "demo", *settings, "--no-track", "--store", store.url, "--wait", "1s"]
    assert main(command) == 1
    told = capsys.readouterr().err
    assert "Traceback" not in told
    for said in (f"process {holder.pid} of {socket.gethostname()} since ", "for the run 20260131T090000000000-nightly",
                 "gave up after 1 s; wait longer with --wait"):  # fmt: skip
        assert said in told
    holder.kill()
    holder.wait()
    assert main([*command, "--to", step.name]) == 0


def test_the_environment_sets_the_wait_of_every_lock(hold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    hold(tmp_path / "one")
    hold(tmp_path / "two")
    monkeypatch.setenv(WAIT, "0.3")
    began = time.monotonic()
    with refuses(StoreError, "engine.waited_gave_up"):
        with held_one_of([tmp_path / "one", tmp_path / "two"]):
            pass
    assert time.monotonic() - began >= 0.3
    with held_one_of([tmp_path / "one", tmp_path / "three"]) as index:
        assert index == 1


def test_a_lock_that_a_run_let_go_is_there_for_the_next(tmp_path: Path):
    with held(tmp_path / "x"):
        pass
    with held(tmp_path / "x", wait=0) as waited:
        assert not waited and f'"pid": {os.getpid()}' in (tmp_path / "x").read_text()


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("10m", 600), ("1.5h", 5400), ("0", 0)])
def test_times_are_read(text: str, seconds: float):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "-1", "m", "10 m", "1d", "nan", "inf", "9" * 5000])
def test_what_is_no_time_is_refused(text: str):
    with refuses(ConfigError, "base.not_a_duration"):
        seconds_of(text)


def test_a_slow_machine_is_no_other_process(tmp_path: Path, monkeypatch):
    """Who took a lock at once waited for nobody, however late: else --refresh would find a build of nobody's."""
    take = locks._take

    def slowly(handle, **how) -> bool:
        time.sleep(2 * locks.ASK_AGAIN)
        return take(handle, **how)

    monkeypatch.setattr(locks, "_take", slowly)
    with held(tmp_path / "lock") as waited:
        assert not waited
