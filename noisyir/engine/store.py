"""The artifact store: builds that appear whole or not at all, are never overwritten, and say what they were made from.

    <root>/<stage>/<key>/<build>/<artifact>/...      a build; its name is its time and its digest's first 12 digits
    <root>/<stage>/<key>/<build>/_meta.json          written last: without it the build does not exist
    <root>/.staging, .work, .locks, .runs            a build in progress, its checkpoints, its lock; run records
    <root>/.leases                                   on S3: who builds what, for other machines
    <root>/.fetched                                  models and data sets that `noisyir fetch` brought
    <root>/.promotions                               which registered model became champion, when and why

The root is a folder or any fsspec URL.  On an object store a build is made locally and then uploaded, meta last.
"""

import hashlib
import logging
import os
import shutil
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from noisyir.engine.builds import META, Meta, Ref, canonical_json, contents_of, input_digests
from noisyir.engine.copies import Copies, check_answers, limit_attempts, patient_options
from noisyir.engine.fetched import Fetched
from noisyir.engine.integrity import Integrity
from noisyir.engine.leases import LeaseLostError
from noisyir.engine.reading import Reading
from noisyir.engine.records import Records, flush_to_disk, stamp
from noisyir.engine.removal import Removal
from noisyir.engine.runtime import default_home
from noisyir.engine.scratch import Scratch
from noisyir.errors import StoreError

log = logging.getLogger("noisyir")

_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError)  # what a meta of another shape raises
_LOCAL = ("file://", "local://")


