"""The root of a store: a folder or an fsspec URL, and the local folder next to it."""

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

    Attributes:
        url: Name as it was given.
        home: noisyir's folder on this machine.
    """

    url: str
    home: Path
    fs: Any
    path: str

    @classmethod
    def at(cls, url: str, home: Path) -> "Root":
        """Open the root at a folder or URL."""
        return cls(url, home, *_open_root(url))

    @property
    def is_local(self) -> bool:
        """Whether it is a local folder, in which a rename publishes."""
        return "file" in self.fs.protocol

    @cached_property
    def scratch(self) -> Path:
        """Local folder for unpublished files, on the store's own disk if possible."""
        if self.is_local:
            return Path(self.path)
        return self.home / "remote" / hashlib.sha256(self.url.encode()).hexdigest()[:16]

    def glob(self, pattern: str) -> list[str]:
        """Return paths that match the pattern, without parts that begin with a dot."""
        if self.is_local:  # a folder's own name may hold what patterns are made of
            paths = [path.as_posix() for path in Path(self.path).glob(pattern)]
        else:
            paths = [*_matching(self.fs, self.path, *pattern.split("/"))]
        return [path for path in paths if "/." not in path[len(self.path) :]]

    def below(self, path: str) -> str:
        """Return a path relative to the root."""
        return path[len(self.path) + 1 :]


def flush_to_disk(path: Path) -> None:
    """Return once a file or folder is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _matching(fs: Any, folder: str, part: str, *rest: str) -> Iterator[str]:
    """Yield paths below a folder that match these parts; `*` matches parts without a leading dot.

    fsspec's own `glob` treats a folder that cannot be listed as empty; this raises the file system's error.
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
    """Return the file system of a store's URL, and the root in it.

    Raises:
        StoreError: If it cannot be opened.
    """
    import fsspec
    from fsspec.asyn import AsyncFileSystem

    if "://" not in url:  # a plain path, in which :: chains nothing
        return fsspec.filesystem("file", auto_mkdir=False), Path(url).absolute().as_posix()
    with StoreError.wrapping("engine.cannot_open_store_name", ImportError, ValueError, url=url):
        fs, root = fsspec.core.url_to_fs(url, **({"auto_mkdir": False} if url.startswith(_LOCAL) else {}))
        if isinstance(fs, AsyncFileSystem):  # clouds' file systems keep listings; others publish here, too
            patient = patient_options(url.partition("://")[0])
            fs, root = fsspec.core.url_to_fs(url, use_listings_cache=False, **patient)
            limit_attempts(fs)
    return fs, root
