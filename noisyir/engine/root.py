"""Where a store lies: a folder or an fsspec URL, and the folder of this machine beside it."""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from noisyir.base.errors import StoreError
from noisyir.engine.remote.copies import limit_attempts, patient_options

_LOCAL = ("file://", "local://")


@dataclass(eq=False)
class Root:
    """A store's root: its file system and its path there.

    url: as it was named.  home: noisyir's folder on this machine.
    """

    url: str
    home: Path
    fs: Any
    path: str

    @classmethod
    def at(cls, url: str, home: Path) -> "Root":
        """The root at a folder or URL.  StoreError when it cannot be opened."""
        return cls(url, home, *_open_root(url))

    @property
    def is_local(self) -> bool:
        """Whether it is a folder of this machine, where a rename publishes."""
        return "file" in self.fs.protocol

    @cached_property
    def scratch(self) -> Path:
        """Local folder for what is not yet published; on the store's own disk where that is possible."""
        if self.is_local:
            return Path(self.path)
        return self.home / "remote" / hashlib.sha256(self.url.encode()).hexdigest()[:16]

    def glob(self, pattern: str) -> list[str]:
        """Paths that the pattern names, of parts that do not begin with a dot."""
        if self.is_local:  # a folder's own name may hold what patterns are made of
            paths = [path.as_posix() for path in Path(self.path).glob(pattern)]
        else:
            paths = [*_matching(self.fs, self.path, *pattern.split("/"))]
        return [path for path in paths if "/." not in path[len(self.path) :]]

    def below(self, path: str) -> str:
        """A path as it is relative to the root."""
        return path[len(self.path) + 1 :]


def flush_to_disk(path: Path) -> None:
    """Return when a file or folder is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _matching(fs: Any, folder: str, part: str, *rest: str) -> Iterator[str]:
    """Paths below a folder whose parts are these; `*` is any that does not begin with a dot.

    fsspec's own `glob` takes a folder whose listing fails for an empty one; this raises what the file system raises.
    """
    if part != "*":
        path = f"{folder}/{part}"
        yield from _matching(fs, path, *rest) if rest else ([path] if fs.exists(path) else [])
        return
    try:
        entries = fs.ls(folder, detail=True)
    except FileNotFoundError:
        return
    for path, kind in ((entry["name"].rstrip("/"), entry["type"]) for entry in entries):
        if path == folder or path.rpartition("/")[2].startswith("."):
            continue
        if not rest:
            yield path
        elif kind == "directory":
            yield from _matching(fs, path, *rest)


def _open_root(url: str) -> tuple[Any, str]:
    """The file system of a store's URL, and the root in it.  StoreError when it cannot be opened."""
    import fsspec
    from fsspec.asyn import AsyncFileSystem

    if "://" not in url:  # a plain path, in which :: chains nothing
        return fsspec.filesystem("file", auto_mkdir=False), Path(url).absolute().as_posix()
    try:
        fs, root = fsspec.core.url_to_fs(url, **({"auto_mkdir": False} if url.startswith(_LOCAL) else {}))
        if isinstance(fs, AsyncFileSystem):  # those of clouds, which keep listings; others publish here, too
            patient = patient_options(url.partition("://")[0])
            fs, root = fsspec.core.url_to_fs(url, use_listings_cache=False, **patient)
            limit_attempts(fs)
    except (ImportError, ValueError) as error:
        raise StoreError("engine.cannot_open_store_name", url=url, error=error) from error
    return fs, root
