"""Prefect's worker for processes, whose flow runs are forks of `infra.warm` where that runs.

usage: python -m infra.worker start --pool cpu ...      as `prefect worker`

Without NOISYIR_WARM, or where nobody listens there, each flow run is a fresh process, as with `prefect worker start`.
"""

import sys
from pathlib import Path
from typing import Any

import noisyir.tasks  # noqa: F401 - switches telemetry off before prefect is imported

# isort: split
from prefect.cli import app
from prefect.workers.process import ProcessJobConfiguration, ProcessWorker

CLIENT = Path(__file__).with_name("warm_client.py")


class WarmConfiguration(ProcessJobConfiguration):
    """Of a flow run: its process is a client of `infra.warm`, unless its pool or deployment names a command."""

    def prepare_for_flow_run(self, *args: Any, **kwargs: Any) -> None:
        """Name the command before Prefect would."""
        self.command = self.command or f"{sys.executable} -I -S {CLIENT}"
        super().prepare_for_flow_run(*args, **kwargs)


if __name__ == "__main__":
    ProcessWorker.job_configuration = WarmConfiguration
    sys.argv = ["prefect", "worker", *sys.argv[1:]]
    app()