class Store(Records, Scratch, Removal, Reading, Fetched):
    """Builds by stage and key, under a local folder or an fsspec URL."""

    def __init__(self, root: str | Path, *, home: Path) -> None:
        self.url = str(root)
        self.home = home
        self.fs, self.root = _open_root(self.url)
        self.is_local = "file" in self.fs.protocol  # a folder of this machine, where a rename publishes
        self._latest = ""  # name of the newest build that this process has seen: of what it makes, names sort behind it
        self._copies, self._in_use = Copies(self._scratch / "copies"), {}
        self._integrity = Integrity(self.fs, self.root, self._scratch / ".checked", is_local=self.is_local)

    def check_writable(self) -> None:
        """Fail now, in one line, rather than after hours of work."""
        probe = f"{self.root}/.writable-{os.getpid()}"
        try:
            self._scratch.mkdir(parents=True, exist_ok=True)
            self.fs.pipe_file(probe, b"")
            self.fs.rm_file(probe)
        except Exception as error:  # fsspec's backends raise what they like; the user needs one line
            raise StoreError(f"cannot write to the store {self.url}, name one that can be written: {error}") from error

    def check_readable(self) -> None:
        """Tell a store, or a part of one, that this user may not read from one that is empty."""
        try:
            if self.is_local:
                deque(os.walk(self.root, onerror=_raise), maxlen=0)
            elif self.fs.exists(self.root):
                self.fs.ls(self.root)
        except Exception as error:  # fsspec's backends raise what they like; the user needs one line
            raise StoreError(f"cannot read the store {self.url}: {error}") from error

    # Reading ------------------------------------------------------------------------------------------------

    def builds(self, stage: str, key: str) -> list[Meta]:
        """Finished builds of a key, newest first; those whose meta is damaged are passed over, and told of."""
        return list(self._metas(f"{stage}/{key}/*/{META}"))

    def find(self, stage: str, key: str, inputs: Mapping[str, Any]) -> Meta | None:
        """The newest build of `key` whose recorded inputs have the digests of `inputs`, and whose files are whole."""
        return next((meta for meta in self._made_from(stage, key, inputs) if self._integrity.is_whole(meta)), None)

    def all_builds(self) -> list[Meta]:
        """Every finished build, oldest first; those whose meta is damaged are passed over, and told of."""
        return sorted(self._metas(f"*/*/*/{META}"), key=lambda meta: meta.build)

    def meta(self, ref: Ref) -> Meta:
        """The build that `ref` belongs to, or where it is gone one of the same key that has the same bytes.

        StoreError where there is none.
        """
        path = f"{self.root}/{ref.stage}/{ref.key}/{ref.build}/{META}"
        if self.fs.exists(path) and (meta := self._read_meta(path)):
            return meta
        for twin in self.builds(ref.stage, ref.key):
            if (found := twin.artifacts.get(ref.artifact)) and found.digest == ref.digest:
                return twin
        raise StoreError(
            f"{ref.artifact} {ref.stage}/{ref.key[:12]} is not in {self.url}: run again with --to {ref.stage}"
        )

    def verify(self, meta: Meta) -> dict[str, str]:
        """By file of the build, what is wrong with it; empty when every digest is right.  All files are read."""
        return self._integrity.reread(meta)

    def damaged_metas(self) -> dict[str, str]:
        """By folder of a build, relative to the root, why its meta cannot be read: for the store it does not exist."""
        found = {}
        for path in self._glob(f"*/*/*/{META}"):
            try:
                self._parse_meta(path)
            except _UNREADABLE as error:
                if self.is_barred(path):
                    continue
                found[path[len(self.root) + 1 : -len(META) - 1]] = str(error)
        return found

    def _made_from(self, stage: str, key: str, inputs: Mapping[str, Any]) -> Iterator[Meta]:
        wanted = input_digests(inputs)
        return (meta for meta in self._metas(f"{stage}/{key}/*/{META}") if input_digests(meta.inputs) == wanted)

    def _glob(self, pattern: str) -> list[str]:
        if self.is_local:  # a folder's own name may hold what patterns are made of
            paths = [path.as_posix() for path in Path(self.root).glob(pattern)]
        else:
            paths = [*_matching(self.fs, self.root, *pattern.split("/"))]
        return [path for path in paths if "/." not in path[len(self.root) :]]

    def _metas(self, pattern: str) -> Iterator[Meta]:
        """Those that can be read, newest first in each key."""
        found = (self._read_meta(path) for path in sorted(self._glob(pattern), reverse=True))
        return (meta for meta in found if meta is not None)

    def _read_meta(self, path: str) -> Meta | None:
        """The meta; None, with a warning, for one that is damaged or has just been deleted."""
        try:
            meta = self._parse_meta(path)
        except FileNotFoundError:
            return None
        except _UNREADABLE as error:
            if self.is_barred(path):
                return None
            log.warning("damaged %s is passed over: %s. Remove it: noisyir verify --repair", path, error)
            return None
        self._latest = max(self._latest, meta.build)
        return meta

    def _parse_meta(self, path: str) -> Meta:
        return Meta.from_json(self.fs.cat_file(path).decode())

    # Writing ------------------------------------------------------------------------------------------------

    def publish(self, staging: Path, **fields: Any) -> Meta:
        """Make a finished build visible, whole; equal bytes to the newest build of the same inputs are dropped.

        `fields` are those of `Meta` but for build, created and the digests, which are taken here;
        `artifacts` maps a name to (schema version, rows or None).
        """
        outputs = fields.pop("artifacts")
        artifacts = {name: contents_of(staging / name, version, rows) for name, (version, rows) in outputs.items()}
        digests = {name: contents.digest for name, contents in artifacts.items()}
        digest = hashlib.sha256(canonical_json(digests).encode()).hexdigest()
        same = next(self._made_from(fields["stage"], fields["key"], fields["inputs"]), None)
        if same is not None and {name: contents.digest for name, contents in same.artifacts.items()} == digests:
            self._heal(same, staging)
            shutil.rmtree(staging)
            return same
        now, former = datetime.now(UTC), self._former_name(fields["stage"], fields["key"], digest)
        # behind all builds that this process has seen: those of this key, and those that this one was made from
        build = former or f"{stamp(now, after=self._latest)}-{digest[:12]}"
        self._latest = max(self._latest, build)
        if former:
            self.remove_folder(f"{fields['stage']}/{fields['key']}/{former}")
        meta = Meta(build=build, created=now.isoformat(), artifacts=artifacts, **fields)
        (staging / META).write_text(meta.to_json())
        self._move_in(staging, meta)
        self._integrity.wrote(meta)
        return meta

    def _heal(self, meta: Meta, staging: Path) -> None:
        """Put files of the same digests in place of the build's damaged ones, so that all that names it stays right."""
        for name, fault in self.verify(meta).items():
            path = self._integrity.paths(meta)[name]
            log.warning("%s/%s %s: healed", meta.folder, name, fault)
            if self.is_local:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                flush_to_disk(staging / name)
                (staging / name).replace(path)
            else:
                self.fs.put_file(str(staging / name), path)
        self._integrity.wrote(meta)

    def _move_in(self, staging: Path, meta: Meta) -> None:
        final = f"{meta.stage}/{meta.key}/{meta.build}"
        if self.is_local:
            target = Path(self.root) / final
            target.parent.mkdir(parents=True, exist_ok=True)
            flush_to_disk(staging / META)
            staging.rename(target)
            flush_to_disk(target.parent)
            return
        for path in sorted(staging.rglob("*")):
            if path.is_file() and path != staging / META:
                self.fs.put_file(str(path), f"{self.root}/{final}/{path.relative_to(staging).as_posix()}")
        try:
            self._finish(meta)
        except LeaseLostError:
            self.fs.rm(f"{self.root}/{final}", recursive=True)
            raise
        shutil.rmtree(staging)

    def _finish(self, meta: Meta) -> None:
        """Write the meta, and never over what another holder of the key's lease has made of it meanwhile."""
        path, text = f"{self.root}/{meta.folder}/{META}", meta.to_json().encode()
        if lease := self._held.get(f"{meta.stage}-{meta.key}"):
            lease.announce(path)
        try:
            self.fs.pipe_file(path, text, mode="create")
        except FileExistsError:
            if self.fs.cat_file(path) != text:  # an answer was lost, and the second attempt met the first
                raise LeaseLostError(f"{meta.stage} {meta.key[:12]} was built by another machine meanwhile") from None


