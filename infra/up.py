"""`make up` and `make down`: Postgres, Prefect, MLflow and the workers of one machine, without containers.

usage: python -m infra.up up [--auth]
       python -m infra.up down
       python -m infra.up backup           both databases and the passwords, while the servers are up or not
       python -m infra.up restore FOLDER   stop, put a backup's databases back, start
       python -m infra.up upgrade          stop, back up, bring MLflow's schema up to date, start
       python -m infra.up forget           remove MLflow's runs that were deleted in its page --days 30 ago, for good
       python -m infra.up ui        `make ui`: both pages over what `noisyir run` left, until Ctrl-C
The ports are PREFECT_PORT, MLFLOW_PORT and POSTGRES_PORT of the environment.
"""

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import psutil

from infra import servers, upkeep
from infra.servers import Settings
from infra.supervision import ROOT, Supervisor, stop, write_private
from noisyir.engine.locks import held

REPORT_SECONDS = 3.0  # for a worker to report that its flow runs ended


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("up", "down", "ui", "backup", "restore", "upgrade", "forget"))
    parser.add_argument("folder", nargs="?", type=Path, help="of a backup")
    parser.add_argument("--days", type=int, default=30, help="of forget")
    parser.add_argument("--auth", action="store_true", help="make both servers ask for a password")
    args = parser.parse_args()
    home = Path(os.environ.get("NOISYIR_HOME", ".noisyir")).absolute()
    if args.what == "ui":
        return ui(home)
    if not psutil.LINUX:
        raise SystemExit("make up needs Linux; elsewhere there are docker/compose.yaml, make ui and noisyir run")
    supervisor = Supervisor(home / "servers")
    if args.what == "down" and not (supervisor.folder / "settings.json").exists():
        print("nothing is up")
        return 0
    with held(supervisor.folder / ".lock"):
        if args.what == "down":
            down(supervisor)
            return 0
        settings = settled(home, supervisor, auth=args.auth)
        if args.what == "up":
            up(supervisor, settings)
        elif args.what == "forget":
            if not supervisor.is_up():
                raise SystemExit("forget needs the servers: make up")
            upkeep.forget(settings, servers.passwords(settings), args.days)
        else:
            keep_up(args.what, args.folder, supervisor, settings)
    return 0


def settled(home: Path, supervisor: Supervisor, *, auth: bool) -> Settings:
    """The settings asked for; else those of the servers that are up.  SystemExit where the two differ."""
    asked = servers.asked() | ({"auth": True} if auth else {})
    present = json.loads((supervisor.folder / "settings.json").read_text()) if supervisor.is_up() else {}
    for name, value in asked.items():
        if name in present and present[name] != value:
            raise SystemExit(f"the servers are up with {name} = {present[name]}, not {value}: make down first")
    return Settings(**{**present, **asked, "home": home})


def keep_up(what: str, folder: Path | None, supervisor: Supervisor, settings: Settings) -> None:
    """Back both databases up; to restore or upgrade them, with only Postgres at work, and start everything then."""
    if what == "restore" and (folder is None or not folder.is_dir()):
        raise SystemExit(f"restore: {folder} is no folder: name one that make backup printed")
    uses_postgres, _ = servers.chosen_database(settings)
    settings = replace(settings, database="postgres" if uses_postgres else "sqlite")
    known = servers.passwords(settings)
    if what != "backup":
        down(supervisor)
    alone = uses_postgres and "postgres" not in supervisor.pids()
    if alone:
        supervisor.begin(servers.supervised(settings, known), servers.inherited())
        supervisor.run([servers.postgres(settings, known)])
    try:
        print(f"backup    {upkeep.backup(settings, known)}", flush=True)
        if what == "restore" and folder:
            upkeep.restore(settings, known, folder)
        if what == "upgrade":
            upkeep.upgrade_mlflow(settings, known)
    finally:
        if alone:
            down(supervisor)
    if what != "backup":
        up(supervisor, settings)


