"""Builds: each appears whole or not at all, is never overwritten, and names its inputs.

<root>/<stage>/<key>/<build>/<artifact>/...      a build; its name is its time and its digest's first 12 digits
<root>/<stage>/<key>/<build>/_meta.json          written last: without it the build does not exist
"""

import logging
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from noisyir.base.errors import StoreError
from noisyir.engine.integrity import Integrity
from noisyir.engine.meta import META, Contents, Meta, Ref, contents_of, input_digests, json_digest, sha256_file
from noisyir.engine.records import stamp
from noisyir.engine.remote.copies import CopiedPart, Copies
from noisyir.engine.remote.leases import BARRED, LeaseLostError
from noisyir.engine.root import Root, flush_to_disk
from noisyir.engine.store_locks import StoreLocks
from noisyir.engine.tables import read_parts, stream_parts

log = logging.getLogger("noisyir")

Files = Mapping[str, tuple[int, str]]  # (bytes, sha256) by name

_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError)  # raised by a meta of another shape
_GONE = "_gone"  # in place of the meta of a build that was removed and may come again under its name


class Builds:
    """Builds by stage and key."""

    def __init__(self, root: Root, locks: StoreLocks) -> None:
        self._root, self._locks = root, locks
        self._latest = ""  # name of the newest build that this process has seen: of what it makes, names sort behind it
        self._copies = Copies(root.scratch / "copies")
        self._in_use: dict[str, tuple[ExitStack, Path]] = {}
        self._integrity = Integrity(root.fs, root.path, root.scratch / ".checked", is_local=root.is_local)

    # Finding ------------------------------------------------------------------------------------------------

    def of_key(self, stage: str, key: str) -> list[Meta]:
        """Return finished builds of a key (`*`: of each key), newest first; damaged ones are skipped with a warning."""
        return list(self._metas(f"{stage}/{key}/*/{META}"))

    def find(self, stage: str, key: str, inputs: Mapping[str, Any]) -> Meta | None:
        """Return the newest build of `key` with whole files and recorded inputs of the same digests as `inputs`."""
        return next((meta for meta in self._made_from(stage, key, inputs) if self._integrity.is_whole(meta)), None)

    def all(self) -> list[Meta]:
        """Return every finished build, oldest first; a damaged meta is skipped with a warning."""
        return sorted(self._metas(f"*/*/*/{META}"), key=lambda meta: meta.build)

    def meta(self, ref: Ref) -> Meta:
        """Return the build of `ref` or, if it is gone, one of the same key with the same bytes.

        Raises:
            StoreError: If there is none.
        """
        path = f"{self._root.path}/{ref.stage}/{ref.key}/{ref.build}/{META}"
        if self._root.fs.exists(path) and (meta := self._read_meta(path)):
            return meta
        for twin in self.of_key(ref.stage, ref.key):
            if (found := twin.artifacts.get(ref.artifact)) and found.digest == ref.digest:
                return twin
        raise StoreError(
            "engine.not_run_again", artifact=ref.artifact, stage=ref.stage, key=ref.key[:12], url=self._root.url
        )

    def is_whole(self, ref: Ref) -> bool:
        """Return whether the build with these bytes is present and known to this machine to be undamaged."""
        try:
            return self._integrity.is_whole(self.meta(ref))
        except StoreError:
            return False

    def verify(self, meta: Meta) -> dict[str, str]:
        """Read all files of a build and return its faults by file; empty if every digest is right."""
        return self._integrity.reread(meta)

    def damaged(self) -> dict[str, str]:
        """Return, by folder of a build relative to the root, why its meta cannot be read; such builds do not count."""
        found = {}
        for path in self._root.glob(f"*/*/*/{META}"):
            try:
                self._parse_meta(path)
            except _UNREADABLE as error:
                if self._is_barred(path):
                    continue
                found[self._root.below(path).removesuffix(f"/{META}")] = str(error)
        return found

    def _made_from(self, stage: str, key: str, inputs: Mapping[str, Any]) -> Iterator[Meta]:
        wanted = input_digests(inputs)
        return (meta for meta in self._metas(f"{stage}/{key}/*/{META}") if input_digests(meta.inputs) == wanted)

    def _metas(self, pattern: str) -> Iterator[Meta]:
        """Yield readable metas, newest first within each key."""
        found = (self._read_meta(path) for path in sorted(self._root.glob(pattern), reverse=True))
        return (meta for meta in found if meta is not None)

    def _read_meta(self, path: str) -> Meta | None:
        """Return the meta or, with a warning, None if it is damaged or has just been deleted."""
        try:
            meta = self._parse_meta(path)
        except FileNotFoundError:
            return None
        except _UNREADABLE as error:
            if self._is_barred(path):
                return None
            log.warning("damaged %s is passed over: %s. Remove it: noisyir store verify --repair", path, error)
            return None
        self._latest = max(self._latest, meta.build)
        return meta

    def _parse_meta(self, path: str) -> Meta:
        return Meta.from_json(self._root.fs.cat_file(path).decode())

    # Reading ------------------------------------------------------------------------------------------------

    def contents(self, ref: Ref) -> Contents:
        """Return the files, rows and digest of the artifact."""
        return self.meta(ref).artifacts[ref.artifact]

    def parts(self, ref: Ref) -> list[str]:
        """Return paths of a table's Parquet parts in row order, for `noisyir.engine.tables`.

        Digests are checked: of a local folder now, of an object store when a part is opened and thereby copied.
        """
        if self._root.is_local:
            return list(self._checked(ref).values())
        meta, files = self.meta(ref), self.contents(ref).files
        folder = f"{self._root.path}/{meta.folder}/{ref.artifact}"
        return [CopiedPart(f"{folder}/{name}", partial(self._copy, ref, {name: files[name]})) for name in sorted(files)]

    def table(self, ref: Ref, columns: Sequence[str] | None = None) -> pa.Table:
        """Return all rows of these columns (None: every column), in order."""
        return read_parts(self._root.fs, self.parts(ref), columns)

    def batches(
        self, ref: Ref, columns: Sequence[str] | None = None, rows: int = 65536, skip: int = 0
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches of at most `rows` rows, in order, after the first `skip`; in constant memory."""
        return stream_parts(self._root.fs, self.parts(ref), columns, rows, skip)

    def folder(self, ref: Ref, inside: str = "") -> Path:
        """Return a checked local folder with the artifact's files: the store's own, or a copy.

        Args:
            inside: Folder or file in it; only this is read and copied.
        """
        files = {name: file for name, file in self.contents(ref).files.items() if name.startswith(inside)}
        if self._root.is_local:
            self._checked(ref, inside)
            return Path(self._root.path) / self.meta(ref).ref(ref.artifact).path / inside
        if (name := json_digest(files)) not in self._in_use:
            in_use = ExitStack()  # which goes with this object, and with it the hold on the copy
            self._in_use[name] = in_use, in_use.enter_context(self._copy(ref, files))
        return self._in_use[name][1] / inside

    def _copy(self, ref: Ref, files: Files) -> AbstractContextManager[Path]:
        return self._copies.using(json_digest(files), files, partial(self._fetch, ref))

    def _fetch(self, ref: Ref, name: str, to: Path) -> None:
        meta = self.meta(ref)
        fault = "is missing"
        with suppress(FileNotFoundError):
            self._root.fs.get_file(f"{self._root.path}/{meta.folder}/{ref.artifact}/{name}", str(to))
            if sha256_file(to.open("rb")) == meta.artifacts[ref.artifact].files[name][1]:
                return
            fault = "has other bytes than were written"
        raise self._damaged(meta, ref, f"{name} {fault}")

    def _checked(self, ref: Ref, inside: str = "") -> dict[str, str]:
        """Return paths of the artifact's files by name, in order; a process reads each once for its digest.

        Raises:
            StoreError: If a file is damaged.  The next run ignores the build and makes it again.
        """
        meta = self.meta(ref)
        for name, fault in self._integrity.faults(meta, ref.artifact, inside=inside).items():
            raise self._damaged(meta, ref, f"{name} {fault}")
        return self._integrity.paths(meta, ref.artifact, inside)

    def _damaged(self, meta: Meta, ref: Ref, fault: str) -> StoreError:
        self._integrity.forget(meta.folder)
        return StoreError(
            "engine.damaged_artifact_run_experiment",
            artifact=ref.artifact,
            stage=ref.stage,
            key=ref.key[:12],
            fault=fault,
        )

    # Writing ------------------------------------------------------------------------------------------------

    def publish(self, staging: Path, **fields: Any) -> Meta:
        """Make a finished build visible as a whole; bytes equal to the newest build of the same inputs are dropped.

        Args:
            staging: Folder with the finished artifacts.
            artifacts: Schema version and rows (None: no table) by name.
            fields: Fields of `Meta` except build, created and the digests, which are computed here.
        """
        outputs = fields.pop("artifacts")
        artifacts = {name: contents_of(staging / name, version, rows) for name, (version, rows) in outputs.items()}
        digests = {name: contents.digest for name, contents in artifacts.items()}
        digest = json_digest(digests)
        same = next(self._made_from(fields["stage"], fields["key"], fields["inputs"]), None)
        if same is not None and {name: contents.digest for name, contents in same.artifacts.items()} == digests:
            self._heal(same, staging)
            shutil.rmtree(staging)
            return replace(same, seconds=fields["seconds"])  # as long as it took this time
        now, former = datetime.now(UTC), self._former_name(fields["stage"], fields["key"], digest)
        # behind all builds that this process has seen: of this key, and of its inputs
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
        """Replace damaged files of the build by files of the same digests, so that references to it stay valid."""
        for name, fault in self.verify(meta).items():
            path = self._integrity.paths(meta)[name]
            log.warning("%s/%s %s: healed", meta.folder, name, fault)
            if self._root.is_local:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                flush_to_disk(staging / name)
                (staging / name).replace(path)
            else:
                self._root.fs.put_file(str(staging / name), path)
        self._integrity.wrote(meta)

    def _move_in(self, staging: Path, meta: Meta) -> None:
        final = f"{meta.stage}/{meta.key}/{meta.build}"
        if self._root.is_local:
            target = Path(self._root.path) / final
            target.parent.mkdir(parents=True, exist_ok=True)
            flush_to_disk(staging / META)
            staging.rename(target)
            flush_to_disk(target.parent)
            return
        for path in sorted(staging.rglob("*")):
            if path.is_file() and path != staging / META:
                self._root.fs.put_file(str(path), f"{self._root.path}/{final}/{path.relative_to(staging).as_posix()}")
        try:
            self._finish(meta)
        except LeaseLostError:
            self._root.fs.rm(f"{self._root.path}/{final}", recursive=True)
            raise
        shutil.rmtree(staging)

    def _finish(self, meta: Meta) -> None:
        """Write the meta, but never over one that another holder of the key's lease has written meanwhile."""
        path, text = f"{self._root.path}/{meta.folder}/{META}", meta.to_json().encode()
        if lease := self._locks.lease(f"{meta.stage}-{meta.key}"):
            lease.announce(path)
        try:
            self._root.fs.pipe_file(path, text, mode="create")
        except FileExistsError:
            if self._root.fs.cat_file(path) != text:  # an answer was lost, and the second attempt met the first
                raise LeaseLostError(
                    "engine.built_another_machine_meanwhile", stage=meta.stage, key=meta.key[:12]
                ) from None

    # Removing -----------------------------------------------------------------------------------------------

    def remove(self, meta: Meta) -> None:
        """Delete a build, its meta first so that it is never seen half deleted."""
        self.remove_folder(meta.folder)

    def remove_folder(self, folder: str, *, keep_name: bool = False) -> None:
        """Delete the folder of a build, relative to the root.

        Args:
            keep_name: Keep the name for a build that will have the same bytes: runs and other builds refer to it.
        """
        base = f"{self._root.path}/{folder}"
        self._locks.check_alone()
        self._integrity.forget(folder)
        try:
            with suppress(FileNotFoundError):
                self._root.fs.rm_file(f"{base}/{META}")
            self._root.fs.rm(base, recursive=True)
            if keep_name:
                self._root.fs.makedirs(base, exist_ok=True)
                self._root.fs.pipe_file(f"{base}/{_GONE}", b"")
        except FileNotFoundError:  # another process was faster
            return
        except OSError as error:
            raise StoreError("engine.cannot_delete", base=base, error=error) from error

    def _former_name(self, stage: str, key: str, digest: str) -> str | None:
        """Return the name of a damaged build with this digest, if it would be the key's newest."""
        there = {meta.build for meta in self.of_key(stage, key)}
        found = [path.split("/")[-2] for mark in (META, _GONE) for path in self._root.glob(f"{stage}/{key}/*/{mark}")]
        fitting = [name for name in found if name.endswith(f"-{digest[:12]}") and name not in there]
        newest = max(fitting, default="")
        return newest if newest > max(there, default="") else None

    def orphans(self, older_than: timedelta) -> list[str]:
        """Return folders of builds without a meta that are older than `older_than` by the clock of the store."""
        whole = {path.rpartition("/")[0] for path in self._root.glob(f"*/*/*/{META}") if not self._is_barred(path)}
        kept = {path.rpartition("/")[0] for path in self._root.glob(f"*/*/*/{_GONE}")}
        found = [path for path in self._root.glob("*/*/*") if path not in whole | kept and self._root.fs.isdir(path)]
        oldest = self._now() - older_than if found else datetime.now(UTC)
        return [self._root.below(path) for path in found if self._last_written(path) < oldest]

    def _is_barred(self, path: str) -> bool:
        """Return whether a notice that the writer came too late is in the place of the meta."""
        return (
            not self._root.is_local
            and self._root.fs.size(path) == len(BARRED)
            and self._root.fs.cat_file(path) == BARRED
        )

    def _now(self) -> datetime:
        probe = f"{self._root.path}/.now-{os.getpid()}"
        try:
            self._root.fs.pipe_file(probe, b"")
            now: datetime = self._root.fs.modified(probe)
            self._root.fs.rm_file(probe)
        except Exception:  # fsspec's backends raise any error if nothing may be written
            return datetime.now(UTC)
        return now

    def _last_written(self, folder: str) -> datetime:
        files = self._root.fs.find(folder)
        return max((self._root.fs.modified(path) for path in files), default=datetime.min.replace(tzinfo=UTC))
