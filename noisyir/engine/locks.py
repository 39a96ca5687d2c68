"""Locks between processes of one machine: flock on a file, which the kernel frees however the holder dies.

Whoever waits learns who holds the lock after five seconds and then every minute, and gives up after $NOISYIR_WAIT
(`--wait 10m`) if that is set.  Locks between machines are leases (`noisyir.engine.remote.leases`).
"""

import fcntl
import json
import logging
import math
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from noisyir.base.durations import seconds_of
from noisyir.base.errors import StoreError

log = logging.getLogger("noisyir")
WAIT = "NOISYIR_WAIT"  # in the environment, so that the processes that this one begins give up, too
ASK_AGAIN = 0.2
_FIRST_WORD, _NEXT_WORD = 5.0, 60.0  # seconds of waiting before the holder of a lock is named
current_run: ContextVar[str | None] = ContextVar("current_run", default=None)
"""ID of the current run, shown to whoever waits for one of its locks."""


@contextmanager
def held(path: Path, *, shared: bool = False, wait: float | None = None) -> Iterator[bool]:
    """Hold a lock as soon as it is free; yields whether another process had to be waited for.

    Args:
        shared: Share the lock with others that share it.
        wait: Seconds after which StoreError is raised; None: $NOISYIR_WAIT, or never.
    """
    with _one_of([path], shared=shared, wait=wait) as (_, waited):
        yield waited > ASK_AGAIN / 2


@contextmanager
def held_one_of(paths: Sequence[Path]) -> Iterator[int]:
    """Hold the first of these locks that becomes free; yields its index."""
    with _one_of(paths, shared=False, wait=None) as (index, _):
        yield index


@contextmanager
def held_if_free(path: Path) -> Iterator[bool]:
    """Hold a lock if no one does; yields whether it is held now."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        yield _take(handle)


def is_held(path: Path) -> bool:
    """Return whether a process of this machine holds a lock."""
    try:
        with path.open("r+" if os.access(path, os.W_OK) else "r") as handle:
            return not _take(handle)
    except FileNotFoundError:
        return False


@contextmanager
def _one_of(paths: Sequence[Path], *, shared: bool, wait: float | None) -> Iterator[tuple[int, float]]:
    """Hold one of these locks; yields its index and the seconds waited."""
    patience, waited = WaitNotice(lambda: {path.name: _holder(path) for path in paths}, wait), 0.0
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        for index, path in enumerate(paths):
            with path.open("a+") as handle:
                if _take(handle, shared=shared) and _is_at(handle, path):  # else deleted between opening and locking
                    if not shared:
                        _sign(handle)
                    yield index, waited
                    return
        patience.wait_a_moment()
        waited = patience.waited


def _take(handle: IO[str], *, shared: bool = False) -> bool:
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sign(handle: IO[str]) -> None:
    """Write who holds the lock, for those who wait."""
    handle.seek(0)
    handle.truncate()
    handle.write(json.dumps(about_this_process()))
    handle.flush()


def _holder(path: Path) -> str:
    try:
        return holder_in(path.read_text())
    except (OSError, ValueError):
        return holder_in("")


def _is_at(handle: IO[str], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle.fileno()), path.stat())
    except FileNotFoundError:
        return False


def about_this_process() -> dict[str, Any]:
    """Return a holder's note for those who wait."""
    since = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
    return {"host": socket.gethostname(), "pid": os.getpid(), "since": since, "run": current_run.get()}


def holder_in(text: str | bytes) -> str:
    """Return who wrote a note, in words."""
    try:
        about = json.loads(text)
        run = f", for the run {about['run']}" if about.get("run") else ""
        return f"process {about['pid']} of {about['host']} since {about['since']}{run}"
    except (ValueError, KeyError, TypeError, AttributeError):
        return "other processes, or one that did not say"


class WaitNotice:
    """Measures a wait, reports who is waited for, and gives up in time.

    Args:
        holders: Returns, by name of the lock, who holds it.
        wait: Seconds after which to give up; None: $NOISYIR_WAIT, or never.
    """

    def __init__(self, holders: Callable[[], Mapping[str, str]], wait: float | None) -> None:
        self._holders, self._began, self._told = holders, time.monotonic(), 0.0
        self._most = wait if wait is not None else seconds_of(given) if (given := os.environ.get(WAIT)) else math.inf

    @property
    def waited(self) -> float:
        """Seconds since the wait began."""
        return time.monotonic() - self._began

    def wait_a_moment(self, seconds: float | None = None) -> None:
        """Wait a moment, and report now and then who is waited for.

        Raises:
            StoreError: If the wait has lasted long enough.
        """
        if self.waited >= self._most:
            raise StoreError("engine.waited_gave_up", state=self._state(" is locked by ", " and "), most=self._most)
        if self.waited >= (self._told + _NEXT_WORD if self._told else _FIRST_WORD):
            log.warning("waiting for %s", self._state(", which is held by ", "; or for "))
            self._told = self.waited
        usual = ASK_AGAIN if self.waited > 1 else ASK_AGAIN / 20
        time.sleep(min(usual if seconds is None else seconds, max(0.0, self._most - self.waited)))

    def _state(self, held_by: str, between: str) -> str:
        return between.join(f"{name}{held_by}{holder}" for name, holder in self._holders().items())
