"""MLflow's and Prefect's pages over the embedded databases of noisyir's home, on loopback, until Ctrl-C.

usage: python -m infra.ui        ports: PREFECT_PORT and MLFLOW_PORT in the environment
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from infra import processes, servers
from infra.processes import Service


def main() -> int:
    """Start both, wait until they answer, print where they are, stop both on Ctrl-C or SIGTERM."""
    home = Path(os.environ.get("NOISYIR_HOME", ".noisyir")).absolute()
    for signum in (signal.SIGTERM, signal.SIGINT):  # a shell's background job ignores SIGINT unless told otherwise
        signal.signal(signum, _interrupt)
    running: list[subprocess.Popen[bytes]] = []
    try:
        pages = _pages(home)
        for page in pages:
            processes.refuse_taken_port(page)
        running.extend(processes.start(page, home / "logs") for page in pages)
        for page, process in zip(pages, running, strict=True):
            log = home / "logs" / f"{page.name}.log"
            processes.wait_until_healthy(page, partial(_alive, process), 0.0, log)
            print(f"{page.name:<9} {page.page}", flush=True)
        print("MLflow opens in its GenAI view: choose 'Model training' there.  Ctrl-C stops both.", flush=True)
        while all(_alive(process) for process in running):
            time.sleep(0.5)
        raise SystemExit(f"a server ended by itself; see {home / 'logs'}")
    except KeyboardInterrupt:
        return 0
    finally:
        _stop(running)


def _pages(home: Path) -> list[Service]:
    prefect_home = Path(os.environ.get("PREFECT_HOME", home / "prefect"))
    prefect_home.mkdir(parents=True, exist_ok=True)
    host = servers.LOOPBACK[0]
    return [
        servers.mlflow_server(
            port=servers.port("MLFLOW_PORT", 5000),
            database=f"sqlite:///{home / 'mlflow.db'}",
            artifacts=(home / "mlflow-artifacts").as_uri(),
            host=host,
            reach=host,
        ),
        servers.prefect_server(port=servers.port("PREFECT_PORT", 4200), home=prefect_home, host=host, reach=host),
    ]


def _interrupt(signum: int, frame: object) -> None:
    raise KeyboardInterrupt


def _alive(process: "subprocess.Popen[bytes]") -> bool:
    return process.poll() is None


def _stop(running: "Sequence[subprocess.Popen[bytes]]") -> None:
    for process in running:
        _signal_group(process, signal.SIGTERM)
    deadline = time.monotonic() + processes.STOP_SECONDS
    for process in running:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            pass
        _signal_group(process, signal.SIGKILL)  # workers that outlived their parent, too
        process.wait()


def _signal_group(process: "subprocess.Popen[bytes]", signum: signal.Signals) -> None:
    try:
        os.killpg(process.pid, signum)
    except ProcessLookupError:
        pass


if __name__ == "__main__":
    sys.exit(main())
