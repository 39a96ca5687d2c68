"""A process worker of Prefect's and a deployment for it, against the server that the tests use."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]


def deploy(pool: str) -> None:
    """Make the pool and the deployment dispatched_step/POOL."""
    from prefect import get_client
    from prefect.client.schemas.actions import WorkPoolCreate
    from prefect.exceptions import ObjectAlreadyExists

    from noisyir.flows.dispatched_step import dispatched_step

    with get_client(sync_client=True) as client:
        try:
            client.create_work_pool(WorkPoolCreate(name=pool, type="process"))
        except ObjectAlreadyExists:
            pass
        pull = [{"prefect.deployments.steps.set_working_directory": {"directory": str(ROOT)}}]
        client.create_deployment(
            client.create_flow(dispatched_step),
            pool,
            work_pool_name=pool,
            entrypoint="noisyir.flows.dispatched_step.dispatched_step",
            pull_steps=pull,
        )


@contextmanager
def worker(pool: str, log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A worker for the pool, until the block ends."""
    from prefect.settings import PREFECT_API_URL

    environment = os.environ | {"PREFECT_API_URL": PREFECT_API_URL.value(), "PREFECT_WORKER_QUERY_SECONDS": "1"}
    command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", pool, "--type", "process"]
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=out, start_new_session=True)
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=60)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
