"""One machine's servers and workers, as `make up` starts them, asked over HTTP as any client would."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil

from infra.supervision import Supervisor
from tests.local import free_port

ROOT = Path(__file__).parents[2]
FINAL = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}


class Site:
    """Servers with a home and ports of their own."""

    def __init__(self, home: Path, *, auth: bool = False) -> None:
        self.home, self._auth = home, auth
        self.ports = {name: free_port() for name in ("PREFECT_PORT", "MLFLOW_PORT", "POSTGRES_PORT")}
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "MLFLOW"))}
        self.environment = inherited | {name: str(port) for name, port in self.ports.items()}
        self.environment |= {"NOISYIR_HOME": str(home), "NOISYIR_ZOMBIE_SECONDS": "90", "NOISYIR_WATCH": "0"}
        self.api = httpx.Client(base_url=f"http://127.0.0.1:{self.ports['PREFECT_PORT']}/api", timeout=30)

    def up(self) -> None:
        """Start what does not run."""
        self.infra("up", *(["--auth"] if self._auth else []))
        if self._auth:
            user, _, password = self.client_environment()["PREFECT_API_AUTH_STRING"].partition(":")
            self.api.auth = httpx.BasicAuth(user, password)

    def down(self) -> None:
        """Stop everything."""
        self.infra("down")

    def client_environment(self) -> dict[str, str]:
        """What `source env` gives a shell."""
        lines = (self.home / "servers" / "env").read_text().splitlines()
        return dict(line.removeprefix("export ").split("=", 1) for line in lines)

    def infra(self, *words: str, fails: bool = False) -> str:
        """What `python -m infra.up` prints, with its errors where it fails, as it must or must not."""
        done = subprocess.run(
            [sys.executable, "-m", "infra.up", *words],
            cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=1200,
        )  # fmt: skip
        assert bool(done.returncode) is fails, done.stdout + done.stderr
        return done.stdout + done.stderr if fails else done.stdout

    def pid(self, service: str) -> int:
        """The process of a server or worker."""
        return self.pids()[service]

    def pids(self) -> dict[str, int]:
        """The process of each server and worker, by its name."""
        return Supervisor(self.home / "servers").pids()

    def noisyir(self, *arguments: str) -> str:
        """What the command line prints, with the servers' addresses in its environment."""
        with self.typed(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as command:
            said, fault = command.communicate(timeout=600)
        assert command.returncode == 0, fault
        return said

    def typed(self, *arguments: str, **pipes: Any) -> "subprocess.Popen[str]":
        """The command line at work, with the servers' addresses in its environment."""
        words, environment = ["-m", "noisyir.front.cli", *arguments], self.environment | self.client_environment()
        return subprocess.Popen([sys.executable, *words], cwd=ROOT, env=environment, text=True, **pipes)

    # Prefect ------------------------------------------------------------------------------------------------

    def deployment(self, name: str) -> dict[str, Any]:
        """A deployment by FLOW/NAME."""
        found: dict[str, Any] = self.api.get(f"/deployments/name/{name}").raise_for_status().json()
        return found

    def start(self, name: str, **parameters: Any) -> str:
        """A flow run's id.  A server that is only just up again may answer 503 for a moment."""

        def created() -> str | None:
            path = f"/deployments/{self.deployment(name)['id']}/create_flow_run"
            answer = self.api.post(path, json={"parameters": parameters})
            return None if answer.status_code == 503 else str(answer.raise_for_status().json()["id"])

        return str(wait_until(created, f"a flow run of {name}", 30))

    def state(self, run: str) -> str:
        """The type of a flow run's state, such as COMPLETED; UNREACHABLE while the server does not answer."""
        try:
            return str(self.api.get(f"/flow_runs/{run}").raise_for_status().json()["state_type"])
        except httpx.HTTPError:
            return "UNREACHABLE"

    def message(self, run: str) -> str:
        """What a flow run's state says."""
        return str(self.api.get(f"/flow_runs/{run}").raise_for_status().json()["state"]["message"])

    def end(self, run: str, seconds: float = 900) -> str:
        """The type of a flow run's final state.  seconds: less only where they are what is tested."""
        return wait_until(lambda: (state := self.state(run)) in FINAL and state, f"the end of {run}", seconds)

    def flow_runs(self, **filters: Any) -> list[dict[str, Any]]:
        """Flow runs by Prefect's filters, oldest first."""
        body = {"sort": "EXPECTED_START_TIME_ASC", "limit": 200, **filters}
        found: list[dict[str, Any]] = self.api.post("/flow_runs/filter", json=body).raise_for_status().json()
        return found

    def limits(self) -> list[dict[str, Any]]:
        """Prefect's limits, with their slots that are taken."""
        found: list[dict[str, Any]] = self.api.post("/v2/concurrency_limits/filter", json={}).raise_for_status().json()
        return found

    def children(self, parent: str) -> list[dict[str, Any]]:
        """The stages that a flow run sent to the pools."""
        return self.flow_runs(flow_runs={"parent_flow_run_id": {"any_": [parent]}})

    def built(self, parent: str) -> set[str]:
        """The stages that a flow run or its children built, by the lines of its log."""
        runs = [parent, *(child["id"] for child in self.children(parent))]
        lines = [line for run in runs for line in self._said(run) if line.startswith("built ")]
        return {line.partition("step=")[2].split()[0].rstrip("]") for line in lines}

    def _said(self, run: str) -> list[str]:
        """The log of a run that has ended; its last lines come behind its state."""
        body = {"logs": {"flow_run_id": {"any_": [run]}}, "limit": 200, "sort": "TIMESTAMP_ASC"}

        def whole() -> list[str] | None:
            logs = self.api.post("/logs/filter", json=body).raise_for_status().json()
            ended = [log for log in logs if log["task_run_id"] is None and log["message"].startswith("Finished in")]
            return [log["message"] for log in logs] if ended else None

        return wait_until(whole, f"the end of the log of {run}", 60)

    def log(self, worker: str) -> str:
        """What a worker wrote."""
        return (self.home / "servers" / "logs" / f"{worker}.log").read_text(errors="replace")


def wait_until(found: Any, what: str, seconds: float = 90) -> Any:
    """The first true value of `found()`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := found():
            return value
        time.sleep(0.3)
    raise AssertionError(f"{what}: not within {seconds:.0f} s")


def process_of(flow_run: str) -> int | None:
    """The process that executes a flow run on this machine."""
    for process in psutil.process_iter():
        with suppress(psutil.AccessDenied, psutil.NoSuchProcess):
            if process.environ().get("PREFECT__FLOW_RUN_ID", "").replace("-", "") == flow_run.replace("-", ""):
                return process.pid
    return None


def kill(pid: int) -> None:
    """kill -9."""
    os.kill(pid, signal.SIGKILL)
