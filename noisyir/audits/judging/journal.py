"""The file of answers: a line is on disk before its answer is confirmed."""

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

from noisyir.base.errors import DataError, StoreError
from noisyir.data.text_files import json_lines
from noisyir.detection.judgements import Pair, Verdict

_LAST_YEAR = 9000  # a new answer's time is later than the one before, which must be possible
_VERDICTS = (*get_args(Verdict), None)


@dataclass(frozen=True)
class JournalEntry:
    """One answer of a judge on a pair; verdict None takes back the one before.

    Attributes:
        weight: Number of pairs that it represents, up to a common factor; None if it was not drawn at random.
        replacement: A document accepted instead.
        at: Time, ISO 8601 in UTC.

    Raises:
        ValueError: If a field is wrong.
    """

    query_id: str
    doc_id: str
    verdict: Verdict | None
    judge: str
    weight: float | None
    replacement: str | None
    at: str

    def __post_init__(self) -> None:
        """Refuse values that could not be read back or computed with."""
        texts = {name: getattr(self, name) for name in ("query_id", "doc_id", "judge", "replacement")}
        for name, value in texts.items():
            if not (_is_text(value) or (name == "replacement" and value is None)):
                raise ValueError(f"{name} must be a text, found {value!r:.60}")
        if self.verdict not in _VERDICTS:
            raise ValueError(f"the verdict is {self.verdict!r:.60}")
        weight = self.weight
        if weight is not None and not (type(weight) in (int, float) and 0 < weight < math.inf):
            raise ValueError(f"the weight must be a number above 0, or null, found {weight!r:.60}")
        if (at := datetime.fromisoformat(self.at)).tzinfo is None or at.year > _LAST_YEAR:
            raise ValueError(f"at must be a time with its zone, found {self.at!r:.60}")

    @property
    def pair(self) -> Pair:
        """The pair that it is about."""
        return self.query_id, self.doc_id

    def says_as(self, other: "JournalEntry | None") -> bool:
        """Whether nothing but the time differs."""
        return other is not None and asdict(self) | {"at": ""} == asdict(other) | {"at": ""}


class Journal:
    """The answers in one file, in their order; one process writes, others may read."""

    def __init__(self, path: Path) -> None:
        """Read the file; an unfinished last line, which a killed process left unconfirmed, is cut off."""
        self.path = path
        self.answers: list[JournalEntry] = []
        self._size = 0
        if path.exists():
            whole = path.read_bytes()
            self._size = whole.rfind(b"\n") + 1
            if self._size < len(whole):
                os.truncate(path, self._size)
            self.answers = list(_read(path))

    def append(self, answer: JournalEntry) -> None:
        """Write an answer and wait until the disk has it.

        Raises:
            StoreError: If it cannot be written; the file is then unchanged.
        """
        line = (json.dumps(asdict(answer), ensure_ascii=False) + "\n").encode()
        try:
            with self.path.open("ab") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            if self.path.exists():
                os.truncate(self.path, self._size)
            raise StoreError("audits.cannot_write", path=self.path, error=error) from error
        self._size += len(line)
        self.answers.append(answer)

    def time(self) -> str:
        """The time of a new answer, after the one before even if the clock was set back."""
        before = datetime.fromisoformat(self.answers[-1].at) if self.answers else datetime.min.replace(tzinfo=UTC)
        return max(datetime.now(UTC), before + timedelta(microseconds=1)).isoformat(timespec="microseconds")

    def latest(self) -> dict[str, dict[Pair, JournalEntry]]:
        """Each judge's last word on each pair, without those taken back; in the order of the answers."""
        found: dict[str, dict[Pair, JournalEntry]] = {}
        for answer in self.answers:
            own = found.setdefault(answer.judge, {})
            own.pop(answer.pair, None)
            if answer.verdict is not None:
                own[answer.pair] = answer
        return found


def _read(path: Path) -> Iterator[JournalEntry]:
    for number, row in json_lines(path):
        with DataError.wrapping("audits.damaged_journal_line", ValueError, TypeError, path=path, number=number):
            yield _answer(row)


def _answer(row: Mapping[str, Any]) -> JournalEntry:
    if missing := [name for name in ("query_id", "doc_id", "judge", "verdict", "at") if name not in row]:
        raise ValueError(f"it lacks {', '.join(missing)}")
    query_id, doc_id = (str(row[name]) if type(row[name]) is int else row[name] for name in ("query_id", "doc_id"))
    return JournalEntry(
        query_id, doc_id, row["verdict"], row["judge"], row.get("weight"), row.get("replacement"), row["at"]
    )


def _is_text(value: object) -> bool:
    """Whether it is a non-blank text that UTF-8 can encode."""
    if not isinstance(value, str) or not value.strip():
        return False
    try:
        return bool(value.encode())
    except UnicodeEncodeError:
        return False
