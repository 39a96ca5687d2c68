"""Tracking and the model registry behind one small class; no mlflow package is imported here until it is needed."""

from importlib.util import find_spec
from pathlib import Path

from noisyir.pipelines.experiment import Experiment
from noisyir.tracking.tracker import Tracker


def open_tracker(*, experiment: Experiment, home: Path, enabled: bool = True) -> Tracker:
    """MLflow where it is installed and wanted, else a tracker that keeps nothing."""
    if not enabled or find_spec("mlflow") is None:
        return Tracker()
    from noisyir.tracking.mlflow_tracker import MlflowTracker

    return MlflowTracker(experiment, home)


def join_tracker(run_id: str | None, *, home: Path) -> Tracker:
    """A tracker for stages that go under a run of another process's tracker; None: that one keeps nothing."""
    if run_id is None or find_spec("mlflow") is None:
        return Tracker()
    from noisyir.tracking.stage_runs import JoinedRun

    return JoinedRun(home, run_id)
