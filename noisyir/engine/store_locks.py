"""Who may build a key, and who uses a store: locks of this machine's processes, and leases where machines share it."""

import errno
import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path

from noisyir.engine.locks import WAIT, held_if_free
from noisyir.engine.locks import held as file_held
from noisyir.engine.locks import is_held as is_file_held
from noisyir.engine.remote.leases import Lease, Leases, conditional_files
from noisyir.engine.root import Root

log = logging.getLogger("noisyir")

RUN_LOCK = "run"  # the lock that each run holds under its id, while it lives
_STORE = "store"  # the lock that runs share, and `gc` has alone


class StoreLocks:
    """The locks of a store."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._held: dict[str, Lease] = {}

    @cached_property
    def _leases(self) -> Leases | None:
        """Leases of an object store whose server knows conditional writes; None where locks of this home must do."""
        if self._root.is_local:
            return None
        files = conditional_files(self._root.fs)
        try:
            kept_apart = files is not None and files.are_kept_apart(f"{self._root.path}/.leases/conditions")
        except PermissionError:  # who may only read can ask who holds what
            kept_apart = True
        if files and kept_apart:
            return Leases(files, self._root.fs, self._root.path, self._root.scratch)
        why = "the server ignores conditional writes" if files else "conditional writes are known of S3 alone"
        log.warning(
            "%s: %s. Locks hold between processes of this machine only: let one machine at a time use it",
            self._root.url, why,
        )  # fmt: skip
        return None

    @contextmanager
    def held(self, stage: str, key: str) -> Iterator[bool]:
        """Hold the build of a key, on all machines that use the store; yields whether another had to be waited for.

        All: where the store is a folder, those that share it with its locks; on S3 those that reach it.
        """
        name = f"{stage}-{key}"
        with file_held(self.file(stage, key)) as waited:
            if self._leases is None:
                yield waited
                return
            with self._leases.held(name) as (lease, waited_there), self._remembered_as(name, lease):
                yield waited or waited_there

    def is_held(self, stage: str, key: str) -> bool:
        """Whether a process holds the lock: of this machine, or, where the store has leases, of any."""
        if is_file_held(self.file(stage, key)):
            return True
        return self._leases is not None and self._leases.is_held(f"{stage}-{key}")

    @property
    def everywhere(self) -> bool:
        """Whether a lock is seen from every machine that uses the store, and not from that of its holder alone."""
        return self._leases is not None

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep others from deleting builds; runs hold it together.

        A store that this user may only read is used without: the lock is a file in it.
        """
        with ExitStack() as stack:
            try:
                stack.enter_context(file_held(self._root.scratch / ".locks" / _STORE, shared=True))
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
        with file_held(self._root.scratch / ".locks" / _STORE, wait=wait) as waited:
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

    def lease(self, name: str) -> Lease | None:
        """The lease of this name, where this object holds it."""
        return self._held.get(name)

    def sweep(self) -> None:
        """Delete locks of runs that have ended, and leases that nobody holds."""
        for path in self._root.scratch.glob(".locks/run-*"):  # of a run, whose id is never locked again
            with held_if_free(path) as free:
                if free:
                    path.unlink(missing_ok=True)
        if self._leases:
            self._leases.sweep()

    def file(self, stage: str, key: str) -> Path:
        """The file that is locked on this machine."""
        return self._root.scratch / ".locks" / f"{stage}-{key}"
