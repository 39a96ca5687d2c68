"""Runs that kill -9 ends."""

import signal
from collections.abc import Callable
from multiprocessing import get_context

# Forks of one process that has imported torch: each run would take seconds to do that itself.
_server = get_context("forkserver")
_server.set_forkserver_preload(["tests.unit.training.train_and_die", "tests.unit.training.ar2_world"])


def killed(run: Callable[..., object], *given: object, **more: object) -> None:
    """Run it in a process of its own, whose end must be that it kills itself."""
    process = _server.Process(target=run, args=given, kwargs=more)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
