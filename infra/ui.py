"""MLflow's and Prefect's pages over the embedded databases of noisyir's home, on loopback, until Ctrl-C.

usage: python infra/ui.py [--mlflow-port 5000] [--prefect-port 4200]
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HOST = "127.0.0.1"
START_SECONDS = 120
STOP_SECONDS = 15
QUIET = {
    "DO_NOT_TRACK": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
}


@dataclass(frozen=True)
class Server:
    """A server to run: its command, what its environment adds, and the path that answers once it is up."""

    name: str
    port: int
    command: Sequence[str]
    environment: Mapping[str, str]
    health: str

    @property
    def url(self) -> str:
        """The page for the browser."""
        return f"http://{HOST}:{self.port}"


def mlflow_server(home: Path, port: int) -> Server:
    """MLflow without its job runner: two processes instead of three, up in a third of the time."""
    return Server(
        "MLflow",
        port,
        [
            *(sys.executable, "-m", "mlflow", "server", "--host", HOST, "--port", str(port), "--workers", "1"),
            *("--backend-store-uri", f"sqlite:///{home / 'mlflow.db'}"),
            *("--artifacts-destination", (home / "mlflow-artifacts").as_uri()),
        ],
        {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_LOGGING_LEVEL": "WARNING"},
        "/health",
    )


def prefect_server(home: Path, port: int) -> Server:
    """Prefect over the database that `noisyir run --engine prefect` writes."""
    return Server(
        "Prefect",
        port,
        [sys.executable, "-m", "prefect", "server", "start", "--host", HOST, "--port", str(port)],
        {
            "PREFECT_HOME": os.environ.get("PREFECT_HOME", str(home / "prefect")),
            "PREFECT_SERVER_UI_API_URL": f"http://{HOST}:{port}/api",  # else the page asks port 4200
        },
        "/api/health",
    )


def main() -> int:
    """Start both, wait until they answer, print where they are, stop both on Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mlflow-port", type=int, default=5000, metavar="N")
    parser.add_argument("--prefect-port", type=int, default=4200, metavar="N")
    args = parser.parse_args()
    home = Path(os.environ.get("NOISYIR_HOME", ".noisyir")).absolute()
    (home / "prefect").mkdir(parents=True, exist_ok=True)
    servers = [mlflow_server(home, args.mlflow_port), prefect_server(home, args.prefect_port)]
    for signum in (signal.SIGTERM, signal.SIGINT):  # a shell's background job ignores SIGINT unless told otherwise
        signal.signal(signum, _interrupt)
    running: list[subprocess.Popen[bytes]] = []
    try:
        _refuse_taken_ports(servers)
        running.extend(_start(server, home) for server in servers)
        for server, process in zip(servers, running, strict=True):
            _wait_until_healthy(server, process, home)
            print(f"{server.name:<8} {server.url}", flush=True)
        print("MLflow opens in its GenAI view: choose 'Model training' there.  Ctrl-C stops both.", flush=True)
        while all(process.poll() is None for process in running):
            time.sleep(0.5)
        raise SystemExit(f"a server ended by itself; see {home / 'ui.log'}")
    except KeyboardInterrupt:
        return 0
    finally:
        _stop(running)


def _interrupt(signum: int, frame: object) -> None:
    raise KeyboardInterrupt


def _refuse_taken_ports(servers: Sequence[Server]) -> None:
    for server in servers:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, server.port))
            except OSError as error:
                option = f"--{server.name.lower()}-port"
                raise SystemExit(
                    f"port {server.port} for {server.name} is taken: choose another, {option} N"
                ) from error


def _start(server: Server, home: Path) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, **QUIET, **server.environment}
    with (home / "ui.log").open("ab") as log:
        # A session of its own: its workers are stopped with it, and Ctrl-C reaches this program alone.
        return subprocess.Popen(server.command, env=environment, stdout=log, stderr=log, start_new_session=True)


def _wait_until_healthy(server: Server, process: "subprocess.Popen[bytes]", home: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(server.url + server.health, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.3)
    raise SystemExit(f"{server.name} did not start; see {home / 'ui.log'}")


def _stop(running: "Sequence[subprocess.Popen[bytes]]") -> None:
    for process in running:
        _signal_group(process, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
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
