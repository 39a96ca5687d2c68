"""Servers and workers of one machine: what supervisord is told of them (supervisord.conf), and how each is asked.

Passwords reach a server by its environment or by a file that only its user can read, never by its command line, which
every user of the machine can see.
"""

import json
import os
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

from infra.supervision import ROOT, Service, write_private

LOOPBACK = ("127.0.0.1", "localhost")
USER = "noisyir"
TELEMETRY_OFF = {
    "DO_NOT_TRACK": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "PREFECT_CLOUD_ENABLE_ORCHESTRATION_TELEMETRY": "false",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
}
# So that a stage's hop to another pool is short: whoever works asks often, and each client asks nothing first.
QUICK = {
    "PREFECT_WORKER_QUERY_SECONDS": "0.5",
    "PREFECT_CLIENT_CSRF_SUPPORT_ENABLED": "false",  # the server wants no such tokens
    "PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED": "false",  # both are of one installation
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",  # Prefect's least
}
# Of the caller's environment: they lead to other servers and databases, or tell a secret to who need not know it.
NOT_INHERITED = (
    *("PREFECT_API_", "PREFECT_HOME", "PREFECT_PROFILE", "PREFECT_UI_", "PREFECT_SERVER_API_"),
    *("PREFECT_SERVER_DATABASE_", "NOISYIR_WEBHOOK", "MLFLOW_TRACKING_", "MLFLOW_REGISTRY_"),
    *("MLFLOW_BACKEND_", "MLFLOW_AUTH_", "MLFLOW_RUN_ID"),
)


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

    def __post_init__(self) -> None:
        if self.host not in LOOPBACK and not self.auth:
            raise SystemExit(
                f"NOISYIR_HOST={self.host} opens the servers to others: add AUTH=1, or leave NOISYIR_HOST out"
            )
        if self.database not in ("auto", "postgres", "sqlite"):
            raise SystemExit(f"NOISYIR_DATABASE={self.database}: postgres, sqlite, or nothing for whichever there is")

    @property
    def folder(self) -> Path:
        """All that the servers write."""
        return self.home / "servers"

    @property
    def reach(self) -> str:
        """The address at which this machine reaches its own servers."""
        return LOOPBACK[0] if self.host == "0.0.0.0" else self.host

    @property
    def pages(self) -> dict[str, str]:
        """The address of each server's page."""
        ports = {"prefect": self.prefect_port, "mlflow": self.mlflow_port}
        return {name: f"http://{self.reach}:{port}" for name, port in ports.items()}


def port(variable: str, usual: int) -> int:
    """The port that the environment's `variable` names, or the usual one."""
    value = os.environ.get(variable) or str(usual)
    if not value.isdigit() or not 1024 <= int(value) <= 65535:
        raise SystemExit(f"{variable}={value}: a port is a number from 1024 to 65535")
    return int(value)


def passwords(settings: Settings) -> dict[str, str]:
    """The generated passwords of this home, the same at every start, in a file that only its owner can read."""
    path = settings.folder / "secrets.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    found = {
        name: known.get(name) or secrets.token_urlsafe(24) for name in ("postgres", "prefect", "mlflow", "mlflow_csrf")
    }
    if found != known:
        write_private(path, json.dumps(found, indent=2) + "\n")
    return found


