"""How much of one thing readers take in before they say that it cannot be what it should be.

Each limit is set by an environment variable of its name, for it is the machine's and changes no result.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from noisyir.base.errors import ConfigError, DataError, MissingPackageError, install_hint


@dataclass(frozen=True)
class Limit:
    """A limit in bytes, characters or columns; `$name` sets another."""

    name: str
    usual: int

    @property
    def most(self) -> int:
        """The limit in force.  ConfigError where the environment has no whole number above 0."""
        given = os.environ.get(self.name, "").strip()
        if not given:
            return self.usual
        if not (given.isdecimal() and len(given) < 16 and int(given)):
            raise ConfigError("data.must_whole_number_above", name=self.name, usual=self.usual, given=given)
        return int(given)

    @property
    def remedy(self) -> str:
        """How more is allowed, as the end of a sentence."""
        return f"{self.name} sets another limit"


LINE = Limit("NOISYIR_LONGEST_LINE", 1 << 25)  # bytes of a line, a cell or an item: thirty books
DOCUMENT = Limit("NOISYIR_LARGEST_JSON", 1 << 26)  # bytes of a JSON file that is read whole: SQuAD has 30 million
COLUMNS = Limit("NOISYIR_MOST_COLUMNS", 10_000)  # of a file: pairs have a dozen
SETTINGS = Limit("NOISYIR_LARGEST_SETTINGS", 1 << 17)  # characters of an experiment: a hundred times the largest here


def said_of(error: ValueError) -> str:
    """A parser's words without its advice to those who write Python: that of a number of too many digits."""
    return str(error).partition("; use sys.set_int_max_str_digits")[0]


def refuse_special(path: Path) -> None:
    """DataError for a folder, a pipe or a device, which may never end; what is not there is left to who opens it."""
    if path.exists() and not path.is_file():
        raise DataError("data.folder_pipe_device_name", path=path)


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
        raise ConfigError("data.names_no_data_set", source=source)
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
    except ImportError as error:
        raise MissingPackageError("data.hf_names_need_huggingface", install_hint=install_hint("train")) from error
    inside = (named["inside"] or "").strip("/")
    wanted = [inside] if inside.lower().endswith(_READ) else [f"{inside}/*{end}".lstrip("/") for end in _READ]
    try:
        folder = snapshot_download(
            named["repository"], repo_type="dataset", revision=named["revision"], allow_patterns=wanted
        )
    except LocalEntryNotFoundError as error:
        raise DataError("data.not_hubs_cache_hub", source=source, repository=named["repository"]) from error
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        raise DataError("data.hub_not_give", source=source, splitlines=str(error).splitlines()[0]) from error
    path = Path(folder, inside)
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        raise DataError("data.holds_no_files_can", source=source, read=", ".join(_READ))
    return str(path)
