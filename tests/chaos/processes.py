"""`noisyir` commands in processes of their own, begun fast: from a server that has imported all and done nothing."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

_server = get_context("forkserver")
_server.set_forkserver_preload(["tests.chaos.preload"])


def begin(words: Sequence[str], said: Path, home: Path, before: Callable[[], None] | None = None) -> BaseProcess:
    """Begin a command, whose words go into the file `said`; before: what its process calls first."""
    process = _server.Process(target=_command, args=(list(words), said, home, before))
    process.start()
    return process


def _command(words: list[str], said: Path, home: Path, before: Callable[[], None] | None) -> None:
    handle = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.environ["NOISYIR_HOME"] = str(home)
    from noisyir.engine.processes import end_with_parent
    from noisyir.front.cli import main

    end_with_parent()
    if before:
        before()
    sys.exit(main(words))


def seconds_of(words: Sequence[str], said: Path, home: Path) -> float:
    """How long a command takes; AssertionError, with what it said, where it fails."""
    began = time.monotonic()
    process = begin(words, said, home)
    process.join()
    assert process.exitcode == 0, said.read_text()
    return time.monotonic() - began
