"""Shards of a stage that maps over them: each is a file in the store, whole or absent.

    <root>/.work/<stage>-<key>-<inputs>/<shard>-<first 16 digits of its sha256>.parquet

So a run that died continues after its last shard, and machines that share only the store share the work.
"""

import logging
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from noisyir.base.errors import StoreError
from noisyir.engine.meta import SHARD, sha256_file
from noisyir.engine.tables import write_part

if TYPE_CHECKING:
    from noisyir.engine.store import Store

log = logging.getLogger("noisyir")

_DIGITS = 16

Block = tuple[int, int]  # from row, to row


def blocks_of(name: str, rows: int, size: int) -> dict[str, Block]:
    """Return consecutive blocks of `size` rows, the last perhaps smaller, by the names of their shards."""
    return {f"{name}-{n:05d}": (first, min(first + size, rows)) for n, first in enumerate(range(0, rows, size))}


class Made(NamedTuple):
    """A finished shard: its name, its file and its rows."""

    name: str
    file: str
    rows: int


class Shards:
    """The shards of one build.

    Attributes:
        here: Its local work folder, which is the store's if the store is a folder.
        keeps: Whether copies stay in `here`, for the process that will read them all.
    """

    def __init__(self, store: "Store", here: Path, *, keeps: bool) -> None:
        self._fs, self._is_local = store.fs, store.is_local
        self._here, self._keeps = here, keeps or store.is_local
        self._folder = str(here) if store.is_local else f"{store.root}/.work/{here.name}"

    def save(self, name: str, table: pa.Table) -> Made:
        """Write a shard; two writers of the same one do not disturb each other."""
        arriving = self._here / f".{uuid4().hex}"
        write_part(table, arriving)
        file = f"{name}-{_digest(arriving)}{SHARD}"
        if not self._is_local:
            self._fs.put_file(str(arriving), f"{self._folder}/{file}")
        if self._keeps:
            arriving.replace(self._here / file)
        else:
            arriving.unlink()
        return Made(name, file, table.num_rows)

    def save_each(self, names: Iterable[str], tables: Iterable[pa.Table]) -> Iterator[Made]:
        """Write one shard a name."""
        for name, table in zip(names, tables, strict=True):
            yield self.save(name, table)

    def there(self, names: Collection[str]) -> dict[str, Made]:
        """Return the named shards that are whole, by name; damaged ones are deleted."""
        paths = {name: self._fetched(file) for name, file in self._files(names).items()}
        return {name: Made(name, path.name, pq.read_metadata(path).num_rows) for name, path in paths.items() if path}

    def made(self, names: Collection[str]) -> list[Made]:
        """Return the named shards that exist, read from the ends of their files only."""
        found = []
        for name, file in self._files(names).items():
            with suppress(pa.ArrowInvalid, OSError):
                rows = pq.read_metadata(f"{self._folder}/{file}", filesystem=self._fs).num_rows
                found.append(Made(name, file, rows))
        return found

    def fetch(self, file: str) -> Path:
        """Return a shard as a local file.

        Raises:
            StoreError: If it was damaged after it was written.
        """
        if (path := self._fetched(file)) is None:
            raise StoreError("engine.shard_gone_damaged_run", file=file)
        return path

    def _files(self, names: Collection[str]) -> dict[str, str]:
        try:
            paths = self._fs.ls(self._folder, detail=False)
        except FileNotFoundError:
            return {}
        files = {path.rpartition("/")[2] for path in paths if path.endswith(SHARD)}
        return {name: file for file in sorted(files) if (name := file[: -_DIGITS - len(f"-{SHARD}")]) in names}

    def _fetched(self, file: str) -> Path | None:
        path, far = self._here / file, f"{self._folder}/{file}"
        if not self._is_local and not _is_whole(path) and self._fs.exists(far):
            self._fs.get_file(far, str(path))
        if _is_whole(path):
            return path
        log.warning("the damaged shard %s is made again", file)
        path.unlink(missing_ok=True)
        if not self._is_local and self._fs.exists(far):
            self._fs.rm_file(far)
        return None


def _is_whole(path: Path) -> bool:
    return path.exists() and _digest(path) == path.stem[-_DIGITS:]


def _digest(path: Path) -> str:
    return sha256_file(path.open("rb"))[:_DIGITS]
