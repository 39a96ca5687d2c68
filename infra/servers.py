"""Servers and workers of one machine: what supervisord is told of them (supervisord.conf), and how each is asked.

Passwords reach a server by its environment or by a file that only its user can read, never by its command line, which
every user of the machine can see.
"""

import json
import os
import pwd
import re
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import jinja2
import yaml
from markupsafe import Markup

from infra.supervision import ROOT, Service, write_private

LOOPBACK = ("127.0.0.1", "localhost")
USER = "noisyir"
SUPERUSER = "postgres"  # made by Debian's package: Postgres does not run as root
TELEMETRY_OFF, QUICK, NOT_INHERITED = yaml.safe_load((ROOT / "infra" / "environment.yaml").read_text()).values()


@dataclass(frozen=True)
class Settings:
    """Where the servers listen and what they keep their data in.  `home` is NOISYIR_HOME."""

    home: Path
    host: str = LOOPBACK[0]
    prefect_port: int = 4200
    mlflow_port: int = 5000
    postgres_port: int = 5439  # not 5432: a packaged Postgres listens there
    database: str = "auto"
    auth: bool = False
    only_pages: bool = False  # over what `noisyir run` has left in `home`

    def __post_init__(self) -> None:
        if self.host not in LOOPBACK and not self.auth:
            raise SystemExit(f"NOISYIR_HOST={self.host} opens the servers to others: add AUTH=1, or leave it out")
        if self.database not in ("auto", "postgres", "sqlite"):
            raise SystemExit(f"NOISYIR_DATABASE={self.database}: postgres, sqlite, or nothing for whichever there is")

    @property
    def folder(self) -> Path:
        """Settings, logs and passwords."""
        return self.home / ("ui" if self.only_pages else "servers")

    @property
    def data(self) -> Path:
        """The folder of the databases, and of the artifacts that MLflow keeps."""
        return self.home if self.only_pages else self.folder

    @property
    def prefect_home(self) -> Path:
        """The folder of Prefect's SQLite."""
        return Path((self.only_pages and os.environ.get("PREFECT_HOME")) or self.data / "prefect")

    @property
    def reach(self) -> str:
        """The address at which this machine reaches its own servers."""
        return LOOPBACK[0] if self.host == "0.0.0.0" else self.host

    @property
    def pages(self) -> dict[str, str]:
        """The address of each server's page."""
        return {name: f"http://{self.reach}:{getattr(self, f'{name}_port')}" for name in ("prefect", "mlflow")}


def asked() -> dict[str, Any]:
    """The settings that the environment's variables name.  SystemExit for a port that is none."""
    names = {"host": "NOISYIR_HOST", "database": "NOISYIR_DATABASE"}
    names |= {f"{server}_port": f"{server.upper()}_PORT" for server in ("prefect", "mlflow", "postgres")}
    found: dict[str, Any] = {name: os.environ[one] for name, one in names.items() if os.environ.get(one)}
    for name in filter(lambda name: name.endswith("_port"), found):
        if not found[name].isdigit() or not 1024 <= int(found[name]) <= 65535:
            raise SystemExit(f"{names[name]}={found[name]}: a port is a number from 1024 to 65535")
        found[name] = int(found[name])
    return found


def passwords(settings: Settings) -> dict[str, str]:
    """The generated passwords of this home, the same at every start, in a file that only its owner can read."""
    path = settings.folder / "secrets.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    wanted = ("postgres", "prefect", "mlflow", "mlflow_csrf")
    found = known | {name: known.get(name) or secrets.token_urlsafe(24) for name in wanted}
    if found != known:
        write_private(path, json.dumps(found, indent=2) + "\n")
    return found


def inherited() -> dict[str, str]:
    """The environment of all that runs: the caller's without what would lead elsewhere, and with telemetry off."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(tuple(NOT_INHERITED))}
    return {**QUICK, **kept, **TELEMETRY_OFF}


def supervised(settings: Settings, known: Mapping[str, str]) -> str:
    """Settings of supervisord: the servers over Postgres or SQLite, and the workers unless the pages are all."""
    own = {socket.gethostname(), socket.getfqdn()} if settings.host == "0.0.0.0" else {settings.host}
    further = filter(None, os.environ.get("NOISYIR_ALLOWED_HOSTS", "").split(","))
    place = f"{USER}:{known.get('postgres')}@127.0.0.1:{settings.postgres_port}"
    programs = postgres_programs(settings.folder) if settings.database == "postgres" else None
    tracked = mlflow_database(settings, known)
    values = {
        **{"of": settings, "known": known, "root": ROOT, "python": sys.executable, "machine": socket.gethostname()},
        **{"postgres": programs, "place": place, "tracked": tracked},
        "users": tracked if programs else f"sqlite:///{settings.data}/mlflow-auth.db",
        "artifacts": (settings.data / "mlflow-artifacts").as_uri(),
        "names": [*LOOPBACK, *sorted({*own, *further} - {*LOOPBACK})],
        "clients": {} if settings.only_pages else program_environment(settings, known),
        "restarts": "false" if settings.only_pages or os.environ.get("NOISYIR_WATCH") == "0" else "true",
        "path": os.environ.get("PATH", os.defpath),
        **{"on_loopback": settings.host in LOOPBACK, "root_starts": os.geteuid() == 0, "gpu_workers": gpu_workers()},
    }
    options: Any = {"undefined": jinja2.StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
    environment = jinja2.Environment(**options, autoescape=True, finalize=_fit)
    return environment.from_string(Path(__file__).with_name("supervisord.conf").read_text()).render(values)


def mlflow_database(settings: Settings, known: Mapping[str, str]) -> str:
    """The address of MLflow's database, with its password."""
    if settings.database != "postgres":
        return f"sqlite:///{settings.data}/mlflow.db"
    return f"postgresql+psycopg2://{USER}:{known['postgres']}@127.0.0.1:{settings.postgres_port}/mlflow"


