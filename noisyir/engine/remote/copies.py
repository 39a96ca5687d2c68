"""Local copies of files in an object store: checked as they arrive, and bounded in size."""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any, Self

from noisyir.base.durations import seconds_of
from noisyir.base.errors import ConfigError, StoreError
from noisyir.engine.integrity import is_copy
from noisyir.engine.locks import held, held_if_free
from noisyir.engine.outside_errors import without_password

GIGABYTES = "NOISYIR_CACHE_GB"  # that copies may take on this machine; each machine has its own disk
_USUAL = "50"

Fetch = Callable[[str, Path], None]  # a file by its name, to this path
SECONDS = "NOISYIR_REMOTE_SECONDS"  # for the first answer; later ones may take twice as long
_REMOTE_USUAL = "6"


class CopiedPart(str):
    """Path of a Parquet part in an object store that is read from a local copy.

    Attributes:
        copied: Context manager that yields a folder with the copy, under the part's own name.
    """

    copied: Callable[[], AbstractContextManager[Path]]

    def __new__(cls, path: str, copied: Callable[[], AbstractContextManager[Path]]) -> Self:
        """Make a text with the function that copies it."""
        self = super().__new__(cls, path)
        self.copied = copied
        return self


class Copies:
    """Folders of files by digest; the least recently used make room for new ones.

    All processes of a machine with the same home share them.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def using(self, digest: str, files: Mapping[str, tuple[int, str]], fetch: Fetch) -> Iterator[Path]:
        """Yield a folder with these files (bytes, sha256), fetched if needed, which stays during the block."""
        copy, lock = self._folder / digest, self._folder / ".locks" / digest
        while True:
            with held(lock, shared=True):
                if is_copy(copy, files):
                    os.utime(copy)
                    del fetch  # its references may be the ones that keep this copy
                    yield copy
                    return
            with held(lock):  # who comes second waits for the first one's copy
                if not is_copy(copy, files):
                    self._bring(copy, files, fetch)

    def _bring(self, copy: Path, files: Mapping[str, tuple[int, str]], fetch: Fetch) -> None:
        arriving = copy.with_name(f"{copy.name}.arriving")
        for left in (arriving, copy):
            shutil.rmtree(left, ignore_errors=True)
        self._make_room(sum(size for size, _ in files.values()))
        for name in files:
            (arriving / name).parent.mkdir(parents=True, exist_ok=True)
            fetch(name, arriving / name)
        arriving.rename(copy)

    def _make_room(self, wanted: int) -> None:
        """Delete copies that no one uses, the least recently used first, until this many bytes fit under the bound."""
        most = _most_bytes() - wanted
        copies = [(path.stat().st_mtime, _size(path), path) for path in self._folder.glob("[!.]*")]
        taken = sum(size for _, size, _ in copies)
        for _, size, path in sorted(copies):
            if taken <= most:
                return
            with held_if_free(self._folder / ".locks" / path.name.removesuffix(".arriving")) as free:
                if free:
                    shutil.rmtree(path, ignore_errors=True)
                    taken -= size


def _most_bytes() -> int:
    given = os.environ.get(GIGABYTES) or _USUAL
    with ConfigError.wrapping("engine.not_number_gigabytes", ValueError, gigabytes=GIGABYTES, given=given):
        return int(float(given) * 1e9)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def patient_options(protocol: str) -> dict[str, Any]:
    """Return options that make a file system give up on a server that never answers, unless fsspec's settings do.

    A reported failure is retried three times, as the makers of S3 ask of its clients.
    """
    from fsspec.config import conf

    if protocol not in ("s3", "s3a") or "config_kwargs" in conf.get("s3", {}):
        return {}
    first = first_answer_seconds()
    return {"config_kwargs": {"connect_timeout": first, "read_timeout": 2 * first, "retries": {"max_attempts": 3}}}


def limit_attempts(fs: Any) -> None:
    """Make s3fs retry once instead of four times: the client below it retries four times whenever it does.

    It also sends without asking for leave: after a server's "100 Continue" aiohttp waits for the answer for ever.
    """
    if not hasattr(fs, "retries"):
        return
    from aiobotocore.session import AioSession
    from botocore.handlers import add_expect_header

    fs.retries = 2
    if fs.session is None:
        fs.session = AioSession(**fs.kwargs)
        fs.session.unregister("before-call.s3", add_expect_header)


def check_answers(fs: Any, root: str, url: str) -> None:
    """Check that an object store answers at all in the time for a first answer.

    Raises:
        StoreError: If it says nothing.
    """
    asking = Thread(target=_ask, args=(fs, root), daemon=True)  # a daemon because it may never come back
    asking.start()
    asking.join(first_answer_seconds())
    if asking.is_alive():
        raise StoreError(
            "engine.store_not_answer_within",
            without_password=without_password(url),
            first_answer_seconds=first_answer_seconds(),
            seconds=SECONDS,
        )


def _ask(fs: Any, root: str) -> None:
    try:
        fs.exists(root)
    except Exception:  # an answer, too: its reader or writer explains it
        return


def first_answer_seconds() -> float:
    """Return how long to wait for a first answer."""
    return seconds_of(os.environ.get(SECONDS) or _REMOTE_USUAL)
