"""Models and data sets from outside, each a build of the stage `fetch`, so that every worker has the same ones.

A setting that says where raw input lies may name such a set.  On a machine that has nothing of that name the newest
build of the name stands for it.
"""

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Self, TypeVar

from noisyir.base.errors import StoreError
from noisyir.base.settings import Params, with_places
from noisyir.engine.builds import Builds
from noisyir.engine.meta import Meta, Ref

P = TypeVar("P", bound=Params)
STAGE, FILES = "fetch", "files"  # the stage and its artifact


@dataclass(frozen=True)
class FetchedSet:
    """A model or a data set.  files: (bytes, sha256) by path; single: whether it is one file and no folder."""

    name: str
    source: str
    revision: str | None
    fetched: str
    single: bool
    files: Mapping[str, tuple[int, str]]
    ref: Ref

    @classmethod
    def of(cls, meta: Meta) -> Self:
        """The set that a build of the stage holds."""
        source, revision = meta.inputs["source"], meta.inputs["revision"] or None
        files = meta.artifacts[FILES].files
        return cls(meta.params["name"], source, revision, meta.created, meta.notes["single"], files, meta.ref(FILES))

    @property
    def command(self) -> str:
        """The command that fetches the same again."""
        words = ["noisyir", "fetch", self.source, "--as", self.name, "--again"]
        if self.revision:  # of the Hub, where every model has weights of this kind
            is_model = any(name.endswith(".safetensors") for name in self.files)
            words += ["--revision", self.revision, *([] if is_model else ["--dataset"])]
        return shlex.join(words)

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(size for size, _ in self.files.values())


class FetchedSets:
    """The builds of a store that hold what was fetched."""

    def __init__(self, builds: Builds) -> None:
        self._builds = builds

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
        return next(map(FetchedSet.of, self._builds.of_key(STAGE, key_of_name(name))), None)

    def newest(self) -> list[Meta]:
        """The build that each name means."""
        found = {meta.key: meta for meta in reversed(self._builds.of_key(STAGE, "*"))}
        return list(found.values())

    def all(self) -> list[FetchedSet]:
        """All that was fetched, by name."""
        return sorted(map(FetchedSet.of, self.newest()), key=lambda one: one.name)

    def forget(self, name: str) -> None:
        """Have the name mean nothing any more."""
        for meta in self._builds.of_key(STAGE, key_of_name(name)):
            self._builds.remove(meta)

    def place_of(self, found: FetchedSet) -> Path:
        """The set's folder on this machine, or its file if it is a single one.  StoreError if it is damaged."""
        try:
            folder = self._builds.folder(found.ref)
        except StoreError as error:
            raise StoreError("engine.damaged_store_fetch_again", found=found.name, command=found.command) from error
        return folder / next(iter(found.files)) if found.single else folder


def key_of_name(name: str) -> str:
    """The key of all builds of a name, wherever they came from."""
    return sha256(f"{STAGE} {name}".encode()).hexdigest()[:32]


_source: ContextVar[FetchedSets | None] = ContextVar("source", default=None)


def located(params: P) -> P:
    """Settings in which a place that is not on this machine is that of what was fetched under its name."""
    return with_places(params, here)


def here(place: str) -> str:
    """The place itself, or where it is not on this machine and was fetched, that of the fetched files."""
    fetched = _source.get()
    try:
        if fetched is None or Path(place).expanduser().exists():
            return place
    except (OSError, ValueError):  # too long, or no path at all: who reads it says so
        return place
    found = fetched.find(place)
    return str(fetched.place_of(found)) if found else place
