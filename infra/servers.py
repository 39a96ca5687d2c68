"""What runs on one machine: Prefect's and MLflow's server, and a worker for each pool; how each is started and asked.

Passwords reach a server by its environment or by a file that only its user can read, never by its command line, which
every user of the machine can see.
"""

import base64
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import certifi

from infra.supervision import Service, write_private

ROOT = Path(__file__).resolve().parents[1]
LOOPBACK = ("127.0.0.1", "localhost")
USER = "noisyir"
HEARTBEAT_SECONDS = 30  # of flow runs: Prefect's least
TELEMETRY_OFF = {
    "DO_NOT_TRACK": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "PREFECT_CLOUD_ENABLE_ORCHESTRATION_TELEMETRY": "false",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
}
# Of the caller's environment: they lead to other servers and databases, or tell a secret to who need not know it.
NOT_INHERITED = (
    *(
        "PREFECT_API_",
        "PREFECT_HOME",
        "PREFECT_PROFILE",
        "PREFECT_SERVER_API_",
        "PREFECT_SERVER_DATABASE_",
        "PREFECT_UI_",
    ),
    *("MLFLOW_TRACKING_", "MLFLOW_REGISTRY_", "MLFLOW_BACKEND_", "MLFLOW_AUTH_", "MLFLOW_RUN_ID", "NOISYIR_WEBHOOK"),
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
    def logs(self) -> Path:
        """A log for each server and each worker."""
        return self.folder / "logs"

    @property
    def reach(self) -> str:
        """The address at which this machine reaches its own servers."""
        return LOOPBACK[0] if self.host == "0.0.0.0" else self.host


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
    wanted = ("postgres_superuser", "postgres", "prefect", "mlflow", "mlflow_csrf")
    found = {name: known.get(name) or secrets.token_urlsafe(24) for name in wanted}
    if found != known:
        write_private(path, json.dumps(found, indent=2) + "\n")
    return found


def inherited() -> dict[str, str]:
    """The caller's environment without what would lead elsewhere, and with telemetry off."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(NOT_INHERITED)}
    return {**kept, **TELEMETRY_OFF}


def prefect_server(
    *, host: str, port: int, reach: str, home: Path, database: str | None = None, login: str | None = None
) -> Service:
    """Prefect's server over `database`, or over SQLite in `home`, closed to other sites' pages.

    login: the USER:PASSWORD that it asks for.
    """
    url, names = f"http://{reach}:{port}", _names(host)
    environment = {
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": ",".join(f"http://{name}:{port}" for name in names),
        "PREFECT_HOME": str(home),
        "PREFECT_UI_URL": url,  # of links in notifications
        "PREFECT_SERVER_UI_API_URL": f"{url}/api" if host in LOOPBACK else "/api",  # else the page asks port 4200
        "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
        # Slots of deployments are leased.  Kept in memory, a restart would forget who has them, and free them never.
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
        **({"PREFECT_SERVER_DATABASE_CONNECTION_URL": database} if database else {}),
        **({"PREFECT_SERVER_API_AUTH_STRING": login} if login else {}),
    }
    return Service(
        "prefect",
        "servers",
        [sys.executable, "-m", "infra.prefect_app", host, str(port), ",".join(names)],
        {**inherited(), **environment},
        lambda since: answers(f"{url}/api/health"),
        listens=(host, port),
        port_variable="PREFECT_PORT",
        page=url,
    )


def mlflow_server(
    *, host: str, port: int, reach: str, database: str, artifacts: str, login: Mapping[str, str] | None = None
) -> Service:
    """MLflow's server, which passes artifacts on, without its job runner; `login`: its auth app's environment.

    The check of the Host header compares the whole of it, so that each name is allowed with and without the port.
    """
    url, names = f"http://{reach}:{port}", _names(host)
    allowed = [f"{name}{suffix}" for name in names for suffix in ("", f":{port}")]
    return Service(
        "mlflow",
        "servers",
        [
            *(sys.executable, "-m", "mlflow", "server", "--host", host, "--port", str(port), "--workers", "1"),
            *("--artifacts-destination", artifacts, "--allowed-hosts", ",".join(allowed)),
            *("--cors-allowed-origins", ",".join(f"http://{name}:{port}" for name in names)),
            *(("--app-name", "basic-auth") if login else ()),
        ],
        {
            **inherited(),
            "MLFLOW_BACKEND_STORE_URI": database,
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "MLFLOW_LOGGING_LEVEL": "WARNING",
            **(login or {}),
        },
        lambda since: answers(f"{url}/health"),
        listens=(host, port),
        port_variable="MLFLOW_PORT",
        page=url,
    )


def _names(host: str) -> list[str]:
    """The names under which a server may be asked: another is of a web site that points here.

    $NOISYIR_ALLOWED_HOSTS has more, such as localhost:9000 for a tunnel's end.
    """
    own = {socket.gethostname(), socket.getfqdn()} if host == "0.0.0.0" else {host}
    further = filter(None, os.environ.get("NOISYIR_ALLOWED_HOSTS", "").split(","))
    return [*LOOPBACK, *sorted({*own, *further} - {*LOOPBACK})]


def mlflow_login(settings: Settings, known: Mapping[str, str], database: str) -> dict[str, str]:
    """The environment of MLflow's auth app, whose users are kept in `database`."""
    config = settings.folder / "mlflow-auth.ini"
    escaped = database.replace("%", "%%")
    function = "mlflow.server.auth:authenticate_request_basic_auth"
    lines = [
        "[mlflow]",
        "default_permission = READ",
        f"database_uri = {escaped}",
        f"authorization_function = {function}",
    ]
    write_private(config, "\n".join(lines) + "\n")
    return {
        "MLFLOW_AUTH_CONFIG_PATH": str(config),
        "MLFLOW_AUTH_ADMIN_USERNAME": USER,
        "MLFLOW_AUTH_ADMIN_PASSWORD": known["mlflow"],
        "MLFLOW_FLASK_SERVER_SECRET_KEY": known["mlflow_csrf"],
    }


def client_environment(settings: Settings, known: Mapping[str, str]) -> dict[str, str]:
    """What a program needs in order to reach the servers."""
    login = {
        "PREFECT_API_AUTH_STRING": f"{USER}:{known['prefect']}",
        "MLFLOW_TRACKING_USERNAME": USER,
        "MLFLOW_TRACKING_PASSWORD": known["mlflow"],
    }
    return {
        "PREFECT_API_URL": f"http://{settings.reach}:{settings.prefect_port}/api",
        "MLFLOW_TRACKING_URI": f"http://{settings.reach}:{settings.mlflow_port}",
        **(login if settings.auth else {}),
    }


def program_environment(settings: Settings, known: Mapping[str, str]) -> dict[str, str]:
    """The environment of workers, and of the programs that set the server up."""
    return {
        # So that a stage's hop to another pool is short: whoever works asks often, and each client asks nothing first.
        "PREFECT_WORKER_QUERY_SECONDS": "0.5",
        "PREFECT_API_SSL_CERT_FILE": str(_one_certificate(settings)),
        "PREFECT_CLIENT_CSRF_SUPPORT_ENABLED": "false",  # the server wants no such tokens
        "PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED": "false",  # both are of one installation
        "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": str(HEARTBEAT_SECONDS),
        **inherited(),
        **client_environment(settings, known),
        "PREFECT_HOME": str(settings.folder / "prefect"),
        "PREFECT_SERVER_EPHEMERAL_ENABLED": "false",
        "NOISYIR_HOME": str(settings.home),
        "NOISYIR_ROOT": str(ROOT),
        "NOISYIR_WARM": str(settings.folder / "warm.socket"),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    }


def _one_certificate(settings: Settings) -> Path:
    """A file with one certificate.  Prefect reads all of the machine's for each client, 22 ms, even over http."""
    path = settings.folder / "one-certificate.pem"
    if not path.exists():
        first, end, _ = Path(certifi.where()).read_text().partition("-----END CERTIFICATE-----\n")
        write_private(path, first + end)
    return path


def workers(settings: Settings, known: Mapping[str, str]) -> list[Service]:
    """One worker for pool `driver`, one for `cpu`, and one for each GPU, or one that has to do without."""
    environment = program_environment(settings, known)
    without = {"CUDA_VISIBLE_DEVICES": ""}
    return [
        _worker("driver", "driver", 4, {**environment, **without}),
        _worker("cpu", "cpu", 2, {**environment, **without}),
        *(_worker(name, "gpu", 1, {**environment, **share}) for name, share in gpu_workers().items()),
    ]


def warm(settings: Settings, known: Mapping[str, str]) -> Service:
    """The process that flow runs are forked from: one for all workers, as it has touched no GPU."""
    environment = program_environment(settings, known)

    def listens(since: float) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            folder = os.open(settings.folder, os.O_PATH)
            try:
                return probe.connect_ex(f"/proc/self/fd/{folder}/warm.socket") == 0
            finally:
                os.close(folder)

    return Service("warm", "warm", [sys.executable, "-m", "infra.warm"], environment, listens, folder=str(ROOT))


def gpu_workers() -> dict[str, dict[str, str]]:
    """The environment of each worker of pool `gpu`, by name.

    Each has one GPU and one flow run at a time, so that two runs never meet on a GPU.  NOISYIR_GPU_WORKERS=1 makes
    one worker that sees all GPUs, for stages with runtime.processes above 1.
    """
    gpus = visible_gpus()
    if len(gpus) < 2 or os.environ.get("NOISYIR_GPU_WORKERS") == "1":
        return {"gpu": {}}
    return {f"gpu-{gpu}": {"CUDA_VISIBLE_DEVICES": gpu} for gpu in gpus}


def _worker(name: str, pool: str, limit: int, environment: Mapping[str, str]) -> Service:
    host = socket.gethostname()
    command = [sys.executable, "-m", "infra.worker", "start", "--pool", pool, "--type", "process"]
    return Service(
        name,
        "workers",
        [*command, "--name", f"{name}@{host}", "--limit", str(limit)],
        environment,
        _reports(f"{name}@{host}", pool, environment),
        folder=str(ROOT),
    )


def _reports(worker: str, pool: str, environment: Mapping[str, str]) -> Callable[[float], bool]:
    """Whether the server has heard of `worker` since it was started, and holds it for online."""

    def healthy(since: float) -> bool:
        url = f"{environment['PREFECT_API_URL']}/work_pools/{pool}/workers/filter"
        found = ask(url, {"limit": 200}, environment.get("PREFECT_API_AUTH_STRING")) or []
        return any(
            item["name"] == worker
            and item["status"] == "ONLINE"
            and datetime.fromisoformat(item["last_heartbeat_time"]).timestamp() >= since
            for item in found
        )

    return healthy


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


def answers(url: str) -> bool:
    """Whether a GET of `url` succeeds."""
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False


def ask(url: str, body: Any, login: str | None = None) -> Any:
    """The JSON that `url` answers to `body`; None when it does not."""
    headers = {"Content-Type": "application/json"}
    if login:
        headers["Authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=5) as reply:
            return json.load(reply)
    except (urllib.error.URLError, OSError):
        return None
