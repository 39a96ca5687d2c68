"""One Prefect API for all flow tests."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import mkdtemp

import pytest

AGAIN_AFTER_SECONDS = 0.1
# What the server does by itself and no test needs: a third of what it takes while it is idle, and of its start.
UNNEEDED = (
    "PREFECT_API_BLOCKS_REGISTER_ON_START",
    *(f"PREFECT_SERVER_SERVICES_{name}_ENABLED" for name in (
        "CANCELLATION_CLEANUP", "CLEANUP_RECONCILER", "LATE_RUNS", "PAUSE_EXPIRATIONS", "REPOSSESSOR",
    )),
)  # fmt: skip


@pytest.fixture(scope="session")
def prefect_database(ready: Callable[..., Path]) -> Path:
    """A database of Prefect's that is ready; tests only copy it."""
    return ready("prefect", _migrate)


@pytest.fixture(scope="session")
def prefect_api(tmp_path_factory: pytest.TempPathFactory, migrated: Path, prefect_database: Path) -> Iterator[None]:
    """Prefect's test server on a database of its own; import flows and tasks inside tests that use it, not before."""
    home = shutil.copytree(migrated, tmp_path_factory.mktemp("prefect") / "home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NOISYIR_HOME", str(home))
        patch.setenv("PREFECT_HOME", str(home / "prefect"))
        for name in UNNEEDED:
            patch.setenv(name, "false")
        import_module("noisyir.flows")  # sets what prefect reads when it is imported
        from prefect.settings import (
            PREFECT_CLIENT_MAX_RETRIES,
            PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
            PREFECT_LOGGING_TO_API_ENABLED,
            temporary_settings,
        )
        from prefect.testing.utilities import prefect_test_harness

        # Writers of one SQLite file refuse each other with 503; Prefect's clients would wait 2, 4, 8, .. seconds.
        patch.setattr("prefect.client.base.clamped_poisson_interval", lambda *_: AGAIN_AFTER_SECONDS)
        quick = {
            PREFECT_CLIENT_MAX_RETRIES: 600,
            PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None,
            PREFECT_LOGGING_TO_API_ENABLED: False,
        }
        patch.setattr("prefect.testing.utilities.mkdtemp", partial(_folder_with, prefect_database))
        with prefect_test_harness(server_startup_timeout=120), temporary_settings(quick):
            yield


def _migrate(path: Path) -> None:
    environment = os.environ | {"PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{path}"}
    command = [sys.executable, "-m", "prefect", "server", "database", "upgrade", "--yes"]
    subprocess.run(command, env=environment, check=True, capture_output=True)


def _folder_with(database: Path) -> str:
    """Where the test server finds a database that is migrated; it removes the folder at the end."""
    folder = mkdtemp()
    shutil.copy(database, Path(folder) / "prefect-test.db")
    return folder
