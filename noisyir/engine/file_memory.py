"""What this machine remembers about files that it has read, until they change."""

import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from noisyir.base import during
from noisyir.engine.runtime import default_home

T = TypeVar("T")
Signatures = list[list[int]]
"""For each file device, inode, size, and the times of the last change to its bytes and to anything else about it."""

SETTLED = 2.0  # seconds: a file that changed so shortly before may change again under the same time

_found_here: dict[str, tuple[Signatures, Any]] = {}
_own_reading: ContextVar[bool] = ContextVar("own_reading", default=False)


def remembered(files: Sequence[Path], about: str, find: Callable[[], T], *, shared: bool = True) -> T:
    """Return the result of `find`, which reads these files, or its earlier result if none of them has changed since.

    Other processes find a `shared` result in noisyir's home, if there is one.

    Args:
        files: All files that the result depends on.
        about: Tells this result from others about the same files; names the settings that it depends on.
        find: Function that returns a value that never changes; JSON must preserve a `shared` one.
    """
    name = sha256("\0".join([about, *(str(path.absolute()) for path in files)]).encode()).hexdigest()[:32]
    before = _signatures(files)
    if before is None:
        return find()
    for known in (_found_here.get(name), _left_by_others(name) if shared and not _own_reading.get() else None):
        if known is not None and known[0] == before:
            return known[1]  # type: ignore[no-any-return]
    found = find()
    if _is_settled(before) and _signatures(files) == before:
        _found_here[name] = before, found
        if shared:
            _leave_to_others(name, before, found)
    return found


def own_reading() -> AbstractContextManager[bool]:
    """Trust only what this process has read itself: bits may rot under an unchanged time."""
    return during(_own_reading, True)


def _signatures(files: Sequence[Path]) -> Signatures | None:
    """Return the signatures of all files; None if one is missing."""
    try:
        found = [path.stat() for path in files]
    except OSError:
        return None
    return [[stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns] for stat in found]


def _is_settled(signatures: Signatures) -> bool:
    return all(time.time_ns() - max(mtime, ctime) > SETTLED * 1e9 for _, _, _, mtime, ctime in signatures)


def _record(name: str) -> Path:
    return default_home() / "files" / f"{name}.json"


def _left_by_others(name: str) -> tuple[Signatures, Any] | None:
    try:
        signatures, found = json.loads(_record(name).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):  # not there, or not whole: the files are read
        return None
    return signatures, found


def _leave_to_others(name: str, signatures: Signatures, found: Any) -> None:
    record = _record(name)
    if not record.parent.parent.is_dir():  # commands that only look at a file make no home
        return
    with suppress(OSError):  # a home that cannot be written to: the next process reads the files
        record.parent.mkdir(exist_ok=True)
        arriving = record.with_name(f"{name}.{os.getpid()}")
        arriving.write_text(json.dumps([signatures, found]), encoding="utf-8")
        arriving.replace(record)
