"""Turns: each side in a process of its own, A B A B, and the ratio of two sides with its interval."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Self

import numpy as np
from scipy import stats

from bench.speed.row import Line, Row, Taken, Work
from noisyir.base.errors import NoisyirError

ROOT = Path(__file__).parents[2]
BEFORE = "027cdac"
"""The commit whose noisyir stands for "before": the last one without the work that the table is about."""


class SideError(NoisyirError):
    """A side's process failed; the message is the end of what it wrote."""


@dataclass(frozen=True)
class Caller:
    """How sides are called.  before: the folder with noisyir as it was; under: a command below which each runs."""

    before: Path | None = None
    under: Sequence[str] = ()

    def call(self, name: str, side: str, work: Work, *, trees: Sequence[Path] = ()) -> Taken:
        """Run one side in a process of its own, whose packages are first looked for in the folders `trees`."""
        taken: Taken = json.loads(self.output(name, side, work, trees=trees).splitlines()[-1])
        return taken

    def output(self, name: str, side: str, work: Work, *, trees: Sequence[Path] = (), profile: bool = False) -> str:
        """What the side's process prints.  SideError where it fails."""
        given = [name, side, str(work.folder), str(work.texts), str(work.size), *(["profile"] if profile else [])]
        paths = os.pathsep.join(map(str, (*trees, ROOT)))
        command = [*self.under, sys.executable, "-m", "bench.speed.side", *given]
        environment = os.environ | {"PYTHONPATH": paths, "TOKENIZERS_PARALLELISM": "true", "HF_HUB_OFFLINE": "1"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else every process compiles torch anew, for seconds
        done = subprocess.run(command, cwd=work.folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SideError(f"{name}, side {side}: {done.stderr.strip()[-1500:]}")
        return done.stdout


def take_turns(
    name: str, row: Row, sides: Sequence[str], work: Work, turns: int, caller: Caller
) -> dict[str, list[Taken]]:
    """What these sides took in each turn.  SideError where one of them fails."""
    caller.call(name, "prepare", work)
    trees = {side: _trees(row, side, work, caller) for side in sides}
    taken: dict[str, list[Taken]] = {side: [] for side in sides}
    for turn in range(turns):
        for side in sides:
            taken[side].append(caller.call(name, side, work, trees=trees[side]))
            told = ", ".join(f"{key} {value:,.4g}" for key, value in taken[side][-1].items() if _is_number(value))
            print(f"  {name} turn {turn + 1} {side}: {told}", file=sys.stderr, flush=True)
    return taken


def _trees(row: Row, side: str, work: Work, caller: Caller) -> list[Path]:
    """Where a side's packages are first looked for: noisyir as it was, or the side's overlay, which is installed."""
    if side in row.before:
        return [caller.before] if caller.before else []
    if not (wanted := row.overlays.get(side)):
        return []
    folder = work.folder / "-".join(sorted(name for name, other in row.overlays.items() if other == wanted))
    if not folder.exists():
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder), *wanted]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SideError(f"the packages of side {side} could not be installed: {done.stderr.strip()[-500:]}")
    return [folder]


def noisyir_before(folder: Path) -> Path | None:
    """noisyir's package as it was at BEFORE, in `folder`; None where this is no clone that has the commit."""
    folder.mkdir(exist_ok=True)
    archive = subprocess.run(["git", "archive", BEFORE, "noisyir"], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        return None
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder


@dataclass(frozen=True)
class Ratio:
    """A ratio of two sides: geometric mean over the turns, and its 95 % interval (Student's t on the logarithms).

    low, high: None with a single turn.
    """

    mean: float
    low: float | None
    high: float | None


def ratio(above: Sequence[float], below: Sequence[float]) -> Ratio:
    """above / below, turn by turn."""
    logs = np.log(above) - np.log(below)
    mean = float(np.exp(logs.mean()))
    if len(logs) < 2:
        return Ratio(mean, None, None)
    reach = float(stats.t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs)))
    return Ratio(mean, mean * float(np.exp(-reach)), mean * float(np.exp(reach)))


@dataclass(frozen=True)
class Compared:
    """A line's outcome: medians an item, the ratio by the clock and by CPU time (of times alone), and the verdict.

    What is judged, and shown as the medians, is the clock's.  Where the sides had one core it is processor time, which
    is what the clock would show were nobody else there, and there is no ratio by the clock.
    """

    ours: float
    other: float
    clock: Ratio | None
    cpu: Ratio | None
    verdict: str


def compare(line: Line, taken: Mapping[str, Sequence[Taken]], cores: int) -> Compared:
    """Hold a line's target against what its sides took on so many cores."""
    clock = _Both.of(line, taken)
    counted = all(by_cpu(quantity) in one for side, quantity in _quantities(line) for one in taken[side])
    cpu = _Both.of(line, taken, by_cpu) if "seconds" in line.quantity and counted else None
    judged = cpu if cpu and cores == 1 and not line.waits else clock
    outcome = verdict(line, judged.ratio, judged.ours)
    by_clock = None if judged is cpu else clock.ratio
    return Compared(judged.ours, judged.other, by_clock, cpu.ratio if cpu else None, outcome)


@dataclass(frozen=True)
class _Both:
    ours: float
    other: float
    ratio: Ratio

    @classmethod
    def of(cls, line: Line, taken: Mapping[str, Sequence[Taken]], named: Callable[[str], str] = str) -> Self:
        """Medians and ratio of a line's quantities, or of those that are named after them."""
        ours, other = (_each(taken[side], named(quantity)) for side, quantity in _quantities(line))
        return cls(median(ours), median(other), ratio(*((ours, other) if line.at_most is not None else (other, ours))))


def verdict(line: Line, found: Ratio, ours: float) -> str:
    """met, missed, or open where the target lies within the interval."""
    if line.limit is not None:
        return "met" if ours <= line.limit else "missed"
    if line.at_least is not None:
        low, high, target = found.low or found.mean, found.high or found.mean, line.at_least
    elif line.at_most is not None:
        low, high, target = -(found.high or found.mean), -(found.low or found.mean), -line.at_most
    else:
        return ""
    return "met" if low >= target else "missed" if high < target else "open"


def by_cpu(quantity: str) -> str:
    """What the processor's part of a time is called: cpu_seconds, step_cpu_seconds."""
    return quantity.replace("seconds", "cpu_seconds")


def _quantities(line: Line) -> tuple[tuple[str, str], tuple[str, str]]:
    """Each side with what of it is compared."""
    return (line.ours, line.quantity), (line.other, line.of or line.quantity)


def _each(taken: Sequence[Taken], quantity: str) -> list[float]:
    """The quantity an item; memory and shares are not by the item."""
    return [one[quantity] / (one["items"] if quantity.endswith("seconds") else 1) for one in taken]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)
