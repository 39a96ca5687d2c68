"""The errors a user can mend: each message says what is wrong, where, and what to do."""

import json
import shlex
from collections.abc import Sequence
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit


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
    close = get_close_matches(word, [name for name in known if name != word], n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def install_hint(extra: str) -> str:
    """The command that adds an extra to this installation: from its checkout or its wheel, by direct_url.json.

    Source: the specification of direct_url.json, PyPA (PEP 610).
    """
    try:
        origin = json.loads(distribution("noisyir").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:  # a source tree on the path: its root holds pyproject.toml
        origin = {"url": Path(__file__).parents[2].as_uri(), "dir_info": {"editable": True}}
    url = urlsplit(origin.get("url", ""))
    if url.scheme == "file" and Path(folder := unquote(url.path)).exists():
        edit = "-e " if origin.get("dir_info", {}).get("editable") else ""
        return f"pip install {edit}{shlex.quote(f'{folder}[{extra}]')}"
    where = f" @ {origin['vcs_info']['vcs']}+{url.geturl()}" if "vcs_info" in origin else ""
    return f"pip install {shlex.quote(f'noisyir[{extra}]{where}')}"
