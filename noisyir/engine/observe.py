"""Observers of a run: terminals, MLflow and Prefect follow one protocol."""

from collections.abc import Callable, Sequence
from threading import RLock
from typing import Any

from noisyir.engine.meta import Meta
from noisyir.engine.stage import Observer, Step


class _Forwarder(Observer):
    """Passes every event on by its name: one method says how."""

    def _pass_on(self, event: str, step: Step, *values: Any) -> None:
        raise NotImplementedError

    def started(self, step: Step) -> None:
        self._pass_on("started", step)

    def progress(self, step: Step, done: int, total: int | None, unit: str) -> None:
        self._pass_on("progress", step, done, total, unit)

    def metric(self, step: Step, name: str, value: float, at: int) -> None:
        self._pass_on("metric", step, name, value, at)

    def finished(self, step: Step, meta: Meta, cached: bool) -> None:
        self._pass_on("finished", step, meta, cached)

    def said(self, step: Step, text: str) -> None:
        self._pass_on("said", step, text)

    def failed(self, step: Step, error: BaseException) -> None:
        self._pass_on("failed", step, error)


class Relay(_Forwarder):
    """Passes a stage's events as (name, values) to an observer in another process, except its failure."""

    def __init__(self, tell: Callable[[tuple[str, tuple[Any, ...]]], None]) -> None:
        self._tell = tell

    def _pass_on(self, event: str, step: Step, *values: Any) -> None:
        if event != "failed":
            self._tell((event, values))


class ObserverGroup(_Forwarder):
    """Passes every event to several observers in order, to one at a time from whatever thread."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self.observers = observers
        self._one_at_a_time = RLock()

    def _pass_on(self, event: str, step: Step, *values: Any) -> None:
        with self._one_at_a_time:
            for observer in self.observers:
                getattr(observer, event)(step, *values)
