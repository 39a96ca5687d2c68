"""Local folders next to a store: builds in progress, and their checkpoints."""

import logging
import shutil
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from noisyir.engine.integrity import version_of
from noisyir.engine.locks import held_if_free
from noisyir.engine.meta import SHARD, input_digests, json_digest
from noisyir.engine.root import Root
from noisyir.engine.store_locks import StoreLocks

log = logging.getLogger("noisyir")


class WorkFolders:
    """Folders that the processes of one machine share."""

    def __init__(self, root: Root, locks: StoreLocks) -> None:
        self._root, self._locks = root, locks

    def staging(self, stage: str, key: str) -> Path:
        """Return an empty folder for a build in progress; call it under the key's lock."""
        path = self._root.scratch / ".staging" / f"{stage}-{key}"
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path

    def folder(self, stage: str, key: str, inputs: Mapping[str, Any]) -> Path:
        """Return a folder that outlives a killed build of the same key and inputs: shards and checkpoints."""
        tag = json_digest(input_digests(inputs))[:12]
        path = self.named(f"{stage}-{key}-{tag}")
        if not self._root.is_local:
            self._bring(path)
        return path

    def named(self, name: str) -> Path:
        """Return the local folder of a name that `folder` gave."""
        path = self._root.scratch / ".work" / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def keep(self, work: Path, file: Path) -> None:
        """Let another machine continue this build from a file of its folder, if the store is remote."""
        if not self._root.is_local:
            there = f"{self._root.path}/.work/{work.name}/{file.relative_to(work).as_posix()}"
            self._root.fs.put_file(str(file), there)
            _mark(file).write_text(version_of(self._root.fs.info(there)))

    def remove(self, work: Path) -> None:
        """Delete the folder of a build that has ended well, here and in the store."""
        shutil.rmtree(work, ignore_errors=True)
        if not self._root.is_local:
            with suppress(FileNotFoundError):
                self._root.fs.rm(f"{self._root.path}/.work/{work.name}", recursive=True)

    def _bring(self, work: Path) -> None:
        """Take files, except shards, that another machine has left in the store since."""
        base = f"{self._root.path}/.work/{work.name}"
        found = self._root.fs.find(base, detail=True)
        for path, about in ((path, found[path]) for path in found if not path.endswith(SHARD)):
            file = work / path[len(base) + 1 :]
            if not (_mark(file).exists() and _mark(file).read_text() == version_of(about)):
                file.parent.mkdir(parents=True, exist_ok=True)
                arriving = file.with_name(f"{file.name}.arriving")
                self._root.fs.get_file(path, str(arriving))
                arriving.replace(file)
                _mark(file).write_text(version_of(about))
                log.info("%s was left in the store by another machine, and is gone on from", file.name)

    def remove_leftovers(self, needed: Collection[str] = ()) -> list[Path]:
        """Delete checkpoints and half builds of keys that no one builds now, and locks of runs that have ended.

        Args:
            needed: Keys with checkpoints to keep, because a killed run may continue from them.
        """
        removed = []
        for folder in [*self._root.scratch.glob(".staging/*"), *self._root.scratch.glob(".work/*")]:
            stage, key = folder.name.split("-")[:2]
            if folder.parent.name == ".work" and key in needed:
                continue
            with held_if_free(self._locks.file(stage, key)) as free:
                if free and folder.exists():  # a build may have been published since they were listed
                    shutil.rmtree(folder, ignore_errors=True)
                    removed.append(folder)
        self._locks.sweep()
        return removed + self._remove_remote(needed)

    def _remove_remote(self, needed: Collection[str]) -> list[Path]:
        """Delete machines' folders in the store for builds that no run continues; no one builds meanwhile."""
        base, fs = f"{self._root.path}/.work", self._root.fs
        if self._root.is_local or not fs.isdir(base):
            return []
        left = [path for path in fs.ls(base, detail=False) if path.rpartition("/")[2].split("-")[1] not in needed]
        for path in left:
            fs.rm(path, recursive=True)
        return list(map(Path, left))


def _mark(file: Path) -> Path:
    """Return the file that records the state of the store's copy when the two were last equal."""
    return file.with_name(f".{file.name}.kept")
