"""Answers of an endpoint, kept so that no question is paid for twice."""

import os
import sqlite3
from collections.abc import Set
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from noisyir.audits.model_judges.judges import Answer
from noisyir.base.errors import StoreError

KEPT = "judge-answers.sqlite"
_BUSY_SECONDS = 60.0  # wait for another process that writes
_TABLE = (
    "answers (key TEXT PRIMARY KEY, verdict TEXT NOT NULL, p_wrong REAL, "
    "reason TEXT NOT NULL, judge TEXT NOT NULL, at TEXT NOT NULL)"
)


class KeptAnswers:
    """A SQLite file of answers by the digest of their question, which several processes may write.

    It holds no text of a question, and each answer is committed by itself.

    Raises:
        StoreError: If the file cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: dict[str, Answer] = {}

    def __enter__(self) -> Self:
        with self._errors():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite would let others read it
            self._database = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
        return self

    def __exit__(self, *_: Any) -> None:
        self._database.close()

    def load(self, wanted: Set[str]) -> None:
        """Find the answers to these keys."""
        with self._errors():
            self._database.execute(f"CREATE TABLE IF NOT EXISTS {_TABLE}")
            rows = self._database.execute("SELECT key, verdict, p_wrong, reason FROM answers")
            self.found = {key: Answer(*answer) for key, *answer in rows if key in wanted}

    def add(self, key: str, answer: Answer, judge: str) -> None:
        """Keep an answer."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self._errors():
            self._database.execute(
                "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?, ?)", (key, *answer, judge, now)
            )
        self.found[key] = answer

    def _errors(self) -> AbstractContextManager[None]:
        return StoreError.wrapping("audits.cannot_keep_answers", OSError, sqlite3.Error, path=self.path)
