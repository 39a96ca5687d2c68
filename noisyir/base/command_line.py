"""The words of the command that runs, for its record and for advice that can be pasted."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path

import yaml

WITH_COLUMNS = ("import", "check", "audit", "init", "mine", "run")  # commands that take names of columns

typed_words: ContextVar[Sequence[str]] = ContextVar("typed_words", default=())
"""What follows `noisyir` on the command line; empty in Python."""


def with_columns(columns: Mapping[str, str | None], path: Path) -> str:
    """The command that was typed, with columns of a file named, or the one that imports it so; in Python, the setting.

    Args:
        columns: Name of the column of each part of a pair; None for none.
    """
    words, verb = [*typed_words.get()], [*typed_words.get(), ""][0]
    mapped = ",".join(f"{what}={'null' if name is None else name}" for what, name in columns.items())
    if not words:
        return f"data.columns={{{', '.join(f'{what}: {_as_yaml(name)}' for what, name in columns.items())}}}"
    if verb not in WITH_COLUMNS:
        words = ["import", str(path), "--map", mapped]
    elif verb not in ("import", "check"):
        for what, name in columns.items():
            has_flag = what in ("query", "document") and verb != "run" and name is not None
            words += [f"--{what}", str(name)] if has_flag else [f"data.columns.{what}={_as_yaml(name)}"]
    elif "--map" in words[:-1]:
        words[words.index("--map") + 1] += f",{mapped}"
    else:
        words += ["--map", mapped]
    return shlex.join(["noisyir", *words])


def _as_yaml(name: str | None) -> str:
    plain = name is not None and re.fullmatch(r"[A-Za-z][\w>=:.|]+", name) and yaml.safe_load(name) == name
    return str(name) if plain else json.dumps(name, ensure_ascii=False)
