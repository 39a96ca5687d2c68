"""Stages in MLflow: one run for every stage that executed, nested in the pipeline's.

Run ids are passed explicitly: MLflow's active run is thread-local, and an engine may call stages in other threads.
"""

import json
import logging
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cache, cached_property, wraps
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from noisyir.base.errors import ConfigError
from noisyir.base.settings import flat
from noisyir.engine.meta import Meta
from noisyir.engine.outside_errors import is_from_outside, one_line
from noisyir.engine.provenance import git_commit
from noisyir.registry.backend import Backend, connect
from noisyir.registry.tracker import Tracker

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import DatasetInput, Metric
    from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

    from noisyir.engine.stage import Pool, Step


log = logging.getLogger("noisyir")

_POINTS_A_REQUEST = 1000  # MLflow's limit
_SEND_SECONDS = 5.0
_DIGEST_CHARS = 36  # MLflow's limit
SWITCH = "MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING"  # MLflow's own; unset: on for stages that want a GPU, if there is one

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound="StageRuns")


def unless_lost(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T | None]:
    """Warn once if tracking fails, then stay silent, because hours of training must not be lost with it."""

    @wraps(method)
    def guarded(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T | None:
        if self.lost:
            return None
        with self._one_at_a_time:
            try:
                return method(self, *args, **kwargs)
            except Exception as error:  # MLflow, its database and its server raise anything
                if isinstance(error, ConfigError) and self.opens:
                    raise  # the run has not begun
                if not is_from_outside(error) and not isinstance(error, ConfigError):
                    raise
                self.lost = True
                log.warning("MLflow is lost, the run goes on untracked: %s", one_line(error))
                return None

    return guarded


class StageRuns(Tracker, ABC):
    """Tracks stages under a parent run; if MLflow is lost, the stages go on without it.

    `opens` says whether this tracker opens MLflow first, and raises ConfigError if that fails.
    """

    opens = False

    def __init__(self, home: Path) -> None:
        super().__init__()
        self.home = home
        self._one_at_a_time = RLock()  # an engine may read the run's id while a stage reports
        self._runs: dict[str, str] = {}  # of the stages at work, by step name
        self._monitors: dict[str, SystemMetricsMonitor] = {}  # by run
        self._points: list[tuple[str, Metric]] = []  # not yet sent, each with its run
        self._sent = time.monotonic()

    @property
    @abstractmethod
    def parent(self) -> str:
        """The parent run's id."""

    @property
    @abstractmethod
    def experiment_id(self) -> str:
        """The id of the MLflow experiment that the parent run belongs to."""

    @unless_lost
    def started(self, step: "Step") -> None:
        """Open a nested run with the stage's settings."""
        tags = {"stage": step.stage.name, "key": step.key, "mlflow.parentRunId": self.parent}
        run = self._client.create_run(self.experiment_id, run_name=step.name, tags=self._common_tags | tags)
        self._runs[step.name] = run.info.run_id
        settings = step.params.model_dump(mode="json") | ({} if step.seed is None else {"seed": step.seed})
        self._log_params(run.info.run_id, settings)
        if monitor := begin_monitor(run.info.run_id, step.stage.pool, self._client.tracking_uri):
            self._monitors[run.info.run_id] = monitor

    @unless_lost
    def metric(self, step: "Step", name: str, value: float, at: int) -> None:
        """Keep a point of a curve, and send points now and then."""
        if run_id := self._runs.get(step.name):
            self._add(run_id, name, value, at)
            if len(self._points) >= _POINTS_A_REQUEST or time.monotonic() - self._sent > _SEND_SECONDS:
                self._send()

    def finished(self, step: "Step", meta: Meta, cached: bool) -> None:
        """Close the nested run with the stage's inputs and outputs by digest, its rows and seconds."""
        if not cached and step.name in self._runs:
            self._close(self._runs.pop(step.name), meta)

    @unless_lost
    def _close(self, run_id: str, meta: Meta) -> None:
        self._end_monitor(run_id)
        self._add(run_id, "seconds", meta.seconds)
        tags = {"build": meta.build}
        for name, contents in meta.artifacts.items():
            tags[f"digest.{name}"] = contents.digest
            if contents.rows is not None:
                self._add(run_id, f"rows.{name}", contents.rows)
        self._send(run_id, tags)
        inputs = [dataset(name, digest, meta.stage, "raw") for name, digest in meta.raw.items()]
        inputs += [dataset(name, ref.digest, meta.stage, path=ref.path) for name, ref in meta.input_refs()]
        self._client.log_inputs(run_id, datasets=inputs)
        self._client.set_terminated(run_id, "FINISHED")

    def failed(self, step: "Step", error: BaseException) -> None:
        """Close the nested run as failed, with the error's text."""
        if run_id := self._runs.pop(step.name, None):
            self._fail(run_id, error)

    @unless_lost
    def _fail(self, run_id: str, error: BaseException) -> None:
        self._end_monitor(run_id)
        self._send(run_id, {"error": one_line(error)})
        self._client.set_terminated(run_id, "FAILED" if isinstance(error, Exception) else "KILLED")

    def _end_monitor(self, run_id: str) -> None:
        if monitor := self._monitors.pop(run_id, None):
            monitor.finish()  # type: ignore[no-untyped-call]

    # MLflow -------------------------------------------------------------------------------------------------

    @cached_property
    def _backend(self) -> Backend:
        return connect(self.home)

    @property
    def _client(self) -> "MlflowClient":
        return self._backend.client

    @property
    def _common_tags(self) -> dict[str, str]:
        return self.tags | ({"git_commit": commit} if (commit := git_commit()) else {})

    def _log_params(self, run_id: str, settings: Mapping[str, Any]) -> None:
        from mlflow.entities import Param

        params = [Param(name, str(value)) for name, value in flat(settings).items() if value != {}]
        self._client.log_batch(run_id, params=params)

    def _add(self, run_id: str, name: str, value: float, at: int = 0) -> None:
        from mlflow.entities import Metric

        key = name.replace("@", "_")  # MLflow allows letters, digits, spaces and _-./: in a name
        self._points.append((run_id, Metric(key, value, int(time.time() * 1000), at)))

    def _send(self, tagged: str | None = None, tags: Mapping[str, str] | None = None) -> None:
        """Send the points that were kept, and with them the tags of a run: a request is a transaction of a database."""
        from mlflow.entities import RunTag

        self._sent, points, self._points = time.monotonic(), self._points, []
        of_run: dict[str, list[Metric]] = {} if tagged is None else {tagged: []}
        for run_id, metric in points:
            of_run.setdefault(run_id, []).append(metric)
        for run_id, metrics in of_run.items():
            given = [RunTag(name, value) for name, value in (tags or {}).items()] if run_id == tagged else []
            for first in range(0, len(metrics) or 1, _POINTS_A_REQUEST):
                some = metrics[first : first + _POINTS_A_REQUEST]
                self._client.log_batch(run_id, metrics=some, tags=given if first == 0 else [])


class JoinedRun(StageRuns):
    """Tracks this process's stages under another process's run."""

    def __init__(self, home: Path, run_id: str) -> None:
        super().__init__(home)
        self._run_id = run_id

    def run_id(self, begin: bool = True) -> str:
        """The other process's run."""
        return self._run_id

    @property
    def parent(self) -> str:
        """That run."""
        return self._run_id

    @cached_property
    def experiment_id(self) -> str:
        """The experiment of that run."""
        return str(self._client.get_run(self._run_id).info.experiment_id)


def dataset(name: str, digest: str, context: str, source: str = "noisyir", **place: str) -> "DatasetInput":
    """A data set of MLflow, as an input of a run."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    found = Dataset(name, digest[:_DIGEST_CHARS], source, json.dumps({**place, "sha256": digest}))
    return DatasetInput(found, [InputTag("mlflow.data.context", context)])


def begin_monitor(run_id: str, pool: "Pool", tracking_uri: str) -> "SystemMetricsMonitor | None":
    """A started monitor of MLflow, which samples every ten seconds ($MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL).

    None if it is switched off, or the machine has no GPU.
    """
    wanted = os.environ.get(SWITCH, "").lower()
    if wanted in ("false", "0") or (not wanted and not (pool == "gpu" and _has_gpu())):
        return None
    from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

    monitor = SystemMetricsMonitor(run_id, tracking_uri=tracking_uri)  # type: ignore[no-untyped-call]
    monitor.start()  # type: ignore[no-untyped-call]
    return monitor


@cache
def _has_gpu() -> bool:
    """Whether NVIDIA's library finds a GPU; unlike torch, it makes no CUDA context."""
    try:
        import pynvml

        pynvml.nvmlInit()
        return bool(pynvml.nvmlDeviceGetCount())
    except Exception:
        return False
