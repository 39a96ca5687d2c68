"""A pipeline run in MLflow: one parent run, and nested in it one run for every stage that executed.

Nothing is imported or created until a stage executes, so a cached run costs nothing.  Run ids are passed explicitly:
MLflow's active run is thread-local, and an engine may call stages in other threads.
"""

import json
import logging
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, wraps
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from noisyir.builds import Meta, Ref
from noisyir.config import Experiment
from noisyir.errors import ConfigError
from noisyir.provenance import git_commit
from noisyir.store import Store
from noisyir.tracking import Tracker
from noisyir.tracking.backend import Backend, connect, exclusive, without_password

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import DatasetInput, Metric

    from noisyir.plan import Step
    from noisyir.tracking.card import Card
    from noisyir.tracking.evaluation import Evaluation
    from noisyir.tracking.kinds import Kind

log = logging.getLogger("noisyir")

_POINTS_A_REQUEST = 1000  # MLflow's limit
_SEND_SECONDS = 5.0
_DIGEST_CHARS = 36  # of a dataset, at most: MLflow's limit

P = ParamSpec("P")
T = TypeVar("T")


def _unless_lost(
    method: Callable[Concatenate["MlflowTracker", P], T],
) -> Callable[Concatenate["MlflowTracker", P], T | None]:
    """Tracking that fails after hours of training must not take the training with it: warn once, then stay silent."""

    @wraps(method)
    def guarded(self: "MlflowTracker", /, *args: P.args, **kwargs: P.kwargs) -> T | None:
        if self.lost:
            return None
        from mlflow.exceptions import MlflowException

        with self._one_at_a_time:
            try:
                return method(self, *args, **kwargs)
            except (MlflowException, OSError, ConfigError) as error:
                if isinstance(error, ConfigError) and self._within is None:
                    raise  # the run has not begun
                self.lost = True
                log.warning("MLflow is lost, the run goes on untracked: %s", without_password(_one_line(error)))
                return None

    return guarded


