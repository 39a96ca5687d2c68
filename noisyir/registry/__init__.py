"""MLflow: tracking, model cards, registered versions and promotion; no mlflow package is imported until it is used."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from noisyir.base.durations import seconds_of
from noisyir.base.errors import ConfigError, StoreError
from noisyir.engine.locks import WAIT
from noisyir.methods.plans.experiment import Experiment
from noisyir.registry.tracker import Tracker

if TYPE_CHECKING:
    from noisyir.registry.registry import RegisteredCopy


def open_tracker(*, experiment: Experiment, home: Path, enabled: bool = True, patience: float | None = None) -> Tracker:
    """MLflow's tracker if it is installed and enabled, else one that keeps nothing.

    `patience` is the time to wait for a server in seconds, by default $NOISYIR_WAIT, else none.
    """
    given = os.environ.get(WAIT)
    patience = patience if patience is not None else seconds_of(given) if given else 0.0
    if not enabled or find_spec("mlflow") is None:
        return Tracker()
    from noisyir.registry.mlflow_tracker import MlflowTracker

    return MlflowTracker(experiment, home, patience)


def registered_digests(home: Path) -> set[str]:
    """Digests of the artifacts behind the registry's models; none if nothing was ever tracked.

    Raises:
        StoreError: If the registry cannot be read.
    """
    tracked = "MLFLOW_TRACKING_URI" in os.environ or (home / "mlflow.db").exists()
    if not tracked or find_spec("mlflow") is None:
        return set()
    from noisyir.registry.registry import digests_of_versions

    with StoreError.wrapping("registry.registry_not_asked", ConfigError):
        return digests_of_versions(home)


def registered_copies(home: Path) -> "list[RegisteredCopy]":
    """MLflow's copies of models registered in the database in `home`."""
    if not (home / "mlflow.db").exists() or find_spec("mlflow") is None or "MLFLOW_TRACKING_URI" in os.environ:
        return []
    from noisyir.registry.registry import copies_of_versions

    return copies_of_versions(home)


def join_tracker(run_id: str | None, *, home: Path) -> Tracker:
    """A tracker of stages under another process's run; one that keeps nothing without a run."""
    if run_id is None or find_spec("mlflow") is None:
        return Tracker()
    from noisyir.registry.stage_runs import JoinedRun

    return JoinedRun(home, run_id)
