"""Answers of endpoints, kept under the digest of what was asked of whom: nothing is paid for twice."""

import json
import os
from collections.abc import Set
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from noisyir.auditing.asking.answer import Verdict
from noisyir.errors import StoreError


class KeptAnswer(BaseModel):
    """An answer under the digest of what was asked of whom; prompt: the digest of the prompt's file.

    p_wrong: as an answer has it.
    """

    model_config = ConfigDict(frozen=True)

    key: str
    judge: str
    prompt: str
    verdict: Verdict
    p_wrong: float | None = None
    at: str


class KeptAnswers:
    """The file, read for the keys that are wanted and open for more.

    Each answer is one line, written by one call, so that one whose writer was killed lacks its end: such a half line is
    passed over, and so is one that cannot be read.  StoreError where the file cannot be read or written.
    """

    def __init__(self, path: Path, wanted: Set[str]) -> None:
        self.path = path
        self.found: dict[str, KeptAnswer] = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            whole = self._read(wanted)
            if not whole:  # else the next answer would go on with the half line
                os.write(self._file, b"\n")
        except OSError as error:
            raise StoreError(f"cannot keep a judge's answers in {path}: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        os.close(self._file)

    def add(self, answer: KeptAnswer) -> None:
        """Keep an answer.  StoreError where the disk does not take it whole."""
        self.found[answer.key] = answer
        line = json.dumps(answer.model_dump(), ensure_ascii=True).encode() + b"\n"
        try:
            written = os.write(self._file, line)
        except OSError as error:
            raise StoreError(f"cannot keep a judge's answers in {self.path}: {error}") from error
        if written < len(line):
            raise StoreError(f"cannot keep a judge's answers in {self.path}: the disk is full")

    def _read(self, wanted: Set[str]) -> bool:
        """Find the wanted answers, the last of each; whether the file ends with a whole line."""
        line = b"\n"
        with self.path.open("rb") as lines:
            for line in lines:
                answer = _kept_answer(line)
                if answer is not None and answer.key in wanted:
                    self.found[answer.key] = answer
        return line.endswith(b"\n")


def _kept_answer(line: bytes) -> KeptAnswer | None:
    if not line.endswith(b"\n"):
        return None
    try:
        return KeptAnswer.model_validate_json(line)
    except ValidationError:
        return None
