"""Models and data sets from outside: builds of the stage `fetch`, so that every worker has the same ones.

A setting may name such a set in place of a path.  On a machine without a file of that name, the newest build of the
name is used.
"""

import shlex
from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Self, TypeVar

from noisyir.base import during
from noisyir.base.errors import StoreError
from noisyir.base.settings import Params, with_places
from noisyir.engine.builds import Builds
from noisyir.engine.meta import Meta, Ref

P = TypeVar("P", bound=Params)
STAGE, FILES = "fetch", "files"  # the stage and its artifact


@dataclass(frozen=True)
class FetchedSet:
    """A model or a data set.

    Attributes:
        files: (bytes, sha256) by path.
        single: Whether it is one file and no folder.
    """

    name: str
    source: str
    revision: str | None
    fetched: str
    single: bool
    files: Mapping[str, tuple[int, str]]
    ref: Ref

    @classmethod
    def of(cls, meta: Meta) -> Self:
        """Return the set that a build of the stage contains."""
        source, revision = meta.inputs["source"], meta.inputs["revision"] or None
        files = meta.artifacts[FILES].files
        return cls(meta.params["name"], source, revision, meta.created, meta.notes["single"], files, meta.ref(FILES))

    @property
    def command(self) -> str:
        """The command that fetches it again."""
        words = ["noisyir", "fetch", self.source, "--as", self.name, "--again"]
        if self.revision:  # of the Hub, where every model has weights of this kind
            is_model = any(name.endswith(".safetensors") for name in self.files)
            words += ["--revision", self.revision, *([] if is_model else ["--dataset"])]
        return shlex.join(words)

    @property
    def size(self) -> int:
        """Size in bytes."""
        return sum(size for size, _ in self.files.values())


class FetchedSets:
    """Builds of a store that contain fetched sets."""

    def __init__(self, builds: Builds) -> None:
        self._builds = builds

    def be_source(self) -> None:
        """Resolve settings from now on by this store's fetched sets."""
        _source.set(self)

    def as_source(self) -> AbstractContextManager[Self]:
        """Resolve settings by this store's fetched sets during a block."""
        return during(_source, self)

    def find(self, name: str) -> FetchedSet | None:
        """Return the set of this name, if the store has one."""
        return next(map(FetchedSet.of, self._builds.of_key(STAGE, key_of_name(name))), None)

    def newest(self) -> list[Meta]:
        """Return the newest build of each name."""
        found = {meta.key: meta for meta in reversed(self._builds.of_key(STAGE, "*"))}
        return list(found.values())

    def all(self) -> list[FetchedSet]:
        """Return all fetched sets, by name."""
        return sorted(map(FetchedSet.of, self.newest()), key=lambda one: one.name)

    def forget(self, name: str) -> None:
        """Delete a name with its builds."""
        for meta in self._builds.of_key(STAGE, key_of_name(name)):
            self._builds.remove(meta)

    def place_of(self, found: FetchedSet) -> Path:
        """Return the set's local folder, or its file if it is a single one.

        Raises:
            StoreError: If it is damaged.
        """
        with StoreError.wrapping(
            "engine.damaged_store_fetch_again", StoreError, found=found.name, command=found.command
        ):
            folder = self._builds.folder(found.ref)
        return folder / next(iter(found.files)) if found.single else folder


def key_of_name(name: str) -> str:
    """Return the key of all builds of a name, wherever they came from."""
    return sha256(f"{STAGE} {name}".encode()).hexdigest()[:32]


_source: ContextVar[FetchedSets | None] = ContextVar("source", default=None)


def located(params: P) -> P:
    """Return settings with each missing path replaced by the fetched files of that name."""
    return with_places(params, here)


def here(place: str) -> str:
    """Return the path itself or, if it is missing here and was fetched, the path of the fetched files."""
    fetched = _source.get()
    try:
        if fetched is None or Path(place).expanduser().exists():
            return place
    except (OSError, ValueError):  # too long, or no path at all: who reads it says so
        return place
    found = fetched.find(place)
    return str(fetched.place_of(found)) if found else place
