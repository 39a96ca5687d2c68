"""Errors that a user can mend: each message names the fault, its place and the cure."""

import json
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path
from urllib.parse import unquote, urlsplit

_CODE = re.compile(r"[a-z]+\.[a-z0-9_]+")
_PLAIN = (str, int, float, type(None))


@cache
def error_texts(room: str) -> Mapping[str, str]:
    """The texts of a room's errors by name, with fields as in `str.format`."""
    return tomllib.loads(files("noisyir").joinpath(room, "errors.toml").read_text(encoding="utf-8"))


def _text_of(code: str, values: Mapping[str, object]) -> str:
    if not _CODE.fullmatch(code):
        return code
    room, name = code.split(".")
    return error_texts(room)[name].format(**values)


class NoisyirError(Exception):
    """An error that people can mend: shown as one line, exit code 1.

    Each room keeps the texts of its errors in `errors.toml`, by the part of the code after the room's name.

    Args:
        code: `room.name` of a text, such as `data.empty_id`, or the whole text, from a package that keeps none.
        values: Fill the fields of the text.
    """

    def __init__(self, code: str, /, **values: object) -> None:
        self.code = code
        self.values = {name: value if isinstance(value, _PLAIN) else str(value) for name, value in values.items()}
        super().__init__(_text_of(code, values))

    @classmethod
    @contextmanager
    def wrapping(cls, code: str, *caught: type[Exception], **values: object) -> Iterator[None]:
        """Turn an error of the types `caught`, by default OSError, into this one; the value `error` is a line."""
        types = caught or (OSError,)
        try:
            yield
        except types as error:
            raise cls(code, error=" ".join(str(error).split()), **values) from error


class ConfigError(NoisyirError):
    """An experiment, an override or a stage name is unusable."""


class DataError(NoisyirError):
    """Input data is missing, unreadable or contradictory."""


class SchemaError(NoisyirError):
    """A table breaks its artifact's contract."""


class StoreError(NoisyirError):
    """An artifact is missing or damaged, or a store cannot be written."""


class MissingPackageError(NoisyirError):
    """An optional part of noisyir is not installed."""


def did_you_mean(word: str, known: Sequence[str], within: str = "") -> str:
    """` (did you mean X?)`, with the group `within` before X, or nothing if no known word is close."""
    close = get_close_matches(word, [name for name in known if name != word], n=1)
    return f" (did you mean {'.'.join(filter(None, [within, *close]))}?)" if close else ""


def suggested(word: str, known: Iterable[str], there: str = "there are") -> str:
    """` (did you mean X?); there are X, Y`, for errors about a word that is not among the known ones."""
    names = list(known)
    return f"{did_you_mean(word, names)}; {there} {', '.join(names)}"


def install_hint(extra: str) -> str:
    """The command that adds an extra to this installation, by its direct_url.json (PEP 610)."""
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
