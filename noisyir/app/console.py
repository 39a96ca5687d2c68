"""Printing of the command line: live progress on a terminal, plain lines elsewhere, and tables at the end."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from noisyir.engine.meta import Meta
from noisyir.engine.observe import Silent
from noisyir.engine.stage import Observer, Step

NEVER_FOLDS = 200  # columns: a table is as wide as it needs to be, up to this


@contextmanager
def observer_for(stream: TextIO) -> Iterator[Observer]:
    """An observer that shows a live display on a terminal and writes plain lines to anything else."""
    console = Console(file=stream, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        yield Lines(console)
        return
    columns = (SpinnerColumn(), TextColumn("{task.description:<20}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TextColumn("{task.fields[unit]}"), TimeElapsedColumn(), console=console) as bars:
        yield Live(bars)


@contextmanager
def questions_for(stream: TextIO) -> Iterator[Callable[[int, int, str], None]]:
    """Display of a judge's progress: a bar on a terminal, a line for each tenth elsewhere."""
    console = Console(file=stream, highlight=False, soft_wrap=True)
    if console.is_terminal:
        columns = (SpinnerColumn(), TextColumn("asking the judge    "), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, TextColumn("{task.fields[took]}"), TimeElapsedColumn(), console=console) as bars:
            bar = bars.add_task("", total=None, took="")
            yield lambda done, total, took: bars.update(bar, completed=done, total=total, took=took)
        return
    tenth = -1

    def line(done: int, total: int, took: str) -> None:
        nonlocal tenth
        if (now := 10 * done // max(1, total)) > tenth:
            tenth = now
            console.print(f"  asking the judge     {done:,} of {total:,}  {took}", markup=False)

    yield line


class Lines(Silent):
    """One line when a stage starts, one when it ends."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def started(self, step: Step) -> None:
        """Say what starts."""
        self.console.print(f"  {step.name} ...")

    def said(self, step: Step, text: str) -> None:
        """Say it, below the stage."""
        for line in text.splitlines():
            self.console.print(f"    {line}", markup=False)

    def finished(self, step: Step, meta: Meta, cached: bool) -> None:
        """Say what is there, how large it is and how long it took."""
        counts = {name: meta.artifacts[name].rows for name in step.stage.outputs(step.params)}
        rows = ", ".join(f"{name} {count:,}" for name, count in counts.items() if count is not None)
        took = "cached" if cached else f"{meta.seconds:.1f} s"
        self.console.print(f"  {step.name:<20} {took:>8}  {rows}")


class Live(Lines):
    """A moving bar for each stage at work, and a line above them for each one done."""

    def __init__(self, bars: Progress) -> None:
        super().__init__(bars.console)
        self.bars = bars
        self._bars: dict[str, TaskID] = {}

    def started(self, step: Step) -> None:
        """Show a bar for the stage."""
        self._bars[step.name] = self.bars.add_task(step.name, total=None, unit="")

    def progress(self, step: Step, done: int, total: int | None, unit: str) -> None:
        """Move the stage's bar."""
        self.bars.update(self._bars[step.name], completed=done, total=total, unit=unit)

    def finished(self, step: Step, meta: Meta, cached: bool) -> None:
        """Turn the bar into a line."""
        self._remove(step)
        super().finished(step, meta, cached)

    def failed(self, step: Step, error: BaseException) -> None:
        """Take the bar away; the error is told at the end."""
        self._remove(step)

    def _remove(self, step: Step) -> None:
        if (bar := self._bars.pop(step.name, None)) is not None:
            self.bars.remove_task(bar)


def stdout_console() -> Console:
    """Standard output: as wide as the terminal, and wide enough not to fold tables in a file or a pipe."""
    console = Console(highlight=False, soft_wrap=True)
    return console if console.is_terminal else Console(highlight=False, soft_wrap=True, width=NEVER_FOLDS)


def plain_table(*headings: str) -> Table:
    """An empty table without lines."""
    return Table(*headings, box=None, pad_edge=False)


def print_rows(console: Console, rows: Sequence[Sequence[str]], left: int = 1) -> None:
    """Rows of text as a table, headings first; all columns but the first `left` are numbers."""
    console.print(results_table(rows, left))


def results_table(rows: Sequence[Sequence[str]], left: int = 1) -> Table:
    """The first row is the heading; all columns but the first `left` are numbers."""
    table = plain_table(*rows[0][:left])
    for heading in rows[0][left:]:
        table.add_column(heading, justify="right")
    for row in rows[1:]:
        table.add_row(*row)
    return table