class MlflowTracker(Tracker):
    """Tracks one pipeline run.

    ConfigError when MLflow cannot be opened; when it is lost later, the run goes on without it.  A tracker within
    another process's run is never the first to open it.
    """

    def __init__(self, experiment: Experiment, home: Path, within: str | None = None) -> None:
        super().__init__()
        self.experiment, self.home = experiment, home
        self._within = within
        self.lost = False
        self._one_at_a_time = RLock()  # an engine may ask for the run's id while a stage tells
        self._runs: dict[str, str] = {}  # of the stages at work, by step name
        self._points: list[tuple[str, Metric]] = []  # not yet sent, each with its run
        self._sent = time.monotonic()

    # Following the stages -----------------------------------------------------------------------------------

    @_unless_lost
    def run_id(self, begin: bool = True) -> str | None:
        """The parent run's id; None where it was not made and is not to be."""
        return self._parent if begin or "_parent" in vars(self) else None

    @_unless_lost
    def started(self, step: "Step") -> None:
        """Open a nested run with the stage's settings."""
        tags = {"stage": step.stage.name, "key": step.key, "mlflow.parentRunId": self._parent}
        run = self._client.create_run(self._experiment_id, run_name=step.name, tags=self._common_tags | tags)
        self._runs[step.name] = run.info.run_id
        settings = step.params.model_dump(mode="json") | ({} if step.seed is None else {"seed": step.seed})
        self._log_params(run.info.run_id, settings)

    @_unless_lost
    def metric(self, step: "Step", name: str, value: float, at: int) -> None:
        """Keep a point of a curve, and send them off now and then."""
        if run_id := self._runs.get(step.name):
            self._add(run_id, name, value, at)
            if len(self._points) >= _POINTS_A_REQUEST or time.monotonic() - self._sent > _SEND_SECONDS:
                self._send()

    def finished(self, step: "Step", meta: Meta, cached: bool) -> None:
        """Close the nested run with the stage's inputs and outputs by digest, its rows and seconds."""
        if not cached and step.name in self._runs:
            self._close(self._runs.pop(step.name), meta)

    @_unless_lost
    def _close(self, run_id: str, meta: Meta) -> None:
        self._add(run_id, "seconds", meta.seconds)
        tags = {"build": meta.build}
        for name, contents in meta.artifacts.items():
            tags[f"digest.{name}"] = contents.digest
            if contents.rows is not None:
                self._add(run_id, f"rows.{name}", contents.rows)
        self._send()
        self._set_tags(run_id, tags)
        self._client.log_inputs(run_id, datasets=_datasets(meta))
        self._client.set_terminated(run_id, "FINISHED")

    def failed(self, step: "Step", error: BaseException) -> None:
        """Close the nested run as failed, with the error's text."""
        if run_id := self._runs.pop(step.name, None):
            self._fail(run_id, error)

    # Ending the run -----------------------------------------------------------------------------------------

    def abort(self, error: BaseException) -> None:
        """Close the parent run as failed; nothing when no stage executed."""
        if "_parent" in vars(self):
            self._fail(self._parent, error)

    @_unless_lost
    def _fail(self, run_id: str, error: BaseException) -> None:
        self._send()
        self._set_tags(run_id, {"error": _one_line(error)})
        self._client.set_terminated(run_id, "FAILED" if isinstance(error, Exception) else "KILLED")

    def finish(self, store: Store, results: Mapping[str, Ref]) -> dict[str, str]:
        """Keep measures and report in the parent run, register the models; what it returns names them."""
        return self._conclude(store, results) or {}

    @_unless_lost
    def _conclude(self, store: Store, results: Mapping[str, Ref]) -> dict[str, str]:
        from noisyir.tracking.card import metric_name, run_note, write_card
        from noisyir.tracking.evaluation import read_evaluation
        from noisyir.tracking.kinds import KINDS
        from noisyir.tracking.registry import champion_of

        parent, evaluation = self._parent, read_evaluation(store, results.get("comparison"))
        cards = {
            kind: write_card(
                self.experiment, store, results, evaluation, kind, champion_of(self._backend, kind.name)
            )
            for kind in KINDS
            if kind.kept in results
        }  # fmt: skip
        for row in evaluation.rows:
            self._add(parent, f"{row['system']}.{metric_name(row)}", row["mean"])
        self._send()
        first = next(iter(cards.values()), None)
        self._set_tags(parent, {"mlflow.note.content": first.text if first else run_note(self.experiment, evaluation)})
        self._keep_files(store, results, evaluation)
        facts = {"mlflow_run": parent, **self._register(store, results, cards)}
        if page := self._backend.page(self._experiment_id, parent):
            facts["mlflow_page"] = page
        self._client.set_terminated(parent, "FINISHED")
        return facts

    def _keep_files(self, store: Store, results: Mapping[str, Ref], evaluation: "Evaluation") -> None:
        """The report, and every system's values query by query, so that models can be compared without the store."""
        import pyarrow.parquet as pq

        from noisyir.tracking.evaluation import PER_QUERY, per_query

        if report := results.get("report"):
            self._client.log_artifacts(self._parent, str(store.folder(report)), "report")
        if evaluation.scored:
            folder, _, name = PER_QUERY.rpartition("/")
            with tempfile.TemporaryDirectory() as temporary:
                path = Path(temporary) / name
                pq.write_table(per_query(store, evaluation), path)
                self._client.log_artifact(self._parent, str(path), folder)

    def _register(self, store: Store, results: Mapping[str, Ref], cards: "Mapping[Kind, Card]") -> dict[str, str]:
        from noisyir.tracking.registry import Origin, register

        made, origin = [], Origin(self._parent, self._experiment_id, self._common_tags)
        with exclusive(self.home):
            for kind, card in cards.items():
                model = results[kind.kept]
                number = register(self._backend, kind, model, store.folder(model), card, origin)
                made.append(f"{kind.name} v{number}")
        return {"registered": ", ".join(made)} if made else {}

    # MLflow -------------------------------------------------------------------------------------------------

    @cached_property
    def _backend(self) -> Backend:
        return connect(self.home)

    @property
    def _client(self) -> "MlflowClient":
        return self._backend.client

    @cached_property
    def _experiment_id(self) -> str:
        return self._backend.experiment_id(f"noisyir-{self.experiment.name}")

    @cached_property
    def _parent(self) -> str:
        """The parent run's id; the run is made when it is first asked for, unless it is another process's."""
        if self._within is not None:
            return self._within
        run = self._client.create_run(self._experiment_id, run_name=self.experiment.name, tags=self._common_tags)
        self._log_params(run.info.run_id, self.experiment.model_dump(mode="json"))
        return str(run.info.run_id)

    @property
    def _common_tags(self) -> dict[str, str]:
        commit = git_commit()
        return self.tags | ({"git_commit": commit} if commit else {})

    def _set_tags(self, run_id: str, tags: Mapping[str, str]) -> None:
        from mlflow.entities import RunTag

        self._client.log_batch(run_id, tags=[RunTag(name, value) for name, value in tags.items()])

    def _log_params(self, run_id: str, settings: Mapping[str, Any]) -> None:
        from mlflow.entities import Param

        self._client.log_batch(run_id, params=[Param(name, str(value)) for name, value in _flat(settings)])

    def _add(self, run_id: str, name: str, value: float, at: int = 0) -> None:
        from mlflow.entities import Metric

        key = name.replace("@", "_")  # MLflow allows letters, digits, spaces and _-./: in a name
        self._points.append((run_id, Metric(key, value, int(time.time() * 1000), at)))

    def _send(self) -> None:
        self._sent, points, self._points = time.monotonic(), self._points, []
        for run_id in dict.fromkeys(run_id for run_id, _ in points):
            metrics = [metric for owner, metric in points if owner == run_id]
            for first in range(0, len(metrics), _POINTS_A_REQUEST):
                self._client.log_batch(run_id, metrics=metrics[first : first + _POINTS_A_REQUEST])


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _datasets(meta: Meta) -> "list[DatasetInput]":
    """A stage's inputs as MLflow shows them: name, digest, place in the store."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    raw = [(name, value) for name, value in meta.inputs.items() if isinstance(value, str)]
    found = [Dataset(name, digest[:_DIGEST_CHARS], "raw", json.dumps({"sha256": digest})) for name, digest in raw] + [
        Dataset(name, ref.digest[:_DIGEST_CHARS], "noisyir", json.dumps({"path": ref.path, "sha256": ref.digest}))
        for name, ref in meta.input_refs()
    ]
    return [DatasetInput(dataset, [InputTag("mlflow.data.context", meta.stage)]) for dataset in found]


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
