"""`make up` and `make down`: Postgres, Prefect, MLflow and the workers of one machine, without containers.

usage: python -m infra.up up [--auth]
       python -m infra.up down
"""

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from infra import postgres, processes, servers
from infra.processes import Running, Service
from infra.servers import Settings
from noisyir.engine.locks import held

VARIABLES = {
    "host": "NOISYIR_HOST",
    "database": "NOISYIR_DATABASE",
    "prefect_port": "PREFECT_PORT",
    "mlflow_port": "MLFLOW_PORT",
    "postgres_port": "POSTGRES_PORT",
}
DOES = {
    "bootstrap": "pools     driver, cpu, gpu, their limits and the automations",
    "deploy": "deploying what infra/prefect.yaml says",
}
SERVERS = ("postgres", "prefect", "mlflow")
REPORT_SECONDS = 3.0  # for a worker to report that its flow runs ended


@dataclass
class Record:
    """What was started, kept in a file beside the logs: `make down` ends this and nothing else."""

    path: Path
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    settings: dict[str, Any] = field(default_factory=dict)
    running: dict[str, Running] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> "Record":
        """The record at `path`, or an empty one."""
        if not path.exists():
            return cls(path)
        found = json.loads(path.read_text())
        running = {name: Running(**item) for name, item in found["running"].items()}
        return cls(path, found["id"], found["settings"], running)

    def write(self) -> None:
        """Put it into its file."""
        running = {name: asdict(process) for name, process in self.running.items()}
        content = {"id": self.id, "settings": self.settings, "running": running}
        servers.write_private(self.path, json.dumps(content, indent=2) + "\n")

    def alive(self, name: str) -> bool:
        """Whether `name` was started and has not ended."""
        return name in self.running and self.running[name].alive

    def any_alive(self) -> bool:
        """Whether anything of it is left."""
        return any(process.alive for process in self.running.values())


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("up", "down"))
    parser.add_argument("--auth", action="store_true", help="make both servers ask for a password")
    args = parser.parse_args()
    if not psutil.LINUX:
        raise SystemExit("make up needs Linux; elsewhere there are docker/compose.yaml, make ui and noisyir run")
    home = Path(os.environ.get("NOISYIR_HOME", servers.ROOT / ".noisyir")).absolute()
    folder = home / "servers"
    if args.what == "down" and not (folder / "running.json").exists():
        print("nothing is up")
        return 0
    with held(folder / ".lock"):
        record = Record.read(folder / "running.json")
        if args.what == "down":
            down(record)
        else:
            up(record, settled(home, record, auth=args.auth))
    return 0


def settled(home: Path, record: Record, *, auth: bool) -> Settings:
    """What was asked for; where nothing was, what runs already runs with.  SystemExit where the two differ."""
    asked: dict[str, Any] = {"auth": True} if auth else {}
    for name, variable in VARIABLES.items():
        if value := os.environ.get(variable):
            asked[name] = servers.port(variable, 0) if name.endswith("_port") else value
    present = record.settings if record.any_alive() else {}
    for name, value in asked.items():
        if name in present and present[name] != value:
            raise SystemExit(f"the servers are up with {name} = {present[name]}, not {value}: make down first")
    return Settings(home=home, **{**present, **asked})


def up(record: Record, settings: Settings) -> None:
    """Start what does not run, in the order of need, and return when all of it answers."""
    uses_postgres, told = postgres.choose(settings)
    settings = replace(settings, database="postgres" if uses_postgres else "sqlite")
    record.settings = {name: value for name, value in asdict(settings).items() if name != "home"}
    known = servers.passwords(settings)
    fresh = not record.running
    started: list[str] = []
    if uses_postgres:
        started += _run([postgres.service(settings, known)], record, settings)
    both = _servers(settings, known, uses_postgres)
    started += _run(both, record, settings)
    environment = servers.program_environment(settings, known)
    webhook = {name: os.environ[name] for name in ("NOISYIR_WEBHOOK",) if name in os.environ}
    limit = f"gpu={len(servers.gpu_workers())}"
    _call("bootstrap", ["-m", "infra.bootstrap", "--limit", limit], {**environment, **webhook}, settings)
    _call("deploy", ["-m", "infra.deploy"], environment, settings)
    started += _run([servers.warm(settings, known), *servers.workers(settings, known)], record, settings)
    if os.environ.get("NOISYIR_WATCH") != "0":
        started += _run([servers.watch(settings)], record, settings)
    path = settings.folder / "env"
    exports = {**servers.TELEMETRY_OFF, **servers.client_environment(settings, known)}
    servers.write_private(path, "".join(f"export {name}={shlex.quote(value)}\n" for name, value in exports.items()))
    _tell(settings, both, list(record.running), started, fresh, told, path)


