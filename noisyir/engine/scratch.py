"""What lies on this machine beside a store: builds in progress and their checkpoints; and locks, leases included."""

import errno
import hashlib
import logging
import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from noisyir.engine.builds import SHARD, canonical_json, input_digests
from noisyir.engine.leases import Lease, Leases, conditional_files
from noisyir.engine.locks import WAIT, held, held_if_free, is_held

log = logging.getLogger("noisyir")

RUN_LOCK = "run"  # the lock that each run holds under its id, while it lives
_STORE = "store"  # the lock that runs share, and `gc` has alone


class Scratch:
    """Folders that the processes of one machine share, and locks."""

    fs: Any
    root: str
    url: str
    home: Path
    is_local: bool

    @cached_property
    def _scratch(self) -> Path:
        """Local folder for what is not yet published; on the store's own disk where that is possible."""
        if self.is_local:
            return Path(self.root)
        return self.home / "remote" / hashlib.sha256(self.url.encode()).hexdigest()[:16]

    @cached_property
    def _leases(self) -> Leases | None:
        """Leases of an object store whose server knows conditional writes; None where locks of this home must do."""
        if self.is_local:
            return None
        files = conditional_files(self.fs)
        try:
            kept_apart = files is not None and files.are_kept_apart(f"{self.root}/.leases/conditions")
        except PermissionError:  # who may only read can ask who holds what
            kept_apart = True
        if files and kept_apart:
            return Leases(files, self.fs, self.root, self._scratch)
        why = "the server ignores conditional writes" if files else "conditional writes are known of S3 alone"
        log.warning(
            "%s: %s, so that locks hold between processes of this machine only: let one machine at a time use it",
            self.url, why,
        )  # fmt: skip
        return None

    @cached_property
    def _held(self) -> dict[str, Lease]:
        """Leases that this object holds, by name."""
        return {}

    @contextmanager
    def lock(self, stage: str, key: str) -> Iterator[bool]:
        """Hold the build of a key, on all machines that use the store; yields whether another had to be waited for.

        All: where the store is a folder, those that share it with its locks; on S3 those that reach it.
        """
        name = f"{stage}-{key}"
        with held(self._lock_file(stage, key)) as waited:
            if self._leases is None:
                yield waited
                return
            with self._leases.held(name) as (lease, waited_there), self._remembered_as(name, lease):
                yield waited or waited_there

    def is_locked(self, stage: str, key: str) -> bool:
        """Whether a process holds the lock: of this machine, or, where the store has leases, of any."""
        if is_held(self._lock_file(stage, key)):
            return True
        return self._leases is not None and self._leases.is_held(f"{stage}-{key}")

    @property
    def locks_everywhere(self) -> bool:
        """Whether a lock is seen from every machine that uses the store, and not from that of its holder alone."""
        return self._leases is not None

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep others from deleting builds; runs hold it together.

        A store that this user may only read is used without: the lock is a file in it.
        """
        with ExitStack() as stack:
            try:
                stack.enter_context(held(self._scratch / ".locks" / _STORE, shared=True))
                if self._leases:
                    stack.enter_context(self._leases.shared(_STORE))
            except OSError as error:  # of an object store a PermissionError without a number
                if not isinstance(error, PermissionError) and error.errno != errno.EROFS:
                    raise
            yield

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Be the only one at work on the store.

        StoreError when others are: at once, or when they still are after the time that $NOISYIR_WAIT sets.
        """
        wait = None if WAIT in os.environ else 0.0
        with held(self._scratch / ".locks" / _STORE, wait=wait) as waited:
            if self._leases is None:
                yield waited
                return
            with self._leases.alone(_STORE, wait) as lease, self._remembered_as(_STORE, lease):
                yield waited

    @contextmanager
    def _remembered_as(self, name: str, lease: Lease) -> Iterator[None]:
        self._held[name] = lease
        try:
            yield
        finally:
            del self._held[name]

    def check_alone(self) -> None:
        """LeaseLostError where this process was to be alone, and another has taken that over."""
        if lease := self._held.get(_STORE):
            lease.check()

    def _lock_file(self, stage: str, key: str) -> Path:
        return self._scratch / ".locks" / f"{stage}-{key}"

    def staging(self, stage: str, key: str) -> Path:
        """An empty folder for a build in progress; call it under the key's lock."""
        path = self._scratch / ".staging" / f"{stage}-{key}"
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path

    def work(self, stage: str, key: str, inputs: Mapping[str, Any]) -> Path:
        """A folder that outlives a killed build of the same key and inputs: shards and checkpoints."""
        tag = hashlib.sha256(canonical_json(input_digests(inputs)).encode()).hexdigest()[:12]
        path = self.work_named(f"{stage}-{key}-{tag}")
        if not self.is_local:
            self._bring_work(path)
        return path

    def work_named(self, name: str) -> Path:
        """The folder of this name that `work` gives, on this machine."""
        path = self._scratch / ".work" / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def keep_work(self, work: Path, file: Path) -> None:
        """Have another machine that goes on with this build find a file of its folder, where the store is remote."""
        if not self.is_local:
            there = f"{self.root}/.work/{work.name}/{file.relative_to(work).as_posix()}"
            self.fs.put_file(str(file), there)
            _mark(file).write_text(_state(self.fs.info(there)))

    def remove_work(self, work: Path) -> None:
        """Delete the folder of a build that has ended well, here and in the store."""
        shutil.rmtree(work, ignore_errors=True)
        if not self.is_local:
            with suppress(FileNotFoundError):
                self.fs.rm(f"{self.root}/.work/{work.name}", recursive=True)

    def _bring_work(self, work: Path) -> None:
        """Take what another machine has left in the store since, if any has; but no shards, which are asked for."""
        base = f"{self.root}/.work/{work.name}"
        found = self.fs.find(base, detail=True)
        for path, about in ((path, found[path]) for path in found if not path.endswith(SHARD)):
            file = work / path[len(base) + 1 :]
            if not (_mark(file).exists() and _mark(file).read_text() == _state(about)):
                file.parent.mkdir(parents=True, exist_ok=True)
                arriving = file.with_name(f"{file.name}.arriving")
                self.fs.get_file(path, str(arriving))
                arriving.replace(file)
                _mark(file).write_text(_state(about))
                log.info("%s was left in the store by another machine, and is gone on from", file.name)

    def remove_leftovers(self, needed: Collection[str] = ()) -> list[Path]:
        """Delete checkpoints and half builds of keys that nobody is building now, and locks of runs that have ended.

        needed: keys whose checkpoints stay, for a killed run may go on from them.
        """
        removed = []
        for folder in [*self._scratch.glob(".staging/*"), *self._scratch.glob(".work/*")]:
            stage, key = folder.name.split("-")[:2]
            if folder.parent.name == ".work" and key in needed:
                continue
            with held_if_free(self._lock_file(stage, key)) as free:
                if free and folder.exists():  # a build may have been published since they were listed
                    shutil.rmtree(folder, ignore_errors=True)
                    removed.append(folder)
        for path in self._scratch.glob(".locks/run-*"):  # of a run, whose id is never locked again
            with held_if_free(path) as free:
                if free:
                    path.unlink(missing_ok=True)
        if self._leases:
            self._leases.sweep()
        return removed + self._remove_remote_work(needed)

    def _remove_remote_work(self, needed: Collection[str]) -> list[Path]:
        """What machines left in the store of builds that no run goes on with; nobody builds while this is asked."""
        base, removed = f"{self.root}/.work", []
        for path in self.fs.ls(base, detail=False) if not self.is_local and self.fs.isdir(base) else []:
            if path.rpartition("/")[2].split("-")[1] not in needed:
                self.fs.rm(path, recursive=True)
                removed.append(Path(path))
        return removed


def _mark(file: Path) -> Path:
    """Beside a file that is in the store, too: in what state the store's was when the two were the same."""
    return file.with_name(f".{file.name}.kept")


def _state(about: Mapping[str, Any]) -> str:
    return str(about.get("ETag") or about.get("LastModified") or about.get("mtime"))
