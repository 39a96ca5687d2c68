"""Locks between processes of one machine: flock on a file, which the kernel frees however the holder dies.

Those between machines, on an object store, are leases (`noisyir.engine.leases`).
"""

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from noisyir.engine.waiting import ASK_AGAIN, Patience, about_this_process, holder_in


@contextmanager
def held(path: Path, *, shared: bool = False, wait: float | None = None) -> Iterator[bool]:
    """Hold a lock, once it is free; yields whether another process had to be waited for.

    shared: beside others that share it.  wait: seconds after which StoreError is raised; None: as $NOISYIR_WAIT says,
    else never.
    """
    with _one_of([path], shared=shared, wait=wait) as (_, waited):
        yield waited > ASK_AGAIN / 2


@contextmanager
def held_one_of(paths: Sequence[Path]) -> Iterator[int]:
    """Hold the first of these locks that is free, once one is; yields its place among them.  StoreError as `held`."""
    with _one_of(paths, shared=False, wait=None) as (index, _):
        yield index


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


@contextmanager
def _one_of(paths: Sequence[Path], *, shared: bool, wait: float | None) -> Iterator[tuple[int, float]]:
    """Hold one of these locks; yields which, and the seconds that it was waited for."""
    patience = Patience(lambda: {path.name: _holder(path) for path in paths}, wait)
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        for index, path in enumerate(paths):
            with path.open("a+") as handle:
                if _take(handle, shared=shared) and _is_at(handle, path):  # else deleted between opening and locking
                    if not shared:
                        _sign(handle)
                    yield index, patience.waited
                    return
        patience.wait_a_moment()


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
