"""The artifact store by its parts.

    <root>/<stage>/<key>/<build>/                    builds (builds.py)
    <root>/.staging, .work, .locks                   builds in progress, their checkpoints, their locks
    <root>/.leases                                   on S3: who builds what, for other machines
    <root>/.runs, .promotions                        records of runs; which registered model became champion, and why

The root is a folder or any fsspec URL.  On an object store a build is made locally and then uploaded, meta last.
"""

import os
from collections import deque
from pathlib import Path

from noisyir.base.errors import StoreError
from noisyir.engine.builds import Builds
from noisyir.engine.records import PromotionLog, RunRecords
from noisyir.engine.remote.copies import check_answers
from noisyir.engine.remote.fetched import FetchedSets
from noisyir.engine.root import Root
from noisyir.engine.runtime import default_home
from noisyir.engine.store_locks import StoreLocks
from noisyir.engine.work_folders import WorkFolders


class Store:
    """All that noisyir keeps, under a local folder or an fsspec URL.

    Attributes:
        url: Its name as it was given.
        home: noisyir's folder on this machine.
        fs: Its file system.
        root: Its path there.
    """

    def __init__(self, root: str | Path, *, home: Path) -> None:
        self._root = at = Root.at(str(root), home)
        self.url, self.home, self.fs, self.root, self.is_local = at.url, at.home, at.fs, at.path, at.is_local
        self.locks = StoreLocks(self._root)
        self.builds = Builds(self._root, self.locks)
        self.runs, self.promotions = RunRecords(self._root), PromotionLog(self._root)
        self.work = WorkFolders(self._root, self.locks)
        self.fetched = FetchedSets(self.builds)

    def damaged_records(self) -> dict[str, str]:
        """Return, by path relative to the root, why a run's record or a decision cannot be read."""
        return {**self.runs.damaged(), **self.promotions.damaged()}

    def check_writable(self) -> None:
        """Fail now, in one line, rather than after hours of work."""
        probe = f"{self.root}/.writable-{os.getpid()}"
        # fsspec's backends raise any error; the user needs one line
        with StoreError.wrapping("engine.cannot_write_store_name", Exception, url=self.url):
            self._root.scratch.mkdir(parents=True, exist_ok=True)
            self.fs.pipe_file(probe, b"")
            self.fs.rm_file(probe)

    def check_readable(self) -> None:
        """Distinguish a store that this user may not read, also in part, from an empty one."""
        # fsspec's backends raise any error; the user needs one line
        with StoreError.wrapping("engine.cannot_read_store", Exception, url=self.url):
            if self.is_local:
                deque(os.walk(self.root, onerror=_raise), maxlen=0)
            elif self.fs.exists(self.root):
                self.fs.ls(self.root)


def open_store(url: str | None) -> Store:
    """Open the store at a folder or URL; None: $NOISYIR_STORE, or the one in noisyir's home.

    Raises:
        StoreError: If a remote store does not answer.
    """
    home = default_home()
    store = Store(url or os.environ.get("NOISYIR_STORE") or home / "store", home=home)
    if not store.is_local:
        check_answers(store.fs, store.root, store.url)
    store.fetched.be_source()
    return store


def _raise(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):  # a store that was never written, or a file that was just deleted
        raise error
