"""Data sets of the Hugging Face Hub, by hf://ORG/NAME: fetched because the name says so, and never otherwise."""

import re
from pathlib import Path

from noisyir.errors import ConfigError, DataError, MissingPackageError

SCHEME = "hf://"
# As huggingface_hub's own file system writes it: hf://datasets/ORG/NAME@REVISION/FOLDER, the first part may be missing.
_NAME = re.compile(r"hf://(?:datasets/)?(?P<repository>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w.-]+))?(?:/(?P<inside>.*))?")
_READ = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".txt", ".parquet", ".arrow", ".feather", ".xlsx", ".gz", ".zst")


def is_on_hub(source: str | None) -> bool:
    """Whether a name says that it is the Hub's."""
    return source is not None and source.startswith(SCHEME)


def fetched(source: str) -> str:
    """The folder, or the file, of this name on this machine, downloaded unless it is in the Hub's cache already.

    Scripts are not fetched, and nothing is run.  ConfigError for a name that is none; DataError, one line, where the
    Hub has no such data set, or cannot be reached; MissingPackageError without huggingface_hub.
    """
    named = _NAME.fullmatch(source)
    if named is None:
        raise ConfigError(f"{source} names no data set of the Hub: write hf://ORG/NAME, or hf://ORG/NAME/FOLDER/FILE")
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
    except ImportError as error:
        raise MissingPackageError("hf:// names need huggingface_hub: pip install 'noisyir[train]'") from error
    inside = (named["inside"] or "").strip("/")
    wanted = [inside] if inside.lower().endswith(_READ) else [f"{inside}/*{end}".lstrip("/") for end in _READ]
    try:
        folder = snapshot_download(
            named["repository"], repo_type="dataset", revision=named["revision"], allow_patterns=wanted
        )
    except LocalEntryNotFoundError as error:
        raise DataError(
            f"{source} is not in the Hub's cache, and the Hub cannot be reached: with a network, or from a machine "
            f"with one, hf download {named['repository']} --repo-type dataset --local-dir FOLDER, then give FOLDER"
        ) from error
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        raise DataError(f"{source}: the Hub does not give it: {str(error).splitlines()[0]}") from error
    path = Path(folder, inside)
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        raise DataError(f"{source} holds no files that can be read ({', '.join(_READ)})")
    return str(path)
