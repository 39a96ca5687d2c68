"""`make up` and `make down`: Postgres, Prefect, MLflow and the workers of one machine, without containers.

usage: python -m infra.up up [--auth]
       python -m infra.up down
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import psutil

from infra import postgres, servers
from infra.servers import Settings
from infra.start import stop
from infra.supervision import Service, Supervisor, write_private
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
REPORT_SECONDS = 3.0  # for a worker to report that its flow runs ended


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("up", "down"))
    parser.add_argument("--auth", action="store_true", help="make both servers ask for a password")
    args = parser.parse_args()
    if not psutil.LINUX:
        raise SystemExit("make up needs Linux; elsewhere there are docker/compose.yaml, make ui and noisyir run")
    home = Path(os.environ.get("NOISYIR_HOME", servers.ROOT / ".noisyir")).absolute()
    supervisor = Supervisor(home / "servers")
    if args.what == "down" and not (supervisor.folder / "settings.json").exists():
        print("nothing is up")
        return 0
    with held(supervisor.folder / ".lock"):
        if args.what == "down":
            down(supervisor)
        else:
            up(supervisor, settled(home, supervisor, auth=args.auth))
    return 0


def settled(home: Path, supervisor: Supervisor, *, auth: bool) -> Settings:
    """The settings asked for; else those of the servers that are up.  SystemExit where the two differ."""
    asked: dict[str, Any] = {"auth": True} if auth else {}
    for name, variable in VARIABLES.items():
        if value := os.environ.get(variable):
            asked[name] = servers.port(variable, 0) if name.endswith("_port") else value
    present = json.loads((supervisor.folder / "settings.json").read_text()) if supervisor.is_up() else {}
    for name, value in asked.items():
        if name in present and present[name] != value:
            raise SystemExit(f"the servers are up with {name} = {present[name]}, not {value}: make down first")
    return Settings(home=home, **{**present, **asked})


def up(supervisor: Supervisor, settings: Settings) -> None:
    """Start what does not run, in the order of need, and return when all of it answers."""
    uses_postgres, told = postgres.choose(settings)
    settings = replace(settings, database="postgres" if uses_postgres else "sqlite")
    kept = {name: value for name, value in asdict(settings).items() if name != "home"}
    write_private(supervisor.folder / "settings.json", json.dumps(kept))
    known = servers.passwords(settings)
    database = [postgres.service(settings, known)] if uses_postgres else []
    pages, workers = both_servers(settings, known, uses_postgres), servers.workers(settings, known)
    warm = servers.warm(settings, known)
    fresh = not supervisor.is_up()
    watched = os.environ.get("NOISYIR_WATCH") != "0"
    supervisor.begin([*database, *pages, warm, *workers], servers.ROOT, restarts=watched)
    started = supervisor.run(database) + supervisor.run(pages)
    environment = servers.program_environment(settings, known)
    webhook = {name: os.environ[name] for name in ("NOISYIR_WEBHOOK",) if name in os.environ}
    limit = f"gpu={len(servers.gpu_workers())}"
    _call("bootstrap", ["-m", "infra.bootstrap", "--limit", limit], {**environment, **webhook}, supervisor)
    _call("deploy", ["-m", "infra.deploy"], environment, supervisor)
    started += supervisor.run([warm, *workers])
    path = settings.folder / "env"
    exports = {**servers.TELEMETRY_OFF, **servers.client_environment(settings, known)}
    write_private(path, "".join(f"export {name}={shlex.quote(value)}\n" for name, value in exports.items()))
    if not started:
        print("everything is up already")
    elif not fresh:
        print(f"started again: {', '.join(started)}")
    for page in pages:
        print(f"{page.name:<9} {page.page}")
    print(f"database  {told}")
    print(f"workers   {', '.join(worker.name for worker in workers)}")
    print(f"logs      {_short(supervisor.logs)}")
    print(f"then      source {_short(path)}" + ("   (the passwords are in it, too)" if settings.auth else ""))
    print("MLflow opens in its GenAI view: choose 'Model training' there.")


def both_servers(settings: Settings, known: Mapping[str, str], uses_postgres: bool) -> list[Service]:
    """Prefect's and MLflow's server, over Postgres or over SQLite."""
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


def _call(name: str, arguments: Sequence[str], environment: Mapping[str, str], supervisor: Supervisor) -> None:
    """Run a program to its end, with its output in the logs.  SystemExit when it fails."""
    path = supervisor.logs / f"{name}.log"
    print(f"{DOES[name]} ...", flush=True)
    with path.open("ab") as log:
        command = [sys.executable, *arguments]
        done = subprocess.run(command, env=environment, cwd=servers.ROOT, stdout=log, stderr=log, check=False)
    if done.returncode:
        last = [line for line in path.read_text(errors="replace").splitlines() if line.strip()][-1:]
        raise SystemExit(
            f"{name} failed: {''.join(last)}\nsee {path}; the servers stay up: make up goes on, make down ends"
        )


def _short(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def down(supervisor: Supervisor) -> None:
    """End the workers with the flow runs in them, then the servers that those report to, then Postgres."""
    running = supervisor.pids()
    workers = [name for name in running if name not in ("postgres", "prefect", "mlflow", "warm")]
    runs = [process for process in supervisor.started_by("workers") if process.pid not in running.values()]
    if runs and workers:
        stop(runs)
        time.sleep(REPORT_SECONDS)
    supervisor.stop(workers, "workers")
    supervisor.stop(["warm"], "warm")
    supervisor.stop(["prefect", "mlflow"], "servers")
    supervisor.stop(["postgres"], "postgres")
    supervisor.end()
    print(f"stopped: {', '.join(running)}" if running else "nothing was up any more")


if __name__ == "__main__":
    sys.exit(main())
