"""How the files of artifacts are read: of a folder where they lie, of an object store as checked copies."""

import hashlib
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

from noisyir.engine.builds import Contents, Meta, Ref, canonical_json, sha256_file
from noisyir.engine.copies import CopiedPart, Copies
from noisyir.engine.integrity import Integrity
from noisyir.errors import StoreError

Files = Mapping[str, tuple[int, str]]  # (bytes, sha256) by name


class Reading:
    """What readers ask of a store."""

    fs: Any
    root: str
    is_local: bool
    _copies: Copies
    _in_use: dict[str, tuple[ExitStack, Path]]
    _integrity: Integrity

    def meta(self, ref: Ref) -> Meta:
        """The store's."""
        raise NotImplementedError

    def contents(self, ref: Ref) -> Contents:
        """Files, rows and digest of the artifact."""
        return self.meta(ref).artifacts[ref.artifact]

    def parts(self, ref: Ref) -> list[str]:
        """Paths of a table's Parquet parts in row order, for `noisyir.engine.tables`.

        Their digests are checked: of a folder now, of an object store when a part is opened, and thereby copied.
        """
        if self.is_local:
            return list(self._checked(ref).values())
        meta, files = self.meta(ref), self.contents(ref).files
        folder = f"{self.root}/{meta.folder}/{ref.artifact}"
        return [CopiedPart(f"{folder}/{name}", partial(self._copy, ref, {name: files[name]})) for name in sorted(files)]

    def folder(self, ref: Ref, inside: str = "") -> Path:
        """A local folder with the artifact's files, checked: the store's own, or a copy.

        inside: a folder or a file in it, which alone is read and copied.
        """
        files = {name: file for name, file in self.contents(ref).files.items() if name.startswith(inside)}
        if self.is_local:
            self._checked(ref, inside)
            return Path(self.root) / self.meta(ref).ref(ref.artifact).path / inside
        if (name := _digest(files)) not in self._in_use:
            in_use = ExitStack()  # which goes with this object, and with it the hold on the copy
            self._in_use[name] = in_use, in_use.enter_context(self._copy(ref, files))
        return self._in_use[name][1] / inside

    def _copy(self, ref: Ref, files: Files) -> AbstractContextManager[Path]:
        return self._copies.using(_digest(files), files, partial(self._fetch, ref))

    def _fetch(self, ref: Ref, name: str, to: Path) -> None:
        meta = self.meta(ref)
        fault = "is missing"
        with suppress(FileNotFoundError):
            self.fs.get_file(f"{self.root}/{meta.folder}/{ref.artifact}/{name}", str(to))
            if sha256_file(to.open("rb")) == meta.artifacts[ref.artifact].files[name][1]:
                return
            fault = "has other bytes than were written"
        raise self._damaged(meta, ref, f"{name} {fault}")

    def _checked(self, ref: Ref, inside: str = "") -> dict[str, str]:
        """Paths of the artifact's files by name, in order, each read for its digest once in the life of a process.

        StoreError for a damaged one, which the next run then passes over and builds anew.
        """
        meta = self.meta(ref)
        for name, fault in self._integrity.faults(meta, ref.artifact, inside=inside).items():
            raise self._damaged(meta, ref, f"{name} {fault}")
        return self._integrity.paths(meta, ref.artifact, inside)

    def _damaged(self, meta: Meta, ref: Ref, fault: str) -> StoreError:
        self._integrity.forget(meta.folder)
        return StoreError(
            f"damaged artifact {ref.artifact} ({ref.stage}/{ref.key[:12]}): {fault}. "
            "Run what made it again (noisyir run EXPERIMENT): the damaged build is passed over and built anew"
        )


def _digest(files: Files) -> str:
    return hashlib.sha256(canonical_json(files).encode()).hexdigest()