def _servers(settings: Settings, known: Mapping[str, str], uses_postgres: bool) -> list[Service]:
    folder = settings.folder
    (folder / "prefect").mkdir(parents=True, exist_ok=True)

    def database(name: str, driver: str) -> str:
        return postgres.url(settings, known, name, driver)

    tracked = database("mlflow", "psycopg2") if uses_postgres else f"sqlite:///{folder / 'mlflow.db'}"
    users = tracked if uses_postgres else f"sqlite:///{folder / 'mlflow-auth.db'}"
    return [
        servers.prefect_server(
            port=settings.prefect_port,
            home=folder / "prefect",
            database=database("prefect", "asyncpg") if uses_postgres else None,
            login=f"{servers.USER}:{known['prefect']}" if settings.auth else None,
            host=settings.host,
            reach=settings.reach,
        ),
        servers.mlflow_server(
            port=settings.mlflow_port,
            database=tracked,
            artifacts=(folder / "mlflow-artifacts").as_uri(),
            login=servers.mlflow_login(settings, known, users) if settings.auth else None,
            host=settings.host,
            reach=settings.reach,
        ),
    ]


def _run(services: Iterable[Service], record: Record, settings: Settings) -> list[str]:
    """Start those of `services` that do not run; wait for all of them.  The names of those started."""
    services = list(services)
    absent = [service for service in services if not record.alive(service.name)]
    if absent:
        print(f"starting  {', '.join(service.name for service in absent)} ...", flush=True)
    for service in absent:
        mark = f"{record.id}/{_group(service.name)}/{service.name}"
        if service.name in SERVERS:  # what a server that was killed left behind holds its port
            processes.stop([], find=mark)
            if service.name in record.running:
                processes.wait_until_buried(record.running[service.name])
        process = processes.start(service, settings.logs, mark=mark)
        record.running[service.name] = Running(process.pid, processes.born(process.pid) or -1, time.time())
        record.write()
    for service in services:
        since = record.running[service.name].since if service in absent else 0.0
        alive = partial(record.alive, service.name)
        processes.wait_until_healthy(service, alive, since, settings.logs / f"{service.name}.log")
    return [service.name for service in absent]


def _group(service: str) -> str:
    """What is stopped together: the forks of `warm`, which have its mark, are the flow runs of the workers."""
    return "servers" if service in SERVERS else service if service in ("warm", "watch") else "workers"


def _call(name: str, arguments: Sequence[str], environment: Mapping[str, str], settings: Settings) -> None:
    """Run a program to its end, with its output in the logs.  SystemExit when it fails."""
    path = settings.logs / f"{name}.log"
    print(f"{DOES[name]} ...", flush=True)
    with path.open("ab") as log:
        command = [sys.executable, *arguments]
        done = subprocess.run(command, env=environment, cwd=servers.ROOT, stdout=log, stderr=log, check=False)
    if done.returncode:
        last = [line for line in path.read_text(errors="replace").splitlines() if line.strip()][-1:]
        raise SystemExit(
            f"{name} failed: {''.join(last)}\nsee {path}; the servers stay up: make up goes on, make down ends"
        )


def _tell(
    settings: Settings,
    pages: Sequence[Service],
    running: Sequence[str],
    started: Sequence[str],
    fresh: bool,
    database: str,
    env: Path,
) -> None:
    if not started:
        print("everything is up already")
    elif not fresh:
        print(f"started again: {', '.join(started)}")
    for page in pages:
        print(f"{page.name:<9} {page.page}")
    print(f"database  {database}")
    print(f"workers   {', '.join(name for name in running if _group(name) == 'workers')}")
    print(f"logs      {_short(settings.logs)}")
    print(f"then      source {_short(env)}" + ("   (the passwords are in it, too)" if settings.auth else ""))
    print("MLflow opens in its GenAI view: choose 'Model training' there.")


def _short(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def down(record: Record) -> None:
    """End the workers with the flow runs in them, then the servers that those report to, then Postgres."""
    ended = [name for name, process in record.running.items() if process.alive]
    processes.stop([], find=f"{record.id}/watch")
    workers = [process for name, process in record.running.items() if _group(name) == "workers"]
    runs = [process for process in processes.marked(f"{record.id}/workers") if process not in workers]
    if runs and any(worker.alive for worker in workers):
        processes.stop(runs)
        time.sleep(REPORT_SECONDS)
    processes.stop(workers, find=f"{record.id}/workers")
    processes.stop([], find=f"{record.id}/warm")
    pages = [record.running[name] for name in SERVERS[1:] if name in record.running]
    processes.stop(pages, find=f"{record.id}/servers")
    if "postgres" in record.running:
        # Ends sessions, rolls back, writes a checkpoint.  SIGTERM would wait for the clients to leave.
        processes.stop([record.running["postgres"]], signal.SIGINT)
    record.path.unlink()
    record.path.with_name("env").unlink(missing_ok=True)
    print(f"stopped: {', '.join(ended)}" if ended else "nothing was up any more")


if __name__ == "__main__":
    sys.exit(main())
