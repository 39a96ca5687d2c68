"""The only access to the Hugging Face Hub; it is contacted only if a command or an hf:// name says so."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from noisyir.base.errors import ConfigError, DataError, MissingPackageError, install_hint
from noisyir.engine.outside_errors import one_line

Kind = Literal["model", "dataset"]

SCHEME = "hf://"
# As huggingface_hub's own file system writes it: hf://datasets/ORG/NAME@REVISION/FOLDER, the first part may be missing.
_NAME = re.compile(r"hf://(?:datasets/)?(?P<repository>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w.-]+))?(?:/(?P<inside>.*))?")
_READ = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".txt", ".parquet", ".arrow", ".feather", ".xlsx", ".gz", ".zst")


def is_on_hub(source: str | None) -> bool:
    """Return whether a name refers to the Hub."""
    return source is not None and source.startswith(SCHEME)


def downloaded(source: str) -> str:
    """Return the local folder or file of an hf:// name, downloaded unless the Hub's cache has it.

    Scripts are neither downloaded nor run.

    Raises:
        ConfigError: If the name is not of the form hf://ORG/NAME.
        DataError: If the Hub has no such data set or cannot be reached.
    """
    named = _NAME.fullmatch(source)
    if named is None:
        raise ConfigError("engine.names_no_data_set", source=source)
    inside, repository = (named["inside"] or "").strip("/"), named["repository"]
    wanted = [inside] if inside.lower().endswith(_READ) else [f"{inside}/*{end}".lstrip("/") for end in _READ]
    folder = snapshot(repository, "dataset", revision=named["revision"], wanted=wanted)
    if folder is None:
        raise DataError("engine.not_hubs_cache_hub", source=source, repository=repository)
    path = folder / inside
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        raise DataError("engine.holds_no_files_can", source=source, read=", ".join(_READ))
    return str(path)


def snapshot(
    name: str, kind: Kind, *, revision: str | None = None, wanted: Sequence[str] | None = None, offline: bool = False
) -> Path | None:
    """Return the folder of a repository in the Hub's cache; None if it is not there and the Hub is not reached.

    Args:
        wanted: Patterns of files; None: all.
        offline: Look only into the cache.
    """
    with _answers(name):
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import LocalEntryNotFoundError

        how: Any = {"repo_type": kind, "revision": revision, "allow_patterns": wanted, "local_files_only": offline}
        try:
            return Path(snapshot_download(name, **how))
        except LocalEntryNotFoundError:
            return None


def files_of(name: str, kind: Kind, revision: str | None) -> tuple[str, dict[str, int]]:
    """Return the commit that a revision is now, and the size of each file in bytes by name."""
    with _answers(name):
        from huggingface_hub import HfApi

        about: Any = HfApi().repo_info(name, revision=revision, repo_type=kind, files_metadata=True)
        return about.sha, {file.rfilename: file.size or 0 for file in about.siblings or ()}


def download(name: str, kind: Kind, revision: str, file: str, folder: Path) -> None:
    """Download one file of a repository into a folder."""
    with _answers(f"{file} of {name}"):
        from huggingface_hub import hf_hub_download

        hf_hub_download(name, file, revision=revision, repo_type=kind, local_dir=folder)


@contextmanager
def _answers(name: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise MissingPackageError("engine.hub_needs_huggingface_hub", install_hint=install_hint("train")) from error
    except Exception as error:  # of the network, of the server, of the name: each library's own
        raise DataError("engine.hub_not_give", name=name, one_line=one_line(error)) from error
