"""The artifact store: builds that appear whole or not at all, are never overwritten, and say what they were made from.

    <root>/<stage>/<key>/<build>/<artifact>/...      a build; its name is its time and its digest's first 12 digits
    <root>/<stage>/<key>/<build>/_meta.json          written last: without it the build does not exist
    <root>/.staging, .work, .locks, .runs            a build in progress, its checkpoints, its lock; run records
    <root>/.promotions                               which registered model became champion, when and why

The root is a folder or any fsspec URL.  On an object store a build is made locally and then uploaded, meta last.
"""

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

from noisyir.engine.builds import Contents, Meta, Ref, canonical_json, contents_of, input_digests, sha256_file
from noisyir.engine.locks import held, held_if_free, is_held
from noisyir.engine.runtime import default_home
from noisyir.errors import StoreError

log = logging.getLogger("noisyir")

META = "_meta.json"


class Store:
    """Builds by stage and key, under a local folder or an fsspec URL."""

    def __init__(self, root: str | Path, *, home: Path) -> None:
        import fsspec
        from fsspec.asyn import AsyncFileSystem
        from fsspec.implementations.local import LocalFileSystem

        self.url = str(root)
        self.home = home
        try:
            self.fs, self.root = fsspec.core.url_to_fs(self.url, **({"auto_mkdir": False} if _is_local(root) else {}))
            if isinstance(self.fs, AsyncFileSystem):  # those of clouds, which keep listings; others publish here, too
                self.fs, self.root = fsspec.core.url_to_fs(self.url, use_listings_cache=False)
        except (ImportError, ValueError) as error:
            raise StoreError(f"cannot open the store {self.url}: {error}") from error
        self.is_local = isinstance(self.fs, LocalFileSystem)  # a folder of this machine, where a rename publishes

    @cached_property
    def _scratch(self) -> Path:
        """Local folder for what is not yet published; on the store's own disk where that is possible."""
        if self.is_local:
            return Path(self.root)
        return self.home / "remote" / hashlib.sha256(self.url.encode()).hexdigest()[:16]

    def check_writable(self) -> None:
        """Fail now, in one line, rather than after hours of work."""
        probe = f"{self.root}/.writable-{os.getpid()}"
        try:
            self._scratch.mkdir(parents=True, exist_ok=True)
            self.fs.pipe_file(probe, b"")
            self.fs.rm_file(probe)
        except Exception as error:  # fsspec's backends raise what they like; the user needs one line
            raise StoreError(f"cannot write to the store {self.url}: {error}") from error

    # Reading ------------------------------------------------------------------------------------------------

    def builds(self, stage: str, key: str) -> list[Meta]:
        """Finished builds of a key, newest first."""
        return [self._read_meta(path) for path in sorted(self._glob(f"{stage}/{key}/*/{META}"), reverse=True)]

    def find(self, stage: str, key: str, inputs: Mapping[str, Any]) -> Meta | None:
        """The newest build of `key` whose recorded inputs have the digests of `inputs`."""
        wanted = input_digests(inputs)
        return next((meta for meta in self.builds(stage, key) if input_digests(meta.inputs) == wanted), None)

    def all_builds(self) -> list[Meta]:
        """Every finished build, oldest first."""
        return sorted(map(self._read_meta, self._glob(f"*/*/*/{META}")), key=lambda meta: meta.build)

    def meta(self, ref: Ref) -> Meta:
        """The build that `ref` belongs to."""
        path = f"{self.root}/{ref.stage}/{ref.key}/{ref.build}/{META}"
        if not self.fs.exists(path):
            raise StoreError(
                f"{ref.artifact} {ref.stage}/{ref.key[:12]} is not in {self.url}: run again with --to {ref.stage}"
            )
        return self._read_meta(path)

    def contents(self, ref: Ref) -> Contents:
        """Files, rows and digest of the artifact."""
        return self.meta(ref).artifacts[ref.artifact]

    def parts(self, ref: Ref) -> list[str]:
        """Paths, in the store's file system, of a table's Parquet parts in row order; sizes are checked first."""
        contents = self.contents(ref)
        for name, (size, _) in contents.files.items():
            self._check_size(ref, name, size)
        return [f"{self.root}/{ref.path}/{name}" for name in sorted(contents.files)]

    def folder(self, ref: Ref) -> Path:
        """A local folder with the artifact's files: the store's own, or a copy kept under its digest."""
        if self.is_local:
            for name, (size, _) in self.contents(ref).files.items():
                self._check_size(ref, name, size)
            return Path(self.root) / ref.path
        copy = self._scratch / "copies" / ref.digest
        if not copy.exists():
            arriving = copy.with_name(f"{ref.digest}.{os.getpid()}")
            for name in self.contents(ref).files:
                (arriving / name).parent.mkdir(parents=True, exist_ok=True)
                self.fs.get_file(f"{self.root}/{ref.path}/{name}", str(arriving / name))
            _rename_or_keep(arriving, copy)
        return copy

    def verify(self, meta: Meta) -> list[str]:
        """What is wrong with a build's files, one line each; empty when every digest is right."""
        faults = []
        for artifact, contents in meta.artifacts.items():
            base = f"{self.root}/{meta.ref(artifact).path}"
            for name, (size, digest) in contents.files.items():
                if not self.fs.exists(f"{base}/{name}"):
                    faults.append(f"{artifact}/{name} is missing")
                elif (found := self.fs.size(f"{base}/{name}")) != size:
                    faults.append(f"{artifact}/{name} has {found} bytes instead of {size}")
                elif sha256_file(self.fs.open(f"{base}/{name}", "rb")) != digest:
                    faults.append(f"{artifact}/{name} has other bytes than were written")
        return faults

    def _check_size(self, ref: Ref, name: str, size: int) -> None:
        path = f"{self.root}/{ref.path}/{name}"
        found = self.fs.size(path) if self.fs.exists(path) else None
        if found != size:
            state = "is missing" if found is None else f"has {found} bytes instead of {size}"
            raise StoreError(
                f"damaged artifact {ref.artifact} ({ref.stage}/{ref.key[:12]}): {name} {state}. "
                f"Rebuild it: noisyir run EXPERIMENT --refresh {ref.stage}"
            )

    def _glob(self, pattern: str) -> list[str]:
        return [path for path in self.fs.glob(f"{self.root}/{pattern}") if "/." not in path[len(self.root) :]]

    def _read_meta(self, path: str) -> Meta:
        try:
            return Meta.from_json(self.fs.cat_file(path).decode())
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"damaged {path}: {error}. Delete its folder and run again") from error

    # Writing ------------------------------------------------------------------------------------------------

    def lock(self, stage: str, key: str) -> AbstractContextManager[bool]:
        """Hold the build of a key on this machine; yields whether another process had to be waited for."""
        return held(self._lock_file(stage, key))

    def is_locked(self, stage: str, key: str) -> bool:
        """Whether a process of this machine holds the lock."""
        return is_held(self._lock_file(stage, key))

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

    def publish(self, staging: Path, **fields: Any) -> Meta:
        """Make a finished build visible, whole; equal bytes to the newest build of the same inputs are dropped.

        `fields` are those of `Meta` but for build, created and the digests, which are taken here;
        `artifacts` maps a name to (schema version, rows or None).
        """
        outputs = fields.pop("artifacts")
        artifacts = {name: contents_of(staging / name, version, rows) for name, (version, rows) in outputs.items()}
        digests = {name: contents.digest for name, contents in artifacts.items()}
        digest = hashlib.sha256(canonical_json(digests).encode()).hexdigest()
        same = self.find(fields["stage"], fields["key"], fields["inputs"])
        if same is not None and {name: contents.digest for name, contents in same.artifacts.items()} == digests:
            shutil.rmtree(staging)
            return same
        now = datetime.now(UTC)
        build = f"{now:%Y%m%dT%H%M%S%f}-{digest[:12]}"
        meta = Meta(build=build, created=now.isoformat(), artifacts=artifacts, **fields)
        (staging / META).write_text(meta.to_json())
        self._move_in(staging, meta)
        return meta

    def _move_in(self, staging: Path, meta: Meta) -> None:
        final = f"{meta.stage}/{meta.key}/{meta.build}"
        if self.is_local:
            target = Path(self.root) / final
            target.parent.mkdir(parents=True, exist_ok=True)
            _flush_to_disk(staging / META)
            staging.rename(target)
            _flush_to_disk(target.parent)
            return
        for path in sorted(staging.rglob("*"), key=lambda p: p.name == META):
            if path.is_file():
                self.fs.put_file(str(path), f"{self.root}/{final}/{path.relative_to(staging).as_posix()}")
        shutil.rmtree(staging)

    def remove(self, meta: Meta) -> None:
        """Delete a build, its meta first so that it is never seen half deleted."""
        base = f"{self.root}/{meta.stage}/{meta.key}/{meta.build}"
        self.fs.rm_file(f"{base}/{META}")
        self.fs.rm(base, recursive=True)

    def remove_leftovers(self) -> list[Path]:
        """Delete checkpoints and half builds of keys that nobody is building now, and locks of runs that have ended."""
        removed = []
        for folder in [*self._scratch.glob(".staging/*"), *self._scratch.glob(".work/*")]:
            stage, key = folder.name.split("-")[:2]
            with held_if_free(self._lock_file(stage, key)) as free:
                if free:
                    shutil.rmtree(folder)
                    removed.append(folder)
        for path in self._scratch.glob(".locks/run-*"):  # of a run, whose id is never locked again
            with held_if_free(path) as free:
                if free:
                    path.unlink(missing_ok=True)
        return removed

    # Run records --------------------------------------------------------------------------------------------

    def record_run(self, name: str, record: Mapping[str, Any]) -> None:
        """Keep what one pipeline run used and made; `gc` and `ls --runs` read it."""
        self._write_record(f"{self.root}/.runs", name, record, replace=True)

    def runs(self) -> list[dict[str, Any]]:
        """Run records, newest first, without those that cannot be read, which are told of."""
        records = []
        for path in sorted(self.fs.glob(f"{self.root}/.runs/*.json"), reverse=True):
            try:
                records.append(json.loads(self.fs.cat_file(path)))
            except (ValueError, OSError) as error:
                log.warning("the run record %s cannot be read and is left out: %s", path, error)
        return records

    def record_promotion(self, name: str, record: Mapping[str, Any]) -> None:
        """Add a decision on a registered model to the log, of which nothing is ever changed: one file each."""
        try:
            self._write_record(f"{self.root}/.promotions", name, record, replace=False)
        except FileExistsError as error:
            raise StoreError(
                f"{self.root}/.promotions/{name}.json is there already, and no decision is ever overwritten"
            ) from error

    def promotions(self) -> list[dict[str, Any]]:
        """The log of decisions on registered models, newest first.  StoreError for a damaged line."""
        decisions = []
        for path in sorted(self.fs.glob(f"{self.root}/.promotions/*.json"), reverse=True):
            try:
                decisions.append(json.loads(self.fs.cat_file(path)))
            except ValueError as error:
                raise StoreError(f"damaged line of the promotions' log, {path}: {error}") from error
        return decisions

    def _write_record(self, folder: str, name: str, record: Mapping[str, Any], *, replace: bool) -> None:
        """Whole or not at all, for others read it at any time.  FileExistsError unless it may be replaced."""
        data, path = json.dumps(record, indent=2, sort_keys=True).encode(), f"{folder}/{name}.json"
        self.fs.makedirs(folder, exist_ok=True)
        if not self.is_local:
            self.fs.pipe_file(path, data, mode="overwrite" if replace else "create")
            return
        arriving = Path(f"{path}.{uuid4().hex}")
        try:
            arriving.write_bytes(data)
            _flush_to_disk(arriving)
            (os.replace if replace else os.link)(arriving, path)
        finally:
            arriving.unlink(missing_ok=True)


def open_store(url: str | None) -> Store:
    """The store at a folder or URL, or the one in noisyir's home."""
    home = default_home()
    return Store(url or home / "store", home=home)


def _flush_to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _rename_or_keep(arriving: Path, final: Path) -> None:
    """Move a finished copy into place; when another process was faster, keep that one's."""
    try:
        arriving.rename(final)
    except OSError:
        if not final.exists():
            raise
        shutil.rmtree(arriving)


def _is_local(root: str | Path) -> bool:
    return "://" not in str(root) or str(root).startswith(("file://", "local://"))
