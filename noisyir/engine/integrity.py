"""Whether stored files are as they were written: each is read for its digest once, and again when it has changed."""

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
    """Looks at the builds of a store, and remembers what it has found.

    A file that this process has read is not read again while its signature stays.  Other processes of this machine
    leave their findings in `memory`: enough to take a build for whole, and not enough to use its bytes, for bits may
    rot under an unchanged signature.
    """

    def __init__(self, fs: Any, root: str, memory: Path, *, is_local: bool) -> None:
        self._fs, self._root, self._memory, self._is_local = fs, root, memory, is_local

    def paths(self, meta: Meta, artifact: str | None = None, inside: str = "") -> dict[str, str]:
        """Where a build's files lie, by artifact/file, in order; of one artifact, or a folder in it, where named."""
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
        """By artifact/file, what is wrong with a build, as the end of a sentence; empty where all is as written.

        remembered: signatures under which other processes found files whole, where their word is enough.
        """
        faults = {}
        for name, path in self.paths(meta, artifact, inside).items():
            found_whole = _read_here.get(path), (remembered or {}).get(name)
            if fault := self._fault(path, *_written(meta, name), found_whole):
                faults[name] = fault
        return faults

    def reread(self, meta: Meta) -> dict[str, str]:
        """The same of all files, each read whatever is remembered."""
        found = {name: self._fault(path, *_written(meta, name), ()) for name, path in self.paths(meta).items()}
        return {name: fault for name, fault in found.items() if fault}

    def is_whole(self, meta: Meta) -> bool:
        """Whether a build's files are as written, by what this machine remembers of them where they did not change."""
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
        """A build whose files this process has just written, and digested on the way."""
        for path in self.paths(meta).values():
            if (now := self._signature(path)) is not None:
                _read_here[path] = now
        self._remember(meta)

    def forget(self, folder: str) -> None:
        """Have the next process that looks for the build in this folder read its files."""
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
        return about["size"], str(about.get("ETag") or about.get("LastModified") or about.get("mtime"))

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
    """Whether a folder has these files (bytes, sha256) as they were written, each read once by this process."""
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


def _of_file(path: str) -> Signature:
    found = Path(path).stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _written(meta: Meta, name: str) -> tuple[int, str]:
    artifact, file = name.split("/", 1)
    return meta.artifacts[artifact].files[file]
