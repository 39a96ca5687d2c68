"""One stage at a time on each GPU: the locks, between processes, for devices that need not exist."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from noisyir.engine import runtime as devices
from noisyir.engine.runtime import Runtime, device_names, free_device, own_device

HOLD = """
import sys, time
from pathlib import Path
from noisyir.engine.runtime import free_device
with free_device(Path(sys.argv[1]), sys.argv[2].split(",")) as index:
    print(index, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def hold(tmp_path):
    """`hold("a,b")`: another process that holds the first free one; with the index that it got."""
    held = []

    def start(names: str) -> tuple[subprocess.Popen, int]:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(tmp_path), names], stdout=subprocess.PIPE, text=True
        )
        held.append(process)
        return process, int(process.stdout.readline())

    yield start
    for process in held:
        process.kill()
        process.communicate()


def test_the_first_free_device_is_taken_and_death_frees_it(hold, tmp_path):
    first, index = hold("gpu-0,gpu-1")
    assert index == 0
    with free_device(tmp_path, ["gpu-0", "gpu-1"]) as mine:
        assert mine == 1
        got = []
        waits = threading.Thread(target=lambda: got.append(_take(tmp_path, ["gpu-0", "gpu-1"])))
        waits.start()
        time.sleep(0.2)
        assert not got  # both are held
        os.kill(first.pid, signal.SIGKILL)
        waits.join(20)
        assert got == [0]
    assert _take(tmp_path, ["gpu-1"]) == 0


def _take(home: Path, names: list[str]) -> int:
    with free_device(home, names) as index:
        return index


@pytest.mark.parametrize(
    ("count", "visible", "names"),
    [
        (2, None, ["gpu-0", "gpu-1"]),
        (0, None, []),
        (2, "3,5", ["gpu-3", "gpu-5"]),
        (1, "GPU-8f2a, GPU-77aa", ["gpu-GPU-8f2a"]),
        (0, "", []),
    ],
)
def test_a_device_is_called_what_every_process_calls_it(count, visible, names):
    assert device_names(count, visible) == names


@pytest.mark.parametrize(
    ("setting", "processes", "device", "held"),
    [
        ("auto", 1, "cuda:1", {1}),  # 0 is at work for another
        ("cuda", 1, "cuda:1", {1}),
        ("cuda:2", 1, "cuda:2", {2}),
        ("cuda:7", 1, "cuda:7", set()),  # not there: the stage says so
        ("cpu", 1, "cpu", set()),
    ],
)
def test_a_stage_gets_a_device_of_its_own(tmp_path, monkeypatch, setting, processes, device, held):
    names = ["gpu-0", "gpu-1", "gpu-2"]
    monkeypatch.setattr(devices, "_gpus", lambda: names)
    with (
        free_device(tmp_path, names[:1]),
        own_device(Runtime(device=setting, processes=processes), tmp_path) as runtime,
    ):
        assert runtime.device == device
        assert _held(tmp_path, names) == held | {0}
    assert _held(tmp_path, names) == set()


def test_processes_that_train_together_hold_as_many(tmp_path, monkeypatch):
    names = ["gpu-0", "gpu-1", "gpu-2"]
    monkeypatch.setattr(devices, "_gpus", lambda: names)
    with own_device(Runtime(device="cuda", processes=2), tmp_path) as runtime:
        assert runtime.device == "cuda" and _held(tmp_path, names) == {0, 1}


def test_without_a_gpu_nothing_is_held(tmp_path, monkeypatch):
    monkeypatch.setattr(devices, "_gpus", list)
    with own_device(Runtime(device="auto"), tmp_path) as runtime:
        assert runtime.device == "auto" and not (tmp_path / "devices").exists()


def _held(home: Path, names: list[str]) -> set[int]:
    import fcntl
    import socket

    held = set()
    for index, name in enumerate(names):
        path = home / "devices" / f"{socket.gethostname()}-{name}"
        if path.exists():
            with path.open("a") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    held.add(index)
    return held