def inherited() -> dict[str, str]:
    """The environment of all that runs: the caller's without what would lead elsewhere, and with telemetry off."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(NOT_INHERITED)}
    return {**QUICK, **kept, **TELEMETRY_OFF}


def supervised(settings: Settings, known: Mapping[str, str], **more: Any) -> str:
    """Settings of supervisord: the servers over Postgres or SQLite, and what `more` has for the template.

    folder, data, prefect_home: other than those of `make up`.  postgres: the folder of its programs; None: SQLite.
    clients: the environment of flow runs; empty: no workers.  restarts: whether what dies is started again.
    """
    own = {socket.gethostname(), socket.getfqdn()} if settings.host == "0.0.0.0" else {settings.host}
    further = filter(None, os.environ.get("NOISYIR_ALLOWED_HOSTS", "").split(","))
    values = {
        **{name: getattr(settings, name) for name in (*settings.__dataclass_fields__, "folder", "reach")},
        **{"data": settings.folder, "prefect_home": settings.folder / "prefect", "clients": {}, "postgres": None},
        **{"known": known, "root": ROOT, "python": sys.executable, "machine": socket.gethostname()},
        "names": [*LOOPBACK, *sorted({*own, *further} - {*LOOPBACK})],
        "on_loopback": settings.host in LOOPBACK,
        "path": os.environ.get("PATH", os.defpath),
        "root_starts": os.geteuid() == 0,
        "gpu_workers": gpu_workers(),
        **more,
    }
    place = f"{USER}:{known.get('postgres')}@127.0.0.1:{settings.postgres_port}"
    tracked = f"postgresql+psycopg2://{place}/mlflow" if values["postgres"] else f"sqlite:///{values['data']}/mlflow.db"
    values |= {"artifacts": (values["data"] / "mlflow-artifacts").as_uri(), "place": place, "tracked": tracked}
    if settings.auth:
        users = tracked.replace("mlflow.db", "mlflow-auth.db").replace("%", "%%")
        write_private(settings.folder / "mlflow-auth.ini", _MLFLOW_AUTH.format(users))
    template = Path(__file__).with_name("supervisord.conf").read_text()
    options: Any = {"undefined": jinja2.StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
    return jinja2.Environment(**options).from_string(template).render(_fit(values))


_MLFLOW_AUTH = """\
[mlflow]
default_permission = READ
database_uri = {}
authorization_function = mlflow.server.auth:authenticate_request_basic_auth
"""


def _fit(value: Any) -> Any:
    """Values as supervisord's settings can hold them.  SystemExit where one has a quote or the like."""
    if isinstance(value, dict):
        return {name: _fit(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_fit(each) for each in value]
    if isinstance(value, Path | str):
        if re.search(r'["\'\\\n]|\s[;#]', str(value)):
            raise SystemExit(f"{value!s}: a quote, a backslash, ' #' or ' ;' in a path or variable: choose another")
        return str(value).replace("%", "%%")
    return value


def client_environment(settings: Settings, known: Mapping[str, str]) -> dict[str, str]:
    """What a program needs in order to reach the servers."""
    login = {
        "PREFECT_API_AUTH_STRING": f"{USER}:{known['prefect']}",
        "MLFLOW_TRACKING_USERNAME": USER,
        "MLFLOW_TRACKING_PASSWORD": known["mlflow"],
    }
    pages = settings.pages
    addresses = {"PREFECT_API_URL": f"{pages['prefect']}/api", "MLFLOW_TRACKING_URI": pages["mlflow"]}
    return {**addresses, **(login if settings.auth else {})}


def program_environment(settings: Settings, known: Mapping[str, str]) -> dict[str, str]:
    """What workers, and the programs that set the server up, have beyond `inherited`."""
    return {
        "PREFECT_API_SSL_CERT_FILE": str(ROOT / "infra" / "one-certificate.pem"),
        **client_environment(settings, known),
        "PREFECT_HOME": str(settings.folder / "prefect"),
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
        return Service(name, "servers", lambda since: answer(url) is not None, at, f"{name.upper()}_PORT")

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
    gpus = visible_gpus()
    if len(gpus) < 2 or os.environ.get("NOISYIR_GPU_WORKERS") == "1":
        return {"gpu": None}
    return {f"gpu-{gpu}": gpu for gpu in gpus}


def visible_gpus() -> list[str]:
    """The GPUs that the caller lets us see, as CUDA_VISIBLE_DEVICES names them."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [gpu for gpu in chosen.split(",") if gpu and gpu != "-1"]
    if shutil.which("nvidia-smi") is None:
        return []
    command = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    return listed.stdout.split() if listed.returncode == 0 else []


def answer(url: str, **question: Any) -> httpx.Response | None:
    """What `url` answers to a GET, or to a POST of a question; None where it does not, or with an error."""
    try:
        found = httpx.request("POST" if question else "GET", url, timeout=5, trust_env=False, **question)
    except httpx.HTTPError:
        return None
    return found if found.is_success else None
