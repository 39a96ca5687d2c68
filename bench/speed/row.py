"""What a row of the speed table is: sides, which are timed, and lines, each a comparison of two of them."""

import time
from collections.abc import Mapping, Sequence
from cProfile import Profile
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from pstats import Stats
from types import TracebackType
from typing import Any, ClassVar, Self

Taken = dict[str, Any]
"""What one call of a side took: `seconds` by the clock, `cpu_seconds` of all threads, how many `items`, `peak_mb`."""


_CALLS = 25  # of a profile, the most expensive


class Stopwatch:
    """Times a block: `with Stopwatch() as watch: ...`, then `watch.taken(items=...)`.

    profiling: print where the time of each block goes, too; of two blocks, one in the other, the outer's.
    """

    profiling: ClassVar[bool] = False

    def __enter__(self) -> Self:
        self.profile = Profile() if Stopwatch.profiling else None
        if self.profile:
            Stopwatch.profiling = False
            self.profile.enable()
        self.began, self.cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.seconds, self.cpu_seconds = time.perf_counter() - self.began, time.process_time() - self.cpu
        if self.profile:
            self.profile.disable()
            Stopwatch.profiling = True
            Stats(self.profile).sort_stats("cumtime").print_stats(_CALLS)

    def taken(self, items: int = 1, **more: Any) -> Taken:
        """What the block took, for so many items, and what else is to be recorded."""
        return {"seconds": self.seconds, "cpu_seconds": self.cpu_seconds, "items": items, **more}


@dataclass(frozen=True)
class Line:
    """One comparison.  The ratio says how many times as fast ours is; with `at_most`, how many times as dear.

    quantity: what of `Taken` is compared, an item each; of: what of the other side's, where that is not the same.
    unit: what an item is.  limit: what ours may come to at most, in the quantity's own unit, whatever the other does.
    Without any of the three bounds the line is for the record.  waits: on a network, so that the clock alone can tell.
    """

    what: str
    ours: str
    other: str
    against: str
    at_least: float | None = None
    at_most: float | None = None
    limit: float | None = None
    quantity: str = "seconds"
    of: str | None = None
    unit: str = ""
    waits: bool = False


@dataclass(frozen=True)
class Work:
    """What a side is given: the row's own folder, the file of texts, and how many of them are wanted."""

    folder: Path
    texts: Path
    size: int


class Row:
    """Some lines that share what is prepared.  A side is the method of that name: it takes `Work` and gives `Taken`.

    size: how many texts (or queries).  turns: of each side.  needs: by side, the packages that are not noisyir's own.
    overlays: by side, requirements that come before the environment's own packages, for a peer that wants older ones.
    before: sides that run noisyir as it was, at `turns.BEFORE`.  reads_texts: else `Work.texts` is not there.
    takes_minutes: --quick leaves it out.  grows: its seconds are those of `size` texts and of nothing else.
    """

    lines: ClassVar[tuple[Line, ...]]
    size: ClassVar[int] = 1
    turns: ClassVar[int] = 5
    needs: ClassVar[Mapping[str, Sequence[str]]] = {}
    overlays: ClassVar[Mapping[str, Sequence[str]]] = {}
    before: ClassVar[frozenset[str]] = frozenset()
    reads_texts: ClassVar[bool] = True
    takes_minutes: ClassVar[bool] = False
    grows: ClassVar[bool] = False

    def prepare(self, work: Work) -> None:
        """Make once what every side reads."""

    def lacking(self, side: str) -> str | None:
        """Why a side cannot run here, and what to do about it; None where it can."""
        if side in self.overlays and find_spec("pip") is None:
            return "no pip here, which installs what this peer wants: python -m ensurepip"
        missing = [name for name in self.needs.get(side, ()) if find_spec(name) is None]
        return f"no {', '.join(missing)} here: pip install 'noisyir[bench]'" if missing else None

    def sides(self) -> list[str]:
        """The sides that lines name, ours first."""
        return list(dict.fromkeys([line.ours for line in self.lines] + [line.other for line in self.lines]))


def rows() -> dict[str, Row]:
    """Every row by the name of its file, in the table's order, which is that of the names."""
    package = import_module("bench.speed.rows")
    return {
        module.name: row_of(import_module(f"{package.__name__}.{module.name}"))
        for module in iter_modules(package.__path__)
    }


def row_of(module: Any) -> Row:
    (kind,) = (
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Row) and value.__module__ == module.__name__
    )
    row: Row = kind()
    return row