def up(supervisor: Supervisor, settings: Settings) -> None:
    """Start what does not run, in the order of need, and return when all of it answers."""
    uses_postgres, told = servers.chosen_database(settings)
    settings = replace(settings, database="postgres" if uses_postgres else "sqlite")
    write_private(supervisor.folder / "settings.json", json.dumps(asdict(settings), default=str))
    settings.prefect_home.mkdir(parents=True, exist_ok=True)
    known = servers.passwords(settings)
    path, exports = settings.folder / "env", {**servers.TELEMETRY_OFF, **servers.client_environment(settings, known)}
    write_private(path, "".join(f"export {name}={shlex.quote(value)}\n" for name, value in exports.items()))
    database = [servers.postgres(settings, known)] if uses_postgres else []
    warm_and_workers = servers.warm_and_workers(settings, known)
    fresh = not supervisor.is_up()
    supervisor.begin(servers.supervised(settings, known), servers.inherited())
    started = supervisor.run([*database, *servers.pages(settings)])
    webhook = {"NOISYIR_WEBHOOK": os.environ.get("NOISYIR_WEBHOOK", "")}
    environment = {**servers.inherited(), **servers.program_environment(settings, known), **webhook}
    gpus = ["--gpus", str(len(servers.gpu_workers()))]
    _bootstrap(gpus, environment, supervisor.logs / "bootstrap.log")
    started += supervisor.run(warm_and_workers)
    if not started:
        print("everything is up already")
    elif not fresh:
        print(f"started again: {', '.join(started)}")
    _tell_pages(settings)
    print(f"database  {told}")
    print(f"workers   {', '.join(worker.name for worker in warm_and_workers if worker.group == 'workers')}")
    print(f"logs      {supervisor.logs}")
    print(f"then      source {path}" + ("   (the passwords are in it, too)" if settings.auth else ""))


def _tell_pages(settings: Settings) -> None:
    for name, page in settings.pages.items():
        print(f"{name:<9} {page}")
    print("MLflow opens in its GenAI view: choose 'Model training' there.", flush=True)


def ui(home: Path) -> int:
    """Both servers over the databases that `noisyir run` writes, until Ctrl-C or SIGTERM."""
    for signum in (signal.SIGTERM, signal.SIGINT):  # a shell's background job ignores SIGINT unless told otherwise
        signal.signal(signum, signal.default_int_handler)
    ports = {name: value for name, value in servers.asked().items() if name.endswith("_port")}
    settings = Settings(home, only_pages=True, **ports)
    settings.prefect_home.mkdir(parents=True, exist_ok=True)
    supervisor = Supervisor(settings.folder)
    try:
        supervisor.begin(servers.supervised(settings, {}), servers.inherited())
        supervisor.run(servers.pages(settings))
        _tell_pages(settings)
        print("Ctrl-C stops both.", flush=True)
        while len(supervisor.pids()) == len(settings.pages):
            time.sleep(0.5)
        raise SystemExit(f"a server ended by itself; see {supervisor.logs}")
    except KeyboardInterrupt:
        return 0
    finally:
        supervisor.stop((), "servers")
        supervisor.end()


def _bootstrap(options: Sequence[str], environment: Mapping[str, str], path: Path) -> None:
    """Make pools and deployments, with what is told in a log.  SystemExit when that fails."""
    print("pools     driver, cpu, gpu, their limits, automations and deployments ...", flush=True)
    with path.open("ab") as log:
        command = [sys.executable, "-m", "infra.bootstrap", *options]
        done = subprocess.run(command, env=environment, cwd=ROOT, stdout=log, stderr=log, check=False)
    if done.returncode:
        last = [line for line in path.read_text(errors="replace").splitlines() if line.strip()][-1:]
        raise SystemExit(f"bootstrap failed: {''.join(last)}\nsee {path}; make up goes on, make down ends it all")


def down(supervisor: Supervisor) -> None:
    """End the workers with the flow runs in them, then the servers that those report to, then Postgres."""
    running = supervisor.pids()
    workers = [name for name in running if name not in ("postgres", "prefect", "mlflow", "warm")]
    runs = [process for process in supervisor.started_by("workers") if process.pid not in running.values()]
    if runs and workers:
        stop(runs)
        time.sleep(REPORT_SECONDS)
    groups = {"workers": workers, "warm": ["warm"], "servers": ["prefect", "mlflow"], "postgres": ["postgres"]}
    for group, names in groups.items():
        supervisor.stop(names, group)
    supervisor.end()
    print(f"stopped: {', '.join(running)}" if running else "nothing was up any more")


if __name__ == "__main__":
    sys.exit(main())
