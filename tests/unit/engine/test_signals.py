"""Java and Ray in one process: Ray leaves the handlers that Java's compiled code needs."""

import ctypes
import os
import signal

import pytest

from noisyir.engine.remote.parallel import Cluster
from noisyir.engine.runtime import FanOut, Runtime


def handler(number: signal.Signals) -> int:
    """The address of the function that the system calls, which a struct sigaction begins with."""
    action = ctypes.create_string_buffer(256)
    assert ctypes.CDLL(None).sigaction(number, None, action) == 0
    return int.from_bytes(action.raw[: ctypes.sizeof(ctypes.c_void_p)], "little")


def test_rays_beginning_and_end_keep_the_handlers_of_faults():
    pytest.importorskip("ray")
    before = {number: handler(number) for number in (signal.SIGSEGV, signal.SIGBUS)}
    with Cluster(Runtime(fan_out=FanOut(engine="ray", workers=1))) as cluster:
        assert cluster.call("a task", "cpu", lambda: os.getpid()) != os.getpid()  # a task is a function of Python
        assert {number: handler(number) for number in before} == before
    assert {number: handler(number) for number in before} == before
