"""What lies on this machine beside a store: builds in progress, their checkpoints, and locks."""

import errno
import hashlib
import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from noisyir.engine.builds import canonical_json, input_digests
from noisyir.engine.locks import WAIT, held, held_if_free, is_held


class Scratch:
    """Folders and locks that the processes of one machine share."""

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

    def lock(self, stage: str, key: str) -> AbstractContextManager[bool]:
        """Hold the build of a key on this machine; yields whether another process had to be waited for."""
        return held(self._lock_file(stage, key))

    def is_locked(self, stage: str, key: str) -> bool:
        """Whether a process of this machine holds the lock."""
        return is_held(self._lock_file(stage, key))

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep others of this machine from deleting builds; runs hold it together.

        A store that this user may only read is used without: the lock is a file in it.
        """
        with ExitStack() as stack:
            try:
                stack.enter_context(held(self._scratch / ".locks" / "store", shared=True))
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                    raise
            yield

    def alone(self) -> AbstractContextManager[bool]:
        """Be the only one of this machine at work on the store.

        StoreError when others are: at once, or when they still are after the time that $NOISYIR_WAIT sets.
        """
        return held(self._scratch / ".locks" / "store", wait=None if WAIT in os.environ else 0.0)

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
        path = self._scratch / ".work" / f"{stage}-{key}-{tag}"
        path.mkdir(parents=True, exist_ok=True)
        return path

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
        return removed
