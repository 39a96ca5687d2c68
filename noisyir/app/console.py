"""Output of the command line: progress bars on a terminal, plain lines elsewhere, and tables."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from textwrap import fill
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

from noisyir.base.durations import duration
from noisyir.engine.meta import Meta
from noisyir.engine.stage import Observer, Step

NEVER_FOLDS = 200  # columns: a table is as wide as it needs to be, up to this
_HYBRIDS = "hybrids"
_OF_ROOM = {"data": "data", "corruption": "data", "detection": "suspicion", "audits": "suspicion",
            "evaluation": "report", "mining": "mining"}  # fmt: skip
_OF_STAGE = {"bm25_index": "BM25", "bm25": "BM25", "fuse": _HYBRIDS, "audit": "report", "score_negatives": "mining",
             "score_loss_groups": "mining"}  # fmt: skip
_QUIET_SECONDS = 60
_MANY = 100  # steps: a plan of more, such as a bench's, has a bar for all of them


@contextmanager
def observer_for(stream: TextIO, *, verbose: bool = False, phases: bool = True) -> Iterator[Observer]:
    """Observe a run with bars on a terminal, and with one line per stage elsewhere.

    Args:
        verbose: Write one line per stage instead of bars on a terminal, too.
        phases: Keep a line for each finished phase on a terminal.
    """
    console = Console(file=stream, highlight=False, emoji=False, soft_wrap=True)
    if verbose or not console.is_terminal:
        yield Lines(console)
        return
    columns = (SpinnerColumn(), TextColumn("{task.description:<20}"), BarColumn(20), _HowFar())
    with Progress(*columns, console=console, transient=True) as bars:
        yield Phases(bars, lasting=phases)


class _HowFar(ProgressColumn):
    """Progress and time left of a task, or its elapsed time if the total is unknown."""

    def render(self, task: Task) -> Text:
        if task.total is None:
            return Text(f"for {duration(task.elapsed or 0)}", no_wrap=True)
        seconds, done = task.time_remaining, task.completed
        if seconds is None and done:  # by its pace since the start, if it was silent lately
            seconds = (task.elapsed or 0) * (task.total - done) / done
        left = "" if seconds is None else f", {duration(seconds)} left"
        return Text(f"{done:,.0f} of {task.total:,.0f} {task.fields['unit']}{left}", no_wrap=True)


@contextmanager
def questions_for(stream: TextIO) -> Iterator[Callable[[int, int, str], None]]:
    """Show a model judge's progress: a bar on a terminal, one line per tenth elsewhere."""
    console = Console(file=stream, highlight=False, emoji=False, soft_wrap=True)
    if console.is_terminal:
        columns = (SpinnerColumn(), TextColumn("asking the judge    "), BarColumn(20), _HowFar())
        with Progress(*columns, TextColumn("{task.fields[took]}"), console=console) as bars:
            bar = bars.add_task("", total=None, unit="pairs", took="")
            yield lambda done, total, took: bars.update(bar, completed=done, total=total, took=took)
        return
    tenth = -1

    def line(done: int, total: int, took: str) -> None:
        nonlocal tenth
        if (reached := 10 * done // max(1, total)) > tenth:
            tenth = reached
            console.print(f"  asking the judge     {done:,} of {total:,}  {took}", markup=False)

    yield line


class Lines(Observer):
    """Writes a line when a stage ends, and one a minute while it works."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._last = time.monotonic()

    def progress(self, step: Step, done: int, total: int | None, unit: str) -> None:
        """Print the progress if nothing was printed for a minute."""
        if time.monotonic() - self._last > _QUIET_SECONDS:
            self._last = time.monotonic()
            whole = "" if total is None else f" of {total:,}"
            self.console.print(f"  {step.name:<25} {'at work':>8}  {done:,}{whole} {unit}", markup=False)

    def said(self, step: Step, text: str) -> None:
        """Print it below the stage."""
        for line in text.splitlines():
            self.console.print(f"    {line}", markup=False)

    def finished(self, step: Step, meta: Meta, cached: bool) -> None:
        """Print the numbers of rows, the time and the result."""
        counts = {name: meta.artifacts[name].rows for name in step.stage.outputs(step.params)}
        rows = ", ".join(f"{name} {count:,}" for name, count in counts.items() if count)
        took = "cached" if cached else f"{meta.seconds:.1f} s"
        said = "; ".join(filter(None, [rows, meta.result]))
        self._last = time.monotonic()
        self.console.print(f"  {step.name:<25} {took:>8}  {said}".rstrip(), markup=False)


def phase_of(step: Step) -> str:
    """The phase of a step, by its stage, its room, or its model's label."""
    _, room, method, *_ = f"{step.stage.run.__module__}...".split(".")
    stage = step.stage.name
    if known := _OF_STAGE.get(stage) or (stage != "score" and _OF_ROOM.get(room)):
        return known
    label = (re.split("[@:]", step.name)[1:2] or [""])[0]
    if label.startswith("trial"):
        return "trials"
    if label.isdigit() or label in ("", "train", "warm_up"):  # of a model that several share, or a round
        return method if room == "methods" else "start"
    if label.endswith("_hybrid"):
        return _HYBRIDS
    return {"zero_shot": "untrained", "bm25": "BM25"}.get(label) or label.replace("_as_is", " as it is")


class Phases(Observer):
    """A bar for each running phase, and a line for each finished one."""

    def __init__(self, bars: Progress, *, lasting: bool = True) -> None:
        self.bars, self.lasting = bars, lasting
        self._left: dict[str, list[str]] = {}  # of each phase, in the run's order, the steps to come
        self._bars: dict[str, TaskID] = {}
        self._began: dict[str, float] = {}
        self._results: dict[str, list[str]] = {}
        self._all: TaskID | None = None  # the bar of a plan of many steps: the built ones among those to build
        self._total = 0

    def planned(self, steps: Sequence[Step]) -> None:
        """Store the phases and their steps."""
        for step in steps:
            self._left.setdefault(phase_of(step), []).append(step.name)
        if len(steps) > _MANY:
            self._total = len(steps)
            self._all = self.bars.add_task("all", total=self._total, unit="steps")

    def started(self, step: Step) -> None:
        """Show a bar for its phase."""
        phase = phase_of(step)
        self._began.setdefault(phase, time.monotonic())
        if phase not in self._bars:
            self._bars[phase] = self.bars.add_task(self._named(phase), total=None, unit="")

    def progress(self, step: Step, done: int, total: int | None, unit: str) -> None:
        """Move the bar of its phase."""
        if (bar := self._bars.get(phase_of(step))) is not None:
            self.bars.update(bar, completed=done, total=total, unit=unit)

    def finished(self, step: Step, meta: Meta, cached: bool) -> None:
        """Remove the step's bar; after the last step of a phase, print a line."""
        phase = phase_of(step)
        self._remove(phase)
        if self._all is not None:
            self._total -= cached
            self.bars.update(self._all, advance=not cached, total=self._total)
        if meta.result:
            self._results.setdefault(phase, []).append(meta.result)
        left = self._left.get(phase, [])
        if step.name in left:
            left.remove(step.name)
        if self.lasting and not left:
            took = duration(time.monotonic() - self._began[phase]) if phase in self._began else "was there"
            (result,) = found if len(found := self._results.get(phase, [])) == 1 else [""]
            self.bars.console.print(f" {self._named(phase):<22} done {took:>14}   {result}".rstrip(), markup=False)

    def failed(self, step: Step, error: BaseException) -> None:
        """Remove the bar; the error is printed at the end."""
        self._remove(phase_of(step))

    def _remove(self, phase: str) -> None:
        if (bar := self._bars.pop(phase, None)) is not None:
            self.bars.remove_task(bar)

    def _named(self, phase: str) -> str:
        if phase not in self._left:
            return phase
        return f"{list(self._left).index(phase) + 1}/{len(self._left)} {phase}"


def print_text(console: Console, text: str) -> None:
    """Print text without markup, folded between words on a terminal, with each command whole on its own line.

    Folded lines are indented to the end of a label, the words before two spaces.
    """
    for line in text.split("\n"):
        if not console.is_terminal or len(line) <= console.width:
            console.print(line, markup=False)
            continue
        label = re.match(r" *\S.*?  +| *", line)
        indent = " " * (label.end() if label else 0)
        prose, *commands = re.split(r" +(?=noisyir [a-z])", line)
        told = fill(prose, console.width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        for part in (told, *(f"{indent}{command}" for command in commands)):
            console.print(part, markup=False)


def stdout_console() -> Console:
    """A console on standard output that never folds tables in files and pipes."""
    console = Console(highlight=False, emoji=False, soft_wrap=True)
    return console if console.is_terminal else Console(highlight=False, emoji=False, soft_wrap=True, width=NEVER_FOLDS)


def plain_table(*headings: str) -> Table:
    """An empty table without lines."""
    return Table(*headings, box=None, pad_edge=False)


def results_table(rows: Sequence[Sequence[str]], left: int = 1) -> Table:
    """A table of rows, headings first; columns after the first `left` are right-aligned."""
    table = plain_table(*rows[0][:left])
    for heading in rows[0][left:]:
        table.add_column(heading, justify="right", overflow="fold")
    for row in rows[1:]:
        table.add_row(*row)
    return table
