"""One Prefect API for all flow tests."""

import shutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def prefect_api(tmp_path_factory: pytest.TempPathFactory, migrated: Path) -> Iterator[None]:
    """Prefect's test server on a database of its own; import flows and tasks inside tests that use it, not before."""
    home = shutil.copytree(migrated, tmp_path_factory.mktemp("prefect") / "home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NOISYIR_HOME", str(home))
        patch.setenv("PREFECT_HOME", str(home / "prefect"))
        import_module("noisyir.flows")  # sets what prefect reads when it is imported
        from prefect.settings import (
            PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
            PREFECT_LOGGING_TO_API_ENABLED,
            temporary_settings,
        )
        from prefect.testing.utilities import prefect_test_harness

        quick = {PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None, PREFECT_LOGGING_TO_API_ENABLED: False}
        with prefect_test_harness(server_startup_timeout=120), temporary_settings(quick):
            yield
