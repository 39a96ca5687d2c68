"""Limits of size beyond which a file cannot be of the expected kind.

The environment variable of its name sets each, because a limit depends on the machine and changes no result.
"""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from noisyir.base.errors import ConfigError, DataError


@dataclass(frozen=True)
class Limit:
    """A limit in bytes, characters or columns; the environment variable `name` sets another."""

    name: str
    usual: int

    @property
    def most(self) -> int:
        """The limit in force; any setting but a whole number above 0 is a ConfigError."""
        given = os.environ.get(self.name, "").strip()
        if not given:
            return self.usual
        if not (given.isdecimal() and len(given) < 16 and int(given)):
            raise ConfigError("data.wrong_limit", name=self.name, usual=self.usual, given=given)
        return int(given)

    @property
    def remedy(self) -> str:
        """How to allow more, as the end of a sentence."""
        return f"{self.name} sets another limit"


LINE = Limit("NOISYIR_LONGEST_LINE", 1 << 25)  # bytes of a line, a cell or an item: thirty books
DOCUMENT = Limit("NOISYIR_LARGEST_JSON", 1 << 26)  # bytes of a JSON file read whole: SQuAD has 30 million
COLUMNS = Limit("NOISYIR_MOST_COLUMNS", 10_000)  # of a file; pairs have a dozen
SETTINGS = Limit("NOISYIR_LARGEST_SETTINGS", 1 << 17)  # characters of an experiment: a hundred times the largest here


def said_of(error: ValueError) -> str:
    """A parser's message without Python's own advice on numbers of too many digits."""
    return str(error).partition("; use sys.set_int_max_str_digits")[0]


def refuse_special(path: Path) -> None:
    """Raise DataError for a folder, a pipe or a device, which may never end, or a file that may not be read."""
    if path.exists() and not path.is_file():
        raise DataError("data.special_file", path=path)
    if path.exists() and not os.access(path, os.R_OK):
        raise DataError("data.may_not_read", path=path, quote=shlex.quote(str(path)))