def open_store(url: str | None) -> Store:
    """The store at a folder or URL; None: $NOISYIR_STORE, or the one in noisyir's home.

    StoreError where a remote one does not answer.
    """
    home = default_home()
    store = Store(url or os.environ.get("NOISYIR_STORE") or home / "store", home=home)
    if not store.is_local:
        check_answers(store.fs, store.root, store.url)
    store.be_source()
    return store


def _raise(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):  # a store that was never written, and what was just deleted
        raise error


def _matching(fs: Any, folder: str, part: str, *rest: str) -> Iterator[str]:
    """Paths below a folder whose parts are these; `*` is any that does not begin with a dot.

    fsspec's own `glob` takes a folder whose listing fails for an empty one; this raises what the file system raises.
    """
    if part != "*":
        path = f"{folder}/{part}"
        yield from _matching(fs, path, *rest) if rest else ([path] if fs.exists(path) else [])
        return
    try:
        entries = fs.ls(folder, detail=True)
    except FileNotFoundError:
        return
    for path, kind in ((entry["name"].rstrip("/"), entry["type"]) for entry in entries):
        if path == folder or path.rpartition("/")[2].startswith("."):
            continue
        if not rest:
            yield path
        elif kind == "directory":
            yield from _matching(fs, path, *rest)


def _open_root(url: str) -> tuple[Any, str]:
    """The file system of a store's URL, and the root in it.  StoreError when it cannot be opened."""
    import fsspec
    from fsspec.asyn import AsyncFileSystem

    if "://" not in url:  # a plain path, in which :: chains nothing
        return fsspec.filesystem("file", auto_mkdir=False), Path(url).absolute().as_posix()
    try:
        fs, root = fsspec.core.url_to_fs(url, **({"auto_mkdir": False} if url.startswith(_LOCAL) else {}))
        if isinstance(fs, AsyncFileSystem):  # those of clouds, which keep listings; others publish here, too
            patient = patient_options(url.partition("://")[0])
            fs, root = fsspec.core.url_to_fs(url, use_listings_cache=False, **patient)
            limit_attempts(fs)
    except (ImportError, ValueError) as error:
        raise StoreError(
            f"cannot open the store {url}, name a folder or a URL such as s3://bucket/folder: {error}"
        ) from error
    return fs, root
