"""Models and data sets from outside, kept in a store under their digests, so that every worker has the same ones.

    <root>/.fetched/files/<sha256>      the bytes of one file, once, however many sets have it
    <root>/.fetched/names/<name>.json   what a name means: its files with digests, where they came from and when

A setting that says where raw input lies may name such a set; where this machine has nothing of that name, a copy is
made of the store's.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from noisyir.engine.locks import held
from noisyir.engine.meta import canonical_json, sealed, sha256_file, unsealed
from noisyir.engine.root import Root
from noisyir.errors import StoreError
from noisyir.settings import Params, with_places

P = TypeVar("P", bound=Params)


@dataclass(frozen=True)
class FetchedSet:
    """A model or a data set.  files: (bytes, sha256) by path; single: whether it is one file and no folder."""

    name: str
    source: str
    revision: str | None
    fetched: str
    single: bool
    files: Mapping[str, tuple[int, str]]

    @property
    def digest(self) -> str:
        """Of all names and bytes."""
        return sha256(canonical_json(self.files).encode()).hexdigest()

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(size for size, _ in self.files.values())


class FetchedSets:
    """The part of a store that holds what was fetched."""

    def __init__(self, root: Root) -> None:
        self._root = root

    def be_source(self) -> None:
        """Have settings that this code meets from now on find what was fetched into this store."""
        _source.set(self)

    @contextmanager
    def as_source(self) -> Iterator[None]:
        """The same for the length of a block."""
        token = _source.set(self)
        try:
            yield
        finally:
            _source.reset(token)

    def find(self, name: str) -> FetchedSet | None:
        """The set of this name, where the store has one."""
        try:
            return self._set_at(self._name_file(name))
        except FileNotFoundError:
            return None

    def all(self) -> list[FetchedSet]:
        """All that was fetched, by name."""
        folder = f"{self._root.path}/.fetched/names"
        paths = self._root.fs.ls(folder, detail=False) if self._root.fs.isdir(folder) else []
        return sorted((self._set_at(path) for path in paths if path.endswith(".json")), key=lambda one: one.name)

    def add_file(self, path: Path) -> tuple[int, str]:
        """Bring the bytes of a file in, unless they are there; (bytes, sha256)."""
        found = path.stat().st_size, sha256_file(path.open("rb"))
        target = self._file(found[1])
        if not (self._root.fs.exists(target) and self._root.fs.size(target) == found[0]):
            self._root.fs.makedirs(target.rpartition("/")[0], exist_ok=True)
            if self._root.is_local:
                arriving = Path(f"{target}.{os.getpid()}")
                shutil.copyfile(path, arriving)
                arriving.replace(target)
            else:
                self._root.fs.put_file(str(path), target)
        return found

    def name(self, found: FetchedSet) -> None:
        """Have the name mean these files from now on."""
        path, text = self._name_file(found.name), sealed(asdict(found)).encode()
        self._root.fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        self._root.fs.pipe_file(path, text)

    def forget(self, name: str) -> None:
        """Have the name mean nothing any more, and remove files that no other name has."""
        self._root.fs.rm_file(self._name_file(name))
        needed = {digest for one in self.all() for _, digest in one.files.values()}
        for path in self._root.fs.find(f"{self._root.path}/.fetched/files"):
            if path.rpartition("/")[2] not in needed:
                self._root.fs.rm_file(path)

    def copy_of(self, found: FetchedSet) -> Path:
        """A local copy, made once under its digest; of a single file that file.  StoreError where bytes are wrong."""
        folder = self._root.scratch / ".copies" / found.digest
        with held(self._root.scratch / ".locks" / f"fetched-{found.digest}"):
            if not folder.exists():
                arriving = folder.with_name(f"{found.digest}.arriving")
                for name, (_, digest) in found.files.items():
                    self._bring(digest, arriving / name)
                arriving.rename(folder)
        return folder / next(iter(found.files)) if found.single else folder

    def _bring(self, digest: str, target: Path) -> None:
        if target.exists():  # of a copy that was cut off
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        arriving = target.with_name(f"{target.name}.arriving")
        arriving.unlink(missing_ok=True)
        try:
            if self._root.is_local:
                arriving.hardlink_to(self._file(digest))
            else:
                self._root.fs.get_file(self._file(digest), str(arriving))
        except FileNotFoundError as error:
            raise StoreError(f"{self._file(digest)} is gone from {self._root.url}: fetch it with --again") from error
        if sha256_file(arriving.open("rb")) != digest:
            raise StoreError(f"{self._file(digest)} has other bytes than were fetched: fetch it with --again")
        arriving.replace(target)

    def _set_at(self, path: str) -> FetchedSet:
        try:
            fields = unsealed(self._root.fs.cat_file(path))
            files = {name: (size, digest) for name, (size, digest) in fields.pop("files").items()}
            return FetchedSet(**fields, files=files)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise StoreError(f"{path} cannot be read: {error}. Remove it, and fetch what it names again") from error

    def _file(self, digest: str) -> str:
        return f"{self._root.path}/.fetched/files/{digest}"

    def _name_file(self, name: str) -> str:
        return f"{self._root.path}/.fetched/names/{quote(name, safe='')}.json"


_source: ContextVar[FetchedSets | None] = ContextVar("source", default=None)


def located(params: P) -> P:
    """Settings in which a place that is not on this machine is that of a copy of what was fetched under its name."""
    return with_places(params, here)


def here(place: str) -> str:
    """The place itself, or where it is not on this machine and was fetched, the copy's."""
    fetched = _source.get()
    try:
        if fetched is None or Path(place).expanduser().exists():
            return place
    except (OSError, ValueError):  # too long, or no path at all: who reads it says so
        return place
    found = fetched.find(place)
    return str(fetched.copy_of(found)) if found else place
