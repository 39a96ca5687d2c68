"""What a run tells while it works: one protocol, kept by terminals, MLflow and Prefect alike."""

import logging
from collections.abc import Callable, Sequence
from threading import RLock
from typing import Any

from noisyir.engine.builds import Meta
from noisyir.engine.stage import Observer, Step

log = logging.getLogger("noisyir")


class Silent:
    """Observes nothing: the default, and a base for observers that care about few events."""

    def started(self, step: Step) -> None:
        """Do nothing."""

    def progress(self, step: Step, done: int, total: int | None, unit: str) -> None:
        """Do nothing."""

    def metric(self, step: Step, name: str, value: float, at: int) -> None:
        """Do nothing."""

    def finished(self, step: Step, meta: Meta, cached: bool) -> None:
        """Do nothing."""

    def failed(self, step: Step, error: BaseException) -> None:
        """Do nothing."""


class Relay(Silent):
    """Passes a stage's events on as (name, values), for an observer in another process; its failure goes by itself."""

    def __init__(self, tell: Callable[[tuple[str, tuple[Any, ...]]], None]) -> None:
        self._tell = tell

    def started(self, step: Step) -> None:
        """Pass it on."""
        self._tell(("started", ()))

    def progress(self, step: Step, done: int, total: int | None, unit: str) -> None:
        """Pass it on."""
        self._tell(("progress", (done, total, unit)))

    def metric(self, step: Step, name: str, value: float, at: int) -> None:
        """Pass it on."""
        self._tell(("metric", (name, value, at)))

    def finished(self, step: Step, meta: Meta, cached: bool) -> None:
        """Pass it on."""
        self._tell(("finished", (meta, cached)))


class Several:
    """Passes every event to each of several observers, in order; to one at a time, whatever thread it comes from."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self.observers = observers
        self._one_at_a_time = RLock()

    def started(self, step: Step) -> None:
        """Pass it on."""
        with self._one_at_a_time:
            for observer in self.observers:
                observer.started(step)

    def progress(self, step: Step, done: int, total: int | None, unit: str) -> None:
        """Pass it on."""
        with self._one_at_a_time:
            for observer in self.observers:
                observer.progress(step, done, total, unit)

    def metric(self, step: Step, name: str, value: float, at: int) -> None:
        """Pass it on."""
        with self._one_at_a_time:
            for observer in self.observers:
                observer.metric(step, name, value, at)

    def finished(self, step: Step, meta: Meta, cached: bool) -> None:
        """Pass it on."""
        with self._one_at_a_time:
            for observer in self.observers:
                observer.finished(step, meta, cached)

    def failed(self, step: Step, error: BaseException) -> None:
        """Pass it on."""
        with self._one_at_a_time:
            for observer in self.observers:
                observer.failed(step, error)