def _fit(value: Any) -> Markup:
    """A value as supervisord's settings can hold it.  SystemExit where it has a quote or the like."""
    if re.search(r'["\'\\\n]|\s[;#]', str(value)) and not isinstance(value, Markup):
        raise SystemExit(f"{value}: a quote, a backslash, ' #' or ' ;' in a path or variable: choose another")
    return value if isinstance(value, Markup) else Markup(str(value).replace("%", "%%"))


def client_environment(settings: Settings, known: Mapping[str, str]) -> dict[str, str]:
    """What a program needs in order to reach the servers."""
    login = {
        "PREFECT_API_AUTH_STRING": f"{USER}:{known['prefect']}",
        "MLFLOW_TRACKING_USERNAME": USER,
        "MLFLOW_TRACKING_PASSWORD": known["mlflow"],
    }
    prefect, mlflow = settings.pages.values()
    return {"PREFECT_API_URL": f"{prefect}/api", "MLFLOW_TRACKING_URI": mlflow, **(login if settings.auth else {})}


def program_environment(settings: Settings, known: Mapping[str, str]) -> dict[str, str]:
    """What workers, and the programs that set the server up, have beyond `inherited`."""
    return {
        "PREFECT_API_SSL_CERT_FILE": str(ROOT / "infra" / "one-certificate.pem"),
        **client_environment(settings, known),
        "PREFECT_HOME": str(settings.prefect_home),
        "PREFECT_SERVER_EPHEMERAL_ENABLED": "false",
        "NOISYIR_HOME": str(settings.home),
        "NOISYIR_ROOT": str(ROOT),
        "NOISYIR_WARM": str(settings.folder / "warm.socket"),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    }


def pages(settings: Settings) -> list[Service]:
    """Prefect's and MLflow's server."""

    def page(name: str, health: str) -> Service:
        at = (settings.host, getattr(settings, f"{name}_port"))
        url = settings.pages[name] + health
        return Service(name, "servers", lambda since: answer(url) is not None, at)

    return [page("prefect", "/api/health"), page("mlflow", "/health")]


def warm_and_workers(settings: Settings, known: Mapping[str, str]) -> list[Service]:
    """The process that flow runs are forked from, and the workers: for `driver`, for `cpu`, and one for each GPU."""

    def listens(since: float) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(settings.folder / "warm.socket")) == 0

    def worker(name: str, pool: str) -> Service:
        url = f"{settings.pages['prefect']}/api/work_pools/{pool}/workers/filter"
        login = (USER, known["prefect"]) if settings.auth else None

        def is_online(since: float) -> bool:
            """Whether the server has heard of it since it was started, and holds it for online."""
            found = answer(url, json={"limit": 200}, auth=login)
            return any(
                one["name"] == f"{name}@{socket.gethostname()}"
                and one["status"] == "ONLINE"
                and datetime.fromisoformat(one["last_heartbeat_time"]).timestamp() >= since
                for one in (found.json() if found else ())
            )

        return Service(name, "workers", is_online)

    pools = {"driver": "driver", "cpu": "cpu", **dict.fromkeys(gpu_workers(), "gpu")}
    return [Service("warm", "warm", listens), *(worker(name, pool) for name, pool in pools.items())]


def gpu_workers() -> dict[str, str | None]:
    """The GPUs of each worker of pool `gpu`, by its name; None: all that there are.

    Each has one GPU and one flow run at a time, so that two runs never meet on a GPU.  NOISYIR_GPU_WORKERS=1 makes
    one worker that sees all GPUs, for stages with runtime.processes above 1.
    """
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None and shutil.which("nvidia-smi"):
        command = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
        listed = subprocess.run(command, capture_output=True, text=True, check=False)
        chosen = ",".join(listed.stdout.split()) if listed.returncode == 0 else None
    gpus = [gpu for gpu in (chosen or "").split(",") if gpu and gpu != "-1"]
    if len(gpus) < 2 or os.environ.get("NOISYIR_GPU_WORKERS") == "1":
        return {"gpu": None}
    return {f"gpu-{gpu}": gpu for gpu in gpus}


