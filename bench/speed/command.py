"""What `python -m bench.speed` does: measure rows in turns, print the table, write its record."""

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.machine import cores, machine
from bench.speed import table as cells
from bench.speed.row import Row, Work, rows
from bench.speed.texts import collect
from bench.speed.turns import BEFORE, Caller, SideError, compare, noisyir_before, take_turns
from bench.tables import circumstances
from noisyir.base.errors import ConfigError, did_you_mean
from noisyir.base.pages.cells import markdown_table

_QUICK = 8  # so many times less, and two turns
_GROWTH = (16, 4, 1)  # a row's size by these


@dataclass(frozen=True)
class Asked:
    """data: where the texts are, None for the demo's.  turns: of each side, None for the row's.  under: a command."""

    data: str | None = None
    quick: bool = False
    turns: int | None = None
    under: Sequence[str] = ()


def table(names: Sequence[str], asked: Asked) -> int:
    """Measure these rows, or all; print the table; record it, unless it is a quick one."""
    chosen, measured = _chosen(names), {}
    print(machine(), file=sys.stderr)
    with _bench(asked) as bench:
        for name, row in chosen.items():
            measured[name] = bench.measured(name, row)
            if not asked.quick:  # now, for a later row may fail or be interrupted
                cells.record(rows(), {name: measured[name]})
    lines = [line for one in measured.values() for line in one["lines"]]
    print(markdown_table([cells.HEAD, *lines], left=2), end="")
    return 0


def growth(names: Sequence[str], asked: Asked) -> int:
    """Time noisyir's side at a 16th, a 4th and the whole of a row's size; print and record the exponents fitted."""
    measured = {}
    with _bench(asked) as bench:
        for name, row in _chosen(names).items():
            if row.grows:
                measured[name] = bench.grown(name, row)
                if not asked.quick:
                    cells.record_growth(rows(), {name: measured[name]})
    print(markdown_table([cells.GROWTH_HEAD, *(one["line"] for one in measured.values())], left=1), end="")
    return 0


def profile(names: Sequence[str], asked: Asked) -> int:
    """Print where the first line's own side spends its time."""
    with _bench(asked) as bench:
        for name, row in _chosen(names).items():
            print(bench.profile(name, row))
    return 0


def _chosen(names: Sequence[str]) -> dict[str, Row]:
    known = rows()
    for name in names:
        if name not in known:
            raise ConfigError(f"no row {name!r}{did_you_mean(name, list(known))}; there are {', '.join(known)}")
    return {name: row for name, row in known.items() if not names or name in names}


@contextmanager
def _bench(asked: Asked) -> Iterator["_Bench"]:
    with tempfile.TemporaryDirectory() as folder:
        yield _Bench(Path(folder), asked)


class _Bench:
    """Rows at one scale, over one set of texts, which are collected when the first row asks for them."""

    def __init__(self, scratch: Path, asked: Asked) -> None:
        self.scratch, self.asked = scratch, asked
        self.caller = Caller(noisyir_before(scratch / "before"), tuple(asked.under))

    def measured(self, name: str, row: Row) -> dict[str, Any]:
        """A row's lines as cells, and what every side took in every turn; no turns where no line can be run."""
        why = {side: self._lacking(row, side) for side in row.sides()}
        able = [line for line in row.lines if not (why[line.ours] or why[line.other])]
        sides = [side for side in row.sides() if any(side in (line.ours, line.other) for line in able)]
        work, lines = self._work(name, row) if able else None, []
        taken = take_turns(name, row, sides, work, self._turns(row), self.caller) if work else {}
        for line in row.lines:
            if line in able:
                lines.append(cells.compared(line, compare(line, taken, cores())))
            else:
                lines.append(cells.left_out(line, str(why[line.ours] or why[line.other])))
        size = {"data": self.asked.data or "pydocs", "size": work.size} if work else {}
        return {"lines": lines, **circumstances(), **size, "turns": taken}

    def grown(self, name: str, row: Row) -> dict[str, Any]:
        """noisyir's side at three sizes: a line of the table, and its turns.  SideError where it cannot run."""
        works, side = [self._work(name, row, part) for part in _GROWTH], row.lines[0].ours
        self._refuse(name, row, side)
        turns = self.asked.turns or 2
        found = [take_turns(name, row, [side], work, turns, self.caller)[side] for work in works]
        counted = "cpu_seconds" if cores() == 1 else "seconds"
        seconds = [min(one[counted] for one in taken) for taken in found]
        slope = float(np.polyfit(np.log([work.size for work in works]), np.log(seconds), 1)[0])
        sizes = [f"{work.size:,}: {one:.2f} s" for work, one in zip(works, seconds, strict=True)]
        data = {"data": self.asked.data or "pydocs", "counted": counted}
        return {"line": [row.lines[0].what, *sizes, f"{slope:.2f}"], **circumstances(), **data, "turns": found}

    def profile(self, name: str, row: Row) -> str:
        """The most expensive calls of noisyir's side.  SideError where it cannot run."""
        side = row.lines[0].ours
        self._refuse(name, row, side)
        work = self._work(name, row)
        self.caller.call(name, "prepare", work)
        return self.caller.output(name, side, work, profile=True)

    def _work(self, name: str, row: Row, part: int = 1) -> Work:
        folder, texts = self.scratch / f"{name}_{part}", self.scratch / "texts.json"
        folder.mkdir()
        if row.reads_texts and not texts.exists():
            collect(self.asked.data).write(texts)
        return Work(folder, texts, max(row.size // (part * (_QUICK if self.asked.quick else 1)), 1))

    def _turns(self, row: Row) -> int:
        return self.asked.turns or (2 if self.asked.quick else row.turns)

    def _refuse(self, name: str, row: Row, side: str) -> None:
        if why := self._lacking(row, side):
            raise SideError(f"{name} cannot run here: {why}")

    def _lacking(self, row: Row, side: str) -> str | None:
        if self.asked.quick and row.takes_minutes:
            return "takes minutes, which --quick leaves out"
        if side in row.before and self.caller.before is None:
            return f"the commit {BEFORE} is not in this clone: git fetch --unshallow"
        return row.lacking(side)
