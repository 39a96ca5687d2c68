"""Locks between processes of one machine: flock on a file, which the kernel frees however the holder dies."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def held(path: Path) -> Iterator[bool]:
    """Hold a lock, once it is free; yields whether another process had to be waited for."""
    path.parent.mkdir(parents=True, exist_ok=True)
    waited = False
    while True:
        with path.open("w") as handle:
            if not _take(handle):
                waited = True
                fcntl.flock(handle, fcntl.LOCK_EX)
            if _is_at(handle, path):  # else it was deleted between opening and locking
                yield waited
                return


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


def _take(handle: IO[str]) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(handle: IO[str], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle.fileno()), path.stat())
    except FileNotFoundError:
        return False
