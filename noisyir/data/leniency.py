"""Faulty rows: the first one ends the reading, or within `lenient` each is left out and counted."""

import re
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import TracebackType

from noisyir.base import during
from noisyir.base.errors import DataError

_SHOWN = 10  # row numbers kept for each reason
_REASONS = 50  # distinct ones in one file; later ones are "other reasons"
_DETAIL = re.compile(
    r"(, found |, mend it|; | \(byte | at column | at line | at its character |, first at ).*", re.DOTALL
)

_STRICT = nullcontext()


@dataclass
class Tally:
    """A count, with the places of the first ones, and the first message where its reason is shorter."""

    count: int = 0
    first: list[int] = field(default_factory=list)
    said: str = ""

    def add(self, number: int) -> None:
        """Count one at this place."""
        self.count += 1
        if len(self.first) < _SHOWN:
            self.first.append(number)


@dataclass
class FileAccount:
    """The rows of one file by their fate: read = kept + repeated + lost; parts are left out of rows that are kept."""

    read: int = 0
    kept: int = 0
    repeated: Tally = field(default_factory=Tally)
    left_out: dict[str, Tally] = field(default_factory=dict)
    parts_left_out: dict[str, Tally] = field(default_factory=dict)

    @property
    def lost(self) -> int:
        """Number of rows that were left out whole for a fault."""
        return sum(tally.count for tally in self.left_out.values())


class Exclusions:
    """The fate of every row, by the unit of its number ("pairs.csv line")."""

    def __init__(self) -> None:
        self.files: dict[str, FileAccount] = {}
        self._row: _Row | None = None

    def of(self, place: str) -> FileAccount:
        """The account of one file."""
        return self.files.setdefault(place, FileAccount())

    def kept(self, *, pair: bool = True) -> None:
        """Mark a pair or a text of the present row as kept; a text alone does not make up for a fault."""
        if self._row:
            self._row.has_pair |= pair
            self._row.has_text |= not pair

    def repeated(self) -> None:
        """Mark something of the present row as a repetition."""
        if self._row:
            self._row.is_repeated = True

    def refused(self, reason: str) -> None:
        """Mark something of the present row as left out."""
        if self._row:
            self._row.reasons.setdefault(reason, "")


class _Row:
    """The context of one row: a DataError within leaves it out."""

    __slots__ = ("_account", "_before", "_number", "_place", "has_pair", "has_text", "is_repeated", "reasons")

    def __init__(self, account: Exclusions, place: str, number: int) -> None:
        self._account, self._place, self._number = account, place, number
        self.has_pair = self.has_text = self.is_repeated = False
        self.reasons: dict[str, str] = {}  # with their whole messages, if they are shorter

    def __enter__(self) -> None:
        self._before, self._account._row = self._account._row, self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        self._account._row = self._before
        if kind is not None and not isinstance(error, DataError):
            return False
        if error is not None:
            reason = reason_of(error, self._place, self._number)
            self.reasons[reason] = "" if str(error).endswith(reason) else str(error)
        self._close(self._account.of(self._place))
        return True

    def _close(self, account: FileAccount) -> None:
        account.read += 1
        is_kept = self.has_pair or (self.has_text and not self.reasons)
        if is_kept:
            account.kept += 1
        elif self.is_repeated and not self.reasons:
            account.repeated.add(self._number)
        else:
            self.reasons = dict([*self.reasons.items(), ("nothing in it to keep", "")][:1])
        tallies = account.parts_left_out if is_kept else account.left_out
        for reason, said in self.reasons.items():
            known = reason if reason in tallies or len(tallies) < _REASONS else "other reasons"
            tallies.setdefault(known, Tally(said=said)).add(self._number)


_account: ContextVar[Exclusions | None] = ContextVar("account", default=None)


def lenient() -> AbstractContextManager[Exclusions]:
    """Count the rows that are read within, and leave out faulty ones."""
    return during(_account, Exclusions())


def glance() -> AbstractContextManager[object]:
    """A first look at rows that are read again: within `lenient`, its faults are not counted."""
    return _STRICT if _account.get() is None else lenient()


def strict() -> AbstractContextManager[None]:
    """Raise the first fault with its remedy, after lenient reading found nothing."""
    return during(_account, None)


def row(place: str, number: int) -> AbstractContextManager[None]:
    """The context of one row: a DataError in it ends the reading, or within `lenient` only the row."""
    account = _account.get()
    return _STRICT if account is None else _Row(account, place, number)


def not_kept(reason: str) -> None:
    """Count something of the present row as left out on purpose within `lenient`; elsewhere it is no fault."""
    account = _account.get()
    if account is not None:
        account.refused(reason)


def bad_row(place: str, number: int, error: DataError) -> None:
    """Leave out a row that cannot be read, or raise its error outside `lenient`."""
    with row(place, number):
        raise error


def reason_of(error: BaseException, place: str, number: int) -> str:
    """A fault without its place and values, so that equal faults have equal reasons."""
    text = str(error).removeprefix(f"{place} {number}").lstrip(": ,")
    return _DETAIL.sub("", text).strip() or "it cannot be read"