def answer(url: str, **question: Any) -> httpx.Response | None:
    """What `url` answers to a GET, or to a POST of a question; None where it does not, or with an error."""
    try:
        found = httpx.request("POST" if question else "GET", url, timeout=5, trust_env=False, **question)
    except httpx.HTTPError:
        return None
    return found if found.is_success else None


def chosen_database(settings: Settings) -> tuple[bool, str]:
    """Whether the servers use Postgres, and what to tell about it.  SystemExit when it was asked for and cannot be."""
    if settings.database == "sqlite":
        return False, "SQLite, as NOISYIR_DATABASE says"
    fault = missing_postgres(settings)
    if fault is None:
        return True, f"Postgres, on 127.0.0.1:{settings.postgres_port}"
    if settings.database == "postgres" or (settings.folder / "postgres").exists():
        raise SystemExit(f"no Postgres: {fault}. Or NOISYIR_DATABASE=sqlite, over another, empty database")
    return False, f"SQLite, for there is no Postgres: {fault}"


def missing_postgres(settings: Settings) -> str | None:
    """Why there can be no Postgres here; None: there can."""
    if postgres_programs(settings.folder) is None:
        return "install Debian's package postgresql"
    try:
        import psycopg2  # noqa: F401
    except ImportError:
        return "install noisyir[servers]"
    if os.geteuid() == 0:
        if SUPERUSER not in [user.pw_name for user in pwd.getpwall()]:
            return "it does not run as root, and there is no user postgres"
        settings.folder.mkdir(parents=True, exist_ok=True)
        if subprocess.run(["/usr/bin/test", "-x", settings.folder], check=False, **_as_user()).returncode:
            return f"it runs as the user postgres, who cannot enter {settings.folder}"
    return None


def postgres_programs(folder: Path) -> Path | None:
    """Where Postgres's programs are: of the cluster's version, else the newest of Debian's packages, else on PATH."""
    version = folder / "postgres" / "PG_VERSION"
    wanted = version.read_text().strip() if version.exists() else "*"
    packaged = sorted(Path("/usr/lib/postgresql").glob(f"{wanted}/bin/initdb"), key=lambda path: int(path.parts[-3]))
    found = str(packaged[-1]) if packaged else shutil.which("initdb")
    return Path(found).resolve().parent if found else None


def postgres(settings: Settings, known: Mapping[str, str]) -> Service:
    """The server, whose cluster is made when there is none."""
    folder, programs = settings.folder / "postgres", postgres_programs(settings.folder)
    assert programs is not None
    if not folder.exists():
        _make_cluster(folder, programs, known["postgres"])
    place = ("127.0.0.1", settings.postgres_port)
    return Service("postgres", "postgres", lambda since: _takes_connections(settings, known), place)


def _make_cluster(folder: Path, programs: Path, password: str) -> None:
    """A cluster with the role and the databases, under a name of its own until it is whole.

    Its superuser has no password, and so no way in but Postgres's single-user mode.
    """
    new = folder.with_name("postgres.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(mode=0o700)
    if os.geteuid() == 0:
        shutil.chown(new, SUPERUSER, SUPERUSER)

    def call(program: str, *options: str, statements: str = "") -> None:
        command = [str(programs / program), *options]
        done = subprocess.run(command, input=statements, capture_output=True, text=True, check=False, **_as_user())
        if done.returncode:
            raise SystemExit(f"{program} failed: {done.stderr.strip()}")

    logins = ("--username", SUPERUSER, "--auth-local", "peer", "--auth-host", "scram-sha-256")
    call("initdb", "-D", str(new), *logins, "--encoding", "UTF8", "--locale", "C.UTF-8", "--no-instructions")
    single = ("--single", "-D", str(new), "-c", "exit_on_error=true", "-c", "log_min_error_statement=panic")
    databases = "".join(f"CREATE DATABASE {name} OWNER {USER}\n" for name in ("prefect", "mlflow"))
    call("postgres", *single, "postgres", statements=f"CREATE ROLE {USER} LOGIN PASSWORD '{password}'\n{databases}")
    # Prefect's text search; of Debian's postgresql-contrib.
    call("postgres", *single, "prefect", statements="CREATE EXTENSION pg_trgm\n")
    new.rename(folder)


def _takes_connections(settings: Settings, known: Mapping[str, str]) -> bool:
    """Whether the role may come in.  SystemExit where its password is another."""
    import psycopg2

    place = {"host": "127.0.0.1", "port": settings.postgres_port, "connect_timeout": 5}
    try:
        psycopg2.connect(dbname="prefect", user=USER, password=known["postgres"], **place).close()
    except psycopg2.OperationalError as error:
        if "password authentication failed" in str(error):
            raise SystemExit(f"Postgres refuses the password of {settings.folder / 'secrets.json'}") from error
        return False
    return True


def _as_user() -> dict[str, Any]:
    """Popen's arguments for a process that may not be root's."""
    other = {"user": SUPERUSER, "group": SUPERUSER, "extra_groups": []}
    return {"cwd": "/", **(other if os.geteuid() == 0 else {})}
