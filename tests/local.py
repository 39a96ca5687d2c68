"""Other processes of this machine, as tests meet them: a port for a server, and waiting for what it does."""

import socket
import time
from collections.abc import Callable


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Wait until it holds; fail if that takes longer than so many seconds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds:g} s"
        time.sleep(0.02)
