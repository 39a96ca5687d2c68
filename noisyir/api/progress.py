"""How far a run is: a line in a notebook, bars on a terminal, nothing in a script's output."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from noisyir.app.console import observer_for
from noisyir.engine.builds import Meta
from noisyir.engine.observe import Silent
from noisyir.engine.stage import Observer, Step


@contextmanager
def progress_for(wanted: bool) -> Iterator[Observer]:
    """The observer that fits where this runs; a silent one where progress is not wanted."""
    if wanted and (display := _notebook()) is not None:
        yield Notebook(display)
    elif wanted and sys.stderr.isatty():
        with observer_for(sys.stderr) as observer:
            yield observer
    else:
        yield Silent()


class Notebook(Silent):
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
