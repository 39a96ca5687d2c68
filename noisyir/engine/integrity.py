"""Whether stored files are as they were written: each is read once for its digest, and again if it has changed."""

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from noisyir.engine.meta import Meta, sha256_file

log = logging.getLogger("noisyir")

Signature: TypeAlias = tuple[int | str, ...]
"""A mark that changes whenever a file is written again: device, inode, size and mtime; of an object size and ETag."""

_read_here: dict[str, Signature] = {}  # by path: files that this process has read for their digest


class Integrity:
    """Checks builds of a store and remembers the results.

    A file that this process has read is not read again while its signature is unchanged.  Results of other processes
    are in `memory`: enough to call a build whole, not enough to use its bytes, because bits may rot unnoticed.
    """

    def __init__(self, fs: Any, root: str, memory: Path, *, is_local: bool) -> None:
        self._fs, self._root, self._memory, self._is_local = fs, root, memory, is_local

    def paths(self, meta: Meta, artifact: str | None = None, inside: str = "") -> dict[str, str]:
        """Return paths of a build's files by artifact/file, in order; of one artifact, or a folder in it, if named."""
        chosen = meta.artifacts if artifact is None else {artifact: meta.artifacts[artifact]}
        return {
            f"{name}/{file}": f"{self._root}/{meta.folder}/{name}/{file}"
            for name, contents in chosen.items()
            for file in sorted(contents.files)
            if file.startswith(inside)
        }

    def faults(
        self,
        meta: Meta,
        artifact: str | None = None,
        remembered: Mapping[str, Signature] | None = None,
        inside: str = "",
    ) -> dict[str, str]:
        """Return a build's faults by artifact/file, worded as the end of a sentence; empty if it is whole.

        Args:
            remembered: Signatures under which other processes found files whole, if that is enough here.
        """
        faults = {}
        for name, path in self.paths(meta, artifact, inside).items():
            found_whole = _read_here.get(path), (remembered or {}).get(name)
            if fault := self._fault(path, *_written(meta, name), found_whole):
                faults[name] = fault
        return faults

    def reread(self, meta: Meta) -> dict[str, str]:
        """Return the faults of all files, each read again."""
        found = {name: self._fault(path, *_written(meta, name), ()) for name, path in self.paths(meta).items()}
        return {name: fault for name, fault in found.items() if fault}

    def is_whole(self, meta: Meta) -> bool:
        """Return whether a build's files are as written, trusting this machine's memory of unchanged files."""
        remembered = self._remembered(meta)
        if faults := self.faults(meta, remembered=remembered):
            self.forget(meta.folder)
            said = "; ".join(f"{name} {fault}" for name, fault in faults.items())
            log.warning("%s is damaged and passed over: %s", meta.folder, said)
            return False
        if not remembered:
            self._remember(meta)
        return True

    def wrote(self, meta: Meta) -> None:
        """Remember a build that this process has just written and digested."""
        for path in self.paths(meta).values():
            if (now := self._signature(path)) is not None:
                _read_here[path] = now
        self._remember(meta)

    def forget(self, folder: str) -> None:
        """Make the next process that checks the build in this folder read its files."""
        try:
            self._record(folder).unlink(missing_ok=True)
        except OSError:
            return

    def _fault(self, path: str, size: int, digest: str, found_whole: tuple[Signature | None, ...]) -> str | None:
        now = self._signature(path)
        if now is None:
            return "is missing"
        if now in found_whole:
            return None
        if (found := self._fs.size(path)) != size:
            return f"has {found} bytes instead of {size}"
        if sha256_file(self._fs.open(path, "rb")) != digest:
            return "has other bytes than were written"
        _read_here[path] = now
        return None

    def _signature(self, path: str) -> Signature | None:
        try:
            if self._is_local:
                return _of_file(path)
            about = self._fs.info(path)
        except FileNotFoundError:
            return None
        return about["size"], version_of(about)

    def _remembered(self, meta: Meta) -> dict[str, Signature]:
        try:
            return {name: tuple(found) for name, found in json.loads(self._record(meta.folder).read_text()).items()}
        except (OSError, ValueError, AttributeError, TypeError):
            return {}  # not there, or not whole: the files are read again

    def _remember(self, meta: Meta) -> None:
        record = self._record(meta.folder)
        arriving = record.with_name(f"{record.name}.{os.getpid()}")
        try:
            record.parent.mkdir(parents=True, exist_ok=True)
            arriving.write_text(json.dumps({name: self._signature(path) for name, path in self.paths(meta).items()}))
            arriving.replace(record)
        except OSError:  # a store that is only read: the next process reads the files again
            return

    def _record(self, folder: str) -> Path:
        return self._memory / f"{folder.replace('/', '-')}.json"


def is_copy(folder: Path, files: Mapping[str, tuple[int, str]]) -> bool:
    """Return whether a folder has exactly these files (bytes, sha256); each is read once by this process."""
    for name, (_, digest) in files.items():
        path = str(folder / name)
        try:
            if (now := _of_file(path)) != _read_here.get(path):
                if sha256_file(Path(path).open("rb")) != digest:
                    return False
                _read_here[path] = now
        except FileNotFoundError:
            return False
    return True


def version_of(about: Mapping[str, Any]) -> str:
    """Return an object's ETag, or the time of its last change, by its file system."""
    return str(about.get("ETag") or about.get("LastModified") or about.get("mtime"))


def _of_file(path: str) -> Signature:
    found = Path(path).stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _written(meta: Meta, name: str) -> tuple[int, str]:
    artifact, file = name.split("/", 1)
    return meta.artifacts[artifact].files[file]
