"""Who may build a key and who uses a store: local locks, and leases if machines share the store."""

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
from noisyir.engine.remote.leases import ConditionalFiles, Lease, Leases
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
        """Return leases of an object store with conditional writes; None if local locks must do."""
        if self._root.is_local:
            return None
        files = ConditionalFiles(self._root.fs) if "s3" in self._root.fs.protocol else None
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
        """Hold the build of a key on all machines that use the store; yields whether another had to be waited for."""
        name = f"{stage}-{key}"
        with file_held(self.file(stage, key)) as waited:
            if self._leases is None:
                yield waited
                return
            with self._leases.held(name) as (lease, waited_there), self._remembered_as(name, lease):
                yield waited or waited_there

    def is_held(self, stage: str, key: str) -> bool:
        """Return whether a process holds the lock: of this machine or, with leases, of any."""
        if is_file_held(self.file(stage, key)):
            return True
        return self._leases is not None and self._leases.is_held(f"{stage}-{key}")

    @property
    def everywhere(self) -> bool:
        """Return whether every machine that uses the store sees its locks."""
        return self._leases is not None

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep others from deleting builds; several runs hold it together.

        A store that this user may only read is used without it, because the lock is a file in the store.
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
        """Be the only user of the store.

        Raises:
            StoreError: If others use it: at once, or after $NOISYIR_WAIT.
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
        """Check that this process is still alone."""
        if lease := self._held.get(_STORE):
            lease.check()

    def lease(self, name: str) -> Lease | None:
        """Return the lease of this name, if this object holds it."""
        return self._held.get(name)

    def sweep(self) -> None:
        """Delete locks of runs that have ended, and leases that no one holds."""
        for path in self._root.scratch.glob(".locks/run-*"):  # of a run: its id is never locked again
            with held_if_free(path) as free:
                if free:
                    path.unlink(missing_ok=True)
        if self._leases:
            self._leases.sweep()

    def file(self, stage: str, key: str) -> Path:
        """Return the local lock file."""
        return self._root.scratch / ".locks" / f"{stage}-{key}"
