"""Deleting from a store: builds, and what is left of those that were never published to the end."""

import os
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from noisyir.engine.builds import META, Meta
from noisyir.engine.integrity import Integrity
from noisyir.engine.leases import BARRED
from noisyir.errors import StoreError

_GONE = "_gone"  # in place of the meta of a build that was removed and may come again under its name


class Removal:
    """What `gc` and `verify --repair` do to a store."""

    fs: Any
    root: str
    is_local: bool
    _integrity: Integrity

    def _glob(self, pattern: str) -> list[str]:
        raise NotImplementedError

    def builds(self, stage: str, key: str) -> list[Meta]:
        """The store's."""
        raise NotImplementedError

    def check_alone(self) -> None:
        """The store's."""
        raise NotImplementedError

    def remove(self, meta: Meta) -> None:
        """Delete a build, its meta first so that it is never seen half deleted."""
        self.remove_folder(meta.folder)

    def remove_folder(self, folder: str, *, keep_name: bool = False) -> None:
        """Delete the folder of a build, relative to the root.

        keep_name: leave the name to a build that will have the same bytes, for runs and other builds know it by that.
        """
        base = f"{self.root}/{folder}"
        self.check_alone()
        self._integrity.forget(folder)
        try:
            with suppress(FileNotFoundError):
                self.fs.rm_file(f"{base}/{META}")
            self.fs.rm(base, recursive=True)
            if keep_name:
                self.fs.makedirs(base, exist_ok=True)
                self.fs.pipe_file(f"{base}/{_GONE}", b"")
        except FileNotFoundError:  # another process was faster
            return
        except OSError as error:
            raise StoreError(f"cannot delete {base}: {error}") from error

    def _former_name(self, stage: str, key: str, digest: str) -> str | None:
        """The name of a build with this digest that was damaged, if it would be the key's newest; None without one."""
        there = {meta.build for meta in self.builds(stage, key)}
        found = [path.split("/")[-2] for mark in (META, _GONE) for path in self._glob(f"{stage}/{key}/*/{mark}")]
        fitting = [name for name in found if name.endswith(f"-{digest[:12]}") and name not in there]
        newest = max(fitting, default="")
        return newest if newest > max(there, default="") else None

    def orphans(self, older_than: timedelta) -> list[str]:
        """Folders of builds, relative to the root, whose meta never came, or went first, so long ago.

        By the clock that dates the files, which is the store's and not always this machine's.
        """
        whole = {path.rpartition("/")[0] for path in self._glob(f"*/*/*/{META}") if not self.is_barred(path)}
        kept = {path.rpartition("/")[0] for path in self._glob(f"*/*/*/{_GONE}")}
        found = [path for path in self._glob("*/*/*") if path not in whole | kept and self.fs.isdir(path)]
        oldest = self._now() - older_than if found else datetime.now(UTC)
        return [path[len(self.root) + 1 :] for path in found if self._last_written(path) < oldest]

    def is_barred(self, path: str) -> bool:
        """Whether in place of a meta there is the word that its writer came too late."""
        return not self.is_local and self.fs.size(path) == len(BARRED) and self.fs.cat_file(path) == BARRED

    def _now(self) -> datetime:
        probe = f"{self.root}/.now-{os.getpid()}"
        try:
            self.fs.pipe_file(probe, b"")
            now: datetime = self.fs.modified(probe)
            self.fs.rm_file(probe)
        except Exception:  # fsspec's backends raise what they like where nothing may be written
            return datetime.now(UTC)
        return now

    def _last_written(self, folder: str) -> datetime:
        files = self.fs.find(folder)
        return max((self.fs.modified(path) for path in files), default=datetime.min.replace(tzinfo=UTC))
