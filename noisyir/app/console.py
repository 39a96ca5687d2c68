"""What the command line prints: live progress on a terminal, plain lines elsewhere, and the tables at the end."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TextIO

import pyarrow as pa
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from noisyir.app.dry_run import HEADINGS, StepEstimate, dry_run_rows, steps_without_key, total_line
from noisyir.app.fetching import MissingInput
from noisyir.app.own_data import doubts_of, ingest_facts
from noisyir.app.runs import Outcome
from noisyir.engine.builds import Meta
from noisyir.engine.observe import Silent
from noisyir.engine.plan import Forecast
from noisyir.engine.stage import Observer, Step
from noisyir.engine.store import Store
from noisyir.engine.tables import read_parts
from noisyir.pipelines.experiment import Experiment
from noisyir.report.cells import NONE
from noisyir.report.detection import detection_rows, flag_warnings
from noisyir.report.settings import PublishedParams
from noisyir.report.summary import published_rows, summary_rows, trial_rows

_NEVER_FOLDS = 200  # columns: a table is as wide as it needs to be, up to this


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
    """What shows how far a judge is with its questions: a bar on a terminal, a line for each tenth elsewhere."""
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
    return console if console.is_terminal else Console(highlight=False, soft_wrap=True, width=_NEVER_FOLDS)


def plain_table(*headings: str) -> Table:
    """An empty table without lines."""
    return Table(*headings, box=None, pad_edge=False)


def print_forecast(states: Sequence[Forecast]) -> None:
    """The table of a bench's dry run."""
    table = Table("stage", "state", "key", "pool", box=None)
    colours = {"cached": "green", "would run": "yellow", "not chosen": "dim"}
    for entry in states:
        state = f"[{colours[entry.state]}]{entry.state}[/]"
        table.add_row(entry.step.name, state, entry.step.key[:12], entry.step.stage.pool)
    stdout_console().print(table)


def print_dry_run(exp: Experiment, states: Sequence[Forecast], found: Mapping[str, StepEstimate]) -> None:
    """The table of a dry run: a row for each step, or for one of all rounds, then the time that it comes to."""
    console = Console(highlight=False, soft_wrap=True, width=_NEVER_FOLDS)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in HEADINGS:
        table.add_column(heading, justify="right" if heading == "time" else "left", no_wrap=True)
    for row in dry_run_rows(states, found, steps_without_key(states)):
        table.add_row(*row, style={"cached": "green", "not chosen": "dim"}.get(row[-1], ""))
    console.print(table)
    console.print(f"\n{'time':<12}{total_line(states, found)}", markup=False)
    for entry in exp.published:
        what = f"{entry.system} {entry.split} {entry.measure} {entry.value:.3f}"
        console.print(f"{'published':<12}{what}: {entry.source}", markup=False)


def print_changes(changes: Mapping[str, Sequence[str]]) -> None:
    """What is new about each step that would run."""
    console = Console(highlight=False, soft_wrap=True)
    console.print("\nwhy, by the newest build of each step" if changes else "\nnothing would run", markup=False)
    width = max(map(len, changes), default=0)
    for name, said in changes.items():
        console.print(f"{name:<{width}}  {'; '.join(said)}", markup=False)


def print_absences(absences: Iterable[str]) -> None:
    """What a plan was made without; its keys are marked ?."""
    console = Console(highlight=False, soft_wrap=True)
    for said in absences:
        console.print(f"{'not there':<12}{said}", markup=False)


def print_missing(found: Sequence[MissingInput]) -> None:
    """The inputs to fetch before the experiment runs; it is not done by itself."""
    console = Console(highlight=False, soft_wrap=True)
    for one in found:
        console.print(f"{'to fetch':<12}{one.place} ({one.setting}): noisyir fetch {one.place}", markup=False)


def print_chosen(exp: Experiment, stream: TextIO) -> None:
    """What the experiment left out and noisyir chose, a line a setting."""
    console = Console(file=stream, highlight=False, soft_wrap=True)
    for name, said in exp.chosen.items():
        console.print(f"{'chosen':<12}{name:<20} {said}", markup=False)


def print_outcome(outcome: Outcome, store: Store, exp: Experiment) -> None:
    """The end of a run: result table, what to doubt of it, where things are, and what to type next."""
    console = stdout_console()
    console.print(f"\n{outcome.executed} run, {outcome.cached} cached")
    _print_tables(console, outcome, store, exp.published)
    for doubt in doubts_of(outcome, store, exp.kept):
        console.print(f"\n[bold red]WARNING[/]     {escape(doubt)}")
    console.print()
    if held_out := ingest_facts(outcome).get("held_out"):
        console.print(f"{'held out':<11} {held_out}", markup=False)
    for page, artifact in {"report": "report", "audit": "audit_files"}.items():
        if artifact in outcome.kept:
            console.print(f"{page:<11} {store.folder(outcome.kept[artifact]) / f'{page}.html'}")
    for name, value in outcome.facts.items():
        console.print(f"{name:<11} {value}")
    if "model" in outcome.kept:
        console.print(f"\nnext        noisyir search {outcome.experiment} 'your question'")
        console.print(f"            noisyir export {outcome.experiment} --to my-model")
        console.print(f"            noisyir trace {outcome.experiment}")


def _print_tables(console: Console, outcome: Outcome, store: Store, published: Sequence[PublishedParams]) -> None:
    """The results, how well wrong pairs were found, with warnings, and what was tried before a model was chosen."""
    if "comparison" in outcome.kept:
        console.print()
        comparison = _kept(store, outcome, "comparison")
        console.print(_table(summary_rows(comparison)))
        if rows := published_rows(comparison, published):
            console.print("\npublished beside measured")
            console.print(_table(rows))
    if "detection" in outcome.kept:
        detection = _kept(store, outcome, "detection")
        headings, *rows = detection_rows(detection)
        if any(cell != NONE for row in rows for cell in row[2:]):  # of data that nobody knows the truth of, all are
            console.print("\nwrong pairs found")
            console.print(_table([headings, *rows]))
        for warning in flag_warnings(detection):
            console.print(f"\nwarning     {warning}", markup=False)
    if "trials" in outcome.kept:
        console.print()
        console.print(_table(trial_rows(_kept(store, outcome, "trials"))))


def _kept(store: Store, outcome: Outcome, name: str) -> pa.Table:
    return read_parts(store.fs, store.parts(outcome.kept[name]))


def print_rows(console: Console, rows: Sequence[Sequence[str]], left: int = 1) -> None:
    """Rows of text as a table, headings first; all columns but the first `left` are numbers."""
    console.print(_table(rows, left))


def _table(rows: Sequence[Sequence[str]], left: int = 1) -> Table:
    """The first row is the heading; all columns but the first `left` are numbers."""
    table = plain_table(*rows[0][:left])
    for heading in rows[0][left:]:
        table.add_column(heading, justify="right")
    for row in rows[1:]:
        table.add_row(*row)
    return table
