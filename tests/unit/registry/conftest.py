"""A real pipeline on a tiny collection, tracked by a real MLflow on SQLite."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from noisyir.app.runs import Execution, Outcome, run_experiment
from noisyir.engine.plan import Choice
from noisyir.engine.runtime import Runtime
from noisyir.engine.store import Store
from noisyir.methods import experiments
from noisyir.methods.plans.experiment import Experiment
from noisyir.registry import open_tracker
from noisyir.registry.backend import Backend, connect
from tests.tiny import SETTINGS


@pytest.fixture(scope="session")
def tracked(migrated: Path, collection: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """A home in which the tiny experiment ran once, tracked, and what came of it."""
    home = tmp_path_factory.mktemp("home")
    shutil.copytree(migrated, home, dirs_exist_ok=True)
    return home, run_tiny(home, collection)


@pytest.fixture
def home(migrated: Path, tmp_path: Path) -> Path:
    """An empty home with a database that is ready."""
    return shutil.copytree(migrated, tmp_path / "home")


@pytest.fixture
def backend(home: Path) -> Backend:
    return connect(home)


@pytest.fixture(scope="session")
def tiny(collection: Path) -> Callable[..., Experiment]:
    return lambda *overrides: tiny_experiment(collection, *overrides)


def tiny_experiment(collection: Path, *overrides: str) -> Experiment:
    return experiments.load(
        "demo", [*SETTINGS, f"data.path={collection}", f"model.weights={collection / 'words'}", *overrides]
    )


def run_tiny(
    home: Path, collection: Path, *overrides: str, refresh: tuple[str, ...] = (), only: str | None = None
) -> Outcome:
    exp = tiny_experiment(collection, *overrides)
    return run_experiment(
        exp,
        Choice(only=only, refresh=refresh),
        Execution(
            store=Store(home / "store", home=home),
            runtime=Runtime(device="cpu"),
            tracker=open_tracker(experiment=exp, home=home),
        ),
    )
