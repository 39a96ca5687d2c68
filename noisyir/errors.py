"""The errors a user can mend: each message says what is wrong, where, and what to do."""

from collections.abc import Sequence
from difflib import get_close_matches


class NoisyirError(Exception):
    """The user's fault, or the machine's: shown as one line, exit code 1."""


class ConfigError(NoisyirError):
    """An experiment, an override or a stage name that cannot be used."""


class DataError(NoisyirError):
    """Input data that is missing, unreadable or contradicts itself."""


class SchemaError(NoisyirError):
    """A table that does not keep its artifact's contract."""


class StoreError(NoisyirError):
    """An artifact that is missing or damaged, or a store that cannot be written."""


class MissingPackageError(NoisyirError):
    """An optional part of noisyir that is not installed."""


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """` (did you mean X?)`, or nothing when no known word is close."""
    close = get_close_matches(word, known, n=1)
    return f" (did you mean {close[0]}?)" if close else ""
