"""Origin of a build's bytes: versions of code and packages, and digests of raw input."""

import hashlib
import platform
import subprocess
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import cache, partial, wraps
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import ParamSpec

from noisyir.base import during
from noisyir.base.errors import DataError, MissingPackageError, StoreError
from noisyir.engine.file_memory import remembered
from noisyir.engine.meta import Meta, Ref
from noisyir.engine.store import Store

P = ParamSpec("P")

ABSENT = "absent"  # stands for the digest of raw input that is not there, in plans that are only looked at

_absences: ContextVar[dict[str, None] | None] = ContextVar("absences", default=None)

_RECORDED = (
    "noisyir", "numpy", "pyarrow", "torch", "transformers", "tokenizers",
    "scikit-learn", "faiss-cpu", "faiss-gpu", "pyserini", "bm25s", "ir-measures",
)  # fmt: skip


@cache
def package_versions(names: tuple[str, ...] = _RECORDED) -> dict[str, str]:
    """Return versions of Python and of these packages as installed; by default all that can change an artifact."""
    found = {"python": platform.python_version()}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


@cache
def git_commit() -> str | None:
    """Return the commit of this checkout, with `+` if it has changes; None outside a checkout."""
    here = Path(__file__).resolve().parents[2]
    if not (here / ".git").exists():
        return None
    try:
        said = subprocess.run(
            ["git", "-C", str(here), "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"],
            capture_output=True, text=True, timeout=10, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return said.stdout.strip()


def files_digest(root: Path, files: Iterable[Path]) -> str:
    """Return one sha256 over names (relative to root) and contents of files, in sorted order."""
    ordered = sorted(files)
    return remembered(ordered, f"digest below {root.absolute()}", partial(_digest, root, ordered))


def _digest(root: Path, files: Sequence[Path]) -> str:
    total = hashlib.sha256()
    for path in files:
        with path.open("rb") as handle:
            total.update(
                f"{path.relative_to(root).as_posix()}\0{hashlib.file_digest(handle, 'sha256').hexdigest()}\n".encode()
            )
    return total.hexdigest()


def lineage(store: Store, refs: Iterable[Ref], gone: Callable[[Ref], None] | None = None) -> list[Meta]:
    """Return every build behind these artifacts once, inputs first.

    Args:
        gone: Called with artifacts that the store no longer has.

    Raises:
        StoreError: If the store no longer has an artifact and `gone` is not given.
    """
    ordered: dict[tuple[str, str], Meta] = {}

    def visit(ref: Ref) -> None:
        if (ref.key, ref.build) in ordered:
            return
        try:
            meta = store.builds.meta(ref)
        except StoreError:
            if gone is None:
                raise
            gone(ref)
            return
        for _, source in meta.input_refs():
            visit(source)
        ordered[ref.key, ref.build] = meta

    for ref in refs:
        visit(ref)
    return list(ordered.values())


def without_inputs() -> AbstractContextManager[dict[str, None]]:
    """Plan although raw data or weights are missing: their digest is ABSENT.  Yields each fault once.

    Such a plan can be shown, not run: a run needs the digests and fails early.
    """
    return during(_absences, dict[str, None]())


def may_be_absent(digest: Callable[P, str]) -> Callable[P, str]:
    """Return a function that digests raw input, or returns ABSENT under `without_inputs` if that raises DataError."""

    @wraps(digest)
    def found(*args: P.args, **kwargs: P.kwargs) -> str:
        try:
            return digest(*args, **kwargs)
        except (DataError, MissingPackageError) as error:
            if (said := _absences.get()) is None:
                raise
            said[str(error)] = None
            return ABSENT

    return found
