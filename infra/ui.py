"""MLflow's and Prefect's pages over the embedded databases of noisyir's home, on loopback, until Ctrl-C.

usage: python -m infra.ui        ports: PREFECT_PORT and MLFLOW_PORT in the environment
"""

import os
import signal
import sys
import time
from pathlib import Path

from infra import servers
from infra.supervision import Service, Supervisor


def main() -> int:
    """Start both, wait until they answer, print where they are, stop both on Ctrl-C or SIGTERM."""
    home = Path(os.environ.get("NOISYIR_HOME", ".noisyir")).absolute()
    for signum in (signal.SIGTERM, signal.SIGINT):  # a shell's background job ignores SIGINT unless told otherwise
        signal.signal(signum, _interrupt)
    supervisor = Supervisor(home / "ui")
    try:
        pages = pages_of(home)
        supervisor.begin(pages, servers.ROOT, restarts=False)
        supervisor.run(pages)
        for page in pages:
            print(f"{page.name:<9} {page.page}", flush=True)
        print("MLflow opens in its GenAI view: choose 'Model training' there.  Ctrl-C stops both.", flush=True)
        while len(supervisor.pids()) == len(pages):
            time.sleep(0.5)
        raise SystemExit(f"a server ended by itself; see {supervisor.logs}")
    except KeyboardInterrupt:
        return 0
    finally:
        supervisor.stop(group="servers")
        supervisor.end()


def pages_of(home: Path) -> list[Service]:
    """The two servers, over the databases that `noisyir run` writes."""
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


if __name__ == "__main__":
    sys.exit(main())
