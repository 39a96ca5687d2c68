"""Execution context of the Python API: store, machine settings and progress display."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noisyir.app.console import observer_for
from noisyir.app.runs import Execution, Outcome, run_experiment
from noisyir.engine.meta import Meta
from noisyir.engine.plan import Choice, Plan
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Observer, Step
from noisyir.engine.store import Store, open_store
from noisyir.methods.experiments import is_runtime, load_runtime, overrides_of
from noisyir.methods.plans.experiment import Experiment

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Running:
    """Store for results, and machine settings for the work."""

    store: Store
    runtime: Runtime
    progress: bool

    @property
    def home(self) -> Path:
        """The folder next to the store, for inputs from Python."""
        return self.store.home

    def run(self, exp: Experiment, pipeline: Callable[[Experiment], Plan]) -> Outcome:
        """Run a pipeline of an experiment; results in the store are reused."""
        self.store.check_writable()
        with progress_for(self.progress) as observer:
            return run_experiment(
                exp, Choice(), Execution(store=self.store, runtime=self.runtime, observer=observer), pipeline=pipeline
            )


def running(
    settings: Settings | None, store: str | os.PathLike[str] | None, progress: bool
) -> tuple[Running, list[str]]:
    """Return the execution context, and the experiment's settings as overrides.

    Raises:
        ConfigError: As for an experiment.
    """
    overrides = overrides_of(settings)
    runtime = load_runtime([text for text in overrides if is_runtime(text)])
    opened = open_store(None if store is None else os.fspath(store))
    return Running(opened, runtime, progress), [text for text in overrides if not is_runtime(text)]


@contextmanager
def progress_for(wanted: bool) -> Iterator[Observer]:
    """Return the observer for this environment; a silent one if progress is off."""
    if wanted and (display := _notebook()) is not None:
        yield Notebook(display)
    elif wanted and sys.stderr.isatty():
        with observer_for(sys.stderr) as observer:
            yield observer
    else:
        yield Observer()


class Notebook(Observer):
    """One line in a notebook cell that shows the current step and its progress."""

    def __init__(self, display: Any) -> None:
        self._line = display({"text/plain": ""}, raw=True, display_id=True)
        self._done = 0

    def started(self, step: Step) -> None:
        """Show the step that starts."""
        self._say(f"{step.name} ...")

    def progress(self, step: Step, done: int, total: int | None, unit: str) -> None:
        """Show the step's progress."""
        of = f" of {total:,}" if total else ""
        self._say(f"{step.name}: {done:,}{of} {unit}")

    def finished(self, step: Step, meta: Meta, cached: bool) -> None:
        """Count the step."""
        self._done += 1
        self._say(f"{self._done} steps done, the last {step.name}{' (cached)' if cached else ''}")

    def failed(self, step: Step, error: BaseException) -> None:
        """Show the failed step; the error itself is reported elsewhere."""
        self._say(f"{step.name} failed")

    def _say(self, text: str) -> None:
        self._line.update({"text/plain": text}, raw=True)


def _notebook() -> Any:
    """IPython's `display` in a notebook kernel; otherwise None."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return ipython.display.display if hasattr(shell, "kernel") else None
