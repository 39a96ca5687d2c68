"""Locks between processes of one machine: flock on a file, which the kernel frees however the holder dies."""

import fcntl
import json
import logging
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from noisyir.errors import StoreError

log = logging.getLogger("noisyir")

_FIRST_WORD, _NEXT_WORD = 5.0, 60.0  # seconds of waiting after which it is told who holds a lock
_ASK_AGAIN = 0.2


@contextmanager
def held(path: Path, *, shared: bool = False, wait: float | None = None) -> Iterator[bool]:
    """Hold a lock, once it is free; yields whether another process had to be waited for.

    shared: beside others that share it.  wait: seconds after which StoreError is raised; None waits for ever.
    Who holds it is told after five seconds, and every minute.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    began, told = time.monotonic(), 0.0
    while True:
        with path.open("a+") as handle:
            if _take(handle, shared=shared) and _is_at(handle, path):  # else deleted between opening and locking
                if not shared:
                    _sign(handle)
                yield time.monotonic() - began > _ASK_AGAIN / 2
                return
            waited = time.monotonic() - began
            if wait is not None and waited >= wait:
                raise StoreError(f"{path.name} is locked by {_holder(handle)}: waited {wait:g} s for it, and gave up")
            if waited >= (told + _NEXT_WORD if told else _FIRST_WORD):
                log.warning("waiting for %s, which is held by %s", path.name, _holder(handle))
                told = waited
        time.sleep(_ASK_AGAIN if waited > 1 else _ASK_AGAIN / 20)


@contextmanager
def held_if_free(path: Path) -> Iterator[bool]:
    """Hold a lock if nobody does; yields whether that is so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        yield _take(handle)


def is_held(path: Path) -> bool:
    """Whether a process of this machine holds a lock."""
    try:
        with path.open("r+") as handle:
            return not _take(handle)
    except FileNotFoundError:
        return False


def _take(handle: IO[str], *, shared: bool = False) -> bool:
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sign(handle: IO[str]) -> None:
    """Leave a word for those that wait."""
    handle.seek(0)
    handle.truncate()
    about = {"host": socket.gethostname(), "pid": os.getpid(), "since": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"}
    handle.write(json.dumps(about))
    handle.flush()


def _holder(handle: IO[str]) -> str:
    try:
        handle.seek(0)
        about = json.loads(handle.read())
        return f"process {about['pid']} of {about['host']} since {about['since']}"
    except (ValueError, KeyError, TypeError, OSError):
        return "other processes, or one that did not say"


def _is_at(handle: IO[str], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle.fileno()), path.stat())
    except FileNotFoundError:
        return False
