"""What a run is at, written beside its record now and then, for `noisyir status` on whatever machine."""

import time
from datetime import UTC, datetime

from noisyir.engine.observe import Silent
from noisyir.engine.stage import Step
from noisyir.engine.store import Store
from noisyir.engine.waiting import current_run

_EVERY_SECONDS = 5.0


class Now(Silent):
    """Writes the step at work and how far it is."""

    def __init__(self, store: Store) -> None:
        self._store, self._since, self._next = store, "", 0.0

    def started(self, step: Step) -> None:
        """Write that the step has begun."""
        self._since = datetime.now(UTC).isoformat()
        self._write(step)
        self._next = 0.0

    def progress(self, step: Step, done: int, total: int | None, unit: str) -> None:
        """Write how far it is, where that was some seconds ago."""
        if time.monotonic() >= self._next:
            self._write(step, done=done, total=total, unit=unit)

    def _write(self, step: Step, **far: int | str | None) -> None:
        if run := current_run.get():
            self._store.record_now(run, {"step": step.name, "since": self._since, **far})
            self._next = time.monotonic() + _EVERY_SECONDS


def in_words(now: dict[str, object]) -> str:
    """A step and how far it is, as `train_dpr@dpr, 120 of 400 steps`; empty where that is not known."""
    done, total, unit = now.get("done"), now.get("total"), now.get("unit")
    if not isinstance(done, int):
        return str(now.get("step", ""))
    return f"{now.get('step')}, {done:,} of {f'{total:,}' if isinstance(total, int) else '?'} {unit}"
