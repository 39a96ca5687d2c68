"""With what Python's calls run: a store, the machine's settings, and whether progress is shown."""

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
    """Where results are kept and looked for, and on what machine work is done."""

    store: Store
    runtime: Runtime
    progress: bool

    @property
    def home(self) -> Path:
        """The folder beside the store, for what was given."""
        return self.store.home

    def run(self, exp: Experiment, pipeline: Callable[[Experiment], Plan]) -> Outcome:
        """Run a pipeline of an experiment; what is in the store already is not made again."""
        self.store.check_writable()
        with progress_for(self.progress) as observer:
            return run_experiment(
                exp, Choice(), Execution(store=self.store, runtime=self.runtime, observer=observer), pipeline=pipeline
            )


def running(
    settings: Settings | None, store: str | os.PathLike[str] | None, progress: bool
) -> tuple[Running, list[str]]:
    """With what to run, and the settings that are the experiment's, as overrides.  ConfigError as of an experiment."""
    overrides = overrides_of(settings)
    runtime = load_runtime([text for text in overrides if is_runtime(text)])
    opened = open_store(None if store is None else os.fspath(store))
    return Running(opened, runtime, progress), [text for text in overrides if not is_runtime(text)]


@contextmanager
def progress_for(wanted: bool) -> Iterator[Observer]:
    """The observer that fits where this runs; a silent one where progress is not wanted."""
    if wanted and (display := _notebook()) is not None:
        yield Notebook(display)
    elif wanted and sys.stderr.isatty():
        with observer_for(sys.stderr) as observer:
            yield observer
    else:
        yield Observer()


class Notebook(Observer):
    """One line of a notebook's cell, which says what is at work and how far it is."""

    def __init__(self, display: Any) -> None:
        self._line = display({"text/plain": ""}, raw=True, display_id=True)
        self._done = 0

    def started(self, step: Step) -> None:
        """Say what starts."""
        self._say(f"{step.name} ...")

    def progress(self, step: Step, done: int, total: int | None, unit: str) -> None:
        """Say how far it is."""
        of = f" of {total:,}" if total else ""
        self._say(f"{step.name}: {done:,}{of} {unit}")

    def finished(self, step: Step, meta: Meta, cached: bool) -> None:
        """Count it."""
        self._done += 1
        self._say(f"{self._done} steps done, the last {step.name}{' (cached)' if cached else ''}")

    def failed(self, step: Step, error: BaseException) -> None:
        """Say where it failed; the error itself is told as any other."""
        self._say(f"{step.name} failed")

    def _say(self, text: str) -> None:
        self._line.update({"text/plain": text}, raw=True)


def _notebook() -> Any:
    """IPython's `display` where this is a notebook's kernel; None elsewhere."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return ipython.display.display if hasattr(shell, "kernel") else None
