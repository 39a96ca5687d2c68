"""Models and data sets from outside, kept in a store under their digests, so that every worker has the same ones.

    <root>/.fetched/files/<sha256>      the bytes of one file, once, however many sets have it
    <root>/.fetched/names/<name>.json   what a name means: its files with digests, where they came from and when

A setting that says where raw input lies may name such a set; where this machine has nothing of that name, a copy is
made of the store's.
"""

import os
import shlex
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, unquote

from noisyir.base.errors import DataError, StoreError
from noisyir.base.settings import Params, with_places
from noisyir.engine.locks import held
from noisyir.engine.meta import canonical_json, sealed, sha256_file, unsealed
from noisyir.engine.root import Root

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
    """The part of a store that holds what was fetched."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._read: set[str] = set()  # copies that this process has found to be as they were fetched

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
        return sorted(map(self._set_at, self._names()), key=lambda one: one.name)

    def add_file(self, path: Path) -> tuple[int, str]:
        """Bring the bytes of a file in, unless they are there; (bytes, sha256) of what was brought.

        DataError where the file changes meanwhile.
        """
        if self._root.is_local:
            arriving = Path(self._file(f"arriving.{os.getpid()}"))
            arriving.parent.mkdir(parents=True, exist_ok=True)
            try:
                shutil.copyfile(path, arriving)
                found = arriving.stat().st_size, _sha256(arriving)
                if self._digest_at(self._file(found[1])) != found[1]:
                    arriving.replace(self._file(found[1]))
            finally:
                arriving.unlink(missing_ok=True)
            return found
        found = path.stat().st_size, _sha256(path)
        if self._digest_at(target := self._file(found[1])) != found[1]:
            self._root.fs.makedirs(target.rpartition("/")[0], exist_ok=True)
            self._root.fs.put_file(str(path), target)
            if self._digest_at(target) != found[1]:
                self._root.fs.rm_file(target)
                raise DataError("engine.changed_while_fetched_fetch", path=path)
        return found

    def damaged(self) -> tuple[dict[str, str], list[FetchedSet]]:
        """By path what is wrong with names, bytes and copies here, and the sets to fetch again; all is read."""
        found: dict[str, str] = {}
        sets = []
        for path in self._names():
            try:
                sets.append(self._set_at(path))
            except StoreError as error:
                found[path] = str(error)
        for one in sets:
            copy = self._copy(one)
            if copy.exists() and not _is_whole(copy, one):
                found[str(copy)] = "has other bytes than were fetched; the next use makes it again"
        lost = set()
        for digest in {digest for one in sets for _, digest in one.files.values()}:
            if self._digest_at(self._file(digest)) != digest:
                lost.add(digest)
                found[self._file(digest)] = "has other bytes than were fetched, or is gone"
        return found, [one for one in sets if any(digest in lost for _, digest in one.files.values())]

    def remove(self, path: str) -> None:
        """Remove what `damaged` named."""
        if Path(path).is_dir():
            shutil.rmtree(path)
        elif self._root.fs.exists(path):
            self._root.fs.rm_file(path)

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
        """A local copy, made once under its digest and read when a process opens it first; of a single file that file.

        A damaged copy is made again.  StoreError where the store's bytes are wrong.
        """
        folder = self._copy(found)
        with held(self._root.scratch / ".locks" / f"fetched-{found.digest}"):
            if found.digest not in self._read and folder.exists() and not _is_whole(folder, found):
                shutil.rmtree(folder)
            if not folder.exists():
                arriving = folder.with_name(f"{found.digest}.arriving")
                for name, (_, digest) in found.files.items():
                    self._bring(digest, arriving / name)
                arriving.rename(folder)
            self._read.add(found.digest)
        return folder / next(iter(found.files)) if found.single else folder

    def _bring(self, digest: str, target: Path) -> None:
        if target.exists() and _sha256(target) == digest:  # of a copy that was cut off
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        arriving = target.with_name(f"{target.name}.arriving")
        arriving.unlink(missing_ok=True)
        try:
            if self._root.is_local:
                shutil.copyfile(self._file(digest), arriving)
            else:
                self._root.fs.get_file(self._file(digest), str(arriving))
        except FileNotFoundError as error:
            raise StoreError("engine.gone_fetch_again", file=self._file(digest), url=self._root.url) from error
        if _sha256(arriving) != digest:
            raise StoreError("engine.other_bytes_were_fetched", file=self._file(digest))
        arriving.replace(target)

    def _set_at(self, path: str) -> FetchedSet:
        try:
            fields = unsealed(self._root.fs.cat_file(path))
            files = {name: (size, digest) for name, (size, digest) in fields.pop("files").items()}
            return FetchedSet(**fields, files=files)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            name = unquote(path.rpartition("/")[2].removesuffix(".json"))
            raise StoreError("engine.cannot_read_fetch_again", path=path, error=error, name=name) from error

    def _names(self) -> list[str]:
        folder = f"{self._root.path}/.fetched/names"
        paths = self._root.fs.ls(folder, detail=False) if self._root.fs.isdir(folder) else []
        return [path for path in paths if path.endswith(".json")]

    def _digest_at(self, path: str) -> str | None:
        """Of the bytes there; None where there are none."""
        try:
            with self._root.fs.open(path, "rb") as file:
                return sha256_file(file)
        except FileNotFoundError:
            return None

    def _copy(self, found: FetchedSet) -> Path:
        return self._root.scratch / ".copies" / found.digest

    def _file(self, digest: str) -> str:
        return f"{self._root.path}/.fetched/files/{digest}"

    def _name_file(self, name: str) -> str:
        return f"{self._root.path}/.fetched/names/{quote(name, safe='')}.json"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return sha256_file(file)


def _is_whole(folder: Path, found: FetchedSet) -> bool:
    """Whether a copy has the files that were fetched and no other."""
    there = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    wanted = {name: digest for name, (_, digest) in found.files.items()}
    return there.keys() == wanted.keys() and all(_sha256(path) == wanted[name] for name, path in there.items())


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
