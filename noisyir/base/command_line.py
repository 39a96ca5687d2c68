"""The words of the command that runs, for its record and for advice that can be pasted."""

import json
import shlex
from collections.abc import Sequence
from contextvars import ContextVar
from pathlib import Path

import yaml

typed_words: ContextVar[Sequence[str]] = ContextVar("typed_words", default=())
"""What follows `noisyir` on the command line; empty in Python."""


def with_mapped(what: str, name: str | None, path: Path | None = None) -> str:
    """The command that was typed, with a column of the file named; in Python, the setting.

    Args:
        what: Part of a pair, such as `label`.
        name: Its column; None for none.
        path: The file, for commands that map no columns.
    """
    words, value = [*typed_words.get()], "null" if name is None else name
    verb = words[0] if words else ""
    if verb in ("audit", "init", "mine", "run"):
        quoted = value if name is None or yaml.safe_load(value) == value else json.dumps(value)
        return shlex.join(["noisyir", *words, f"data.columns.{what}={quoted}"])
    if verb in ("import", "check"):
        if "--map" in words[:-1]:
            words[words.index("--map") + 1] += f",{what}={value}"
            return shlex.join(["noisyir", *words])
        return shlex.join(["noisyir", *words, "--map", f"{what}={value}"])
    if words and path:
        return shlex.join(["noisyir", "import", str(path), "--map", f"{what}={value}"])
    return f"data.columns={{{what}: {json.dumps(name)}}}"
