"""A Postgres of noisyir's own: one cluster under its home, loopback only, with generated passwords.

Postgres refuses to run as root.  There it runs as the system user that Debian's package makes, `postgres`.
"""

import os
import pwd
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.servers import USER, Settings
from infra.supervision import Service

SUPERUSER = "postgres"
DATABASES = ("prefect", "mlflow")


def choose(settings: Settings) -> tuple[bool, str]:
    """Whether the servers use Postgres, and what to tell about it.  SystemExit when it was asked for and cannot be."""
    if settings.database == "sqlite":
        return False, "SQLite, as NOISYIR_DATABASE says"
    fault = _missing(settings)
    if fault is None:
        return True, f"Postgres, on 127.0.0.1:{settings.postgres_port}"
    if settings.database == "postgres" or (settings.folder / "postgres").exists():
        raise SystemExit(f"no Postgres: {fault}. Or NOISYIR_DATABASE=sqlite, over another, empty database")
    return False, f"SQLite, for there is no Postgres: {fault}"


def _missing(settings: Settings) -> str | None:
    if binaries(settings.folder) is None:
        return "install Debian's package postgresql"
    try:
        import psycopg2  # noqa: F401
    except ImportError:
        return "install noisyir[servers]"
    if os.geteuid() == 0:
        if _system_user() is None:
            return "it does not run as root, and there is no user postgres"
        settings.folder.mkdir(parents=True, exist_ok=True)
        if not _reaches(settings.folder):
            return f"it runs as the user postgres, who cannot enter {settings.folder}"
    return None


def _reaches(folder: Path) -> bool:
    found = subprocess.run(["/usr/bin/test", "-x", str(folder)], cwd="/", check=False, **_as_user())
    return found.returncode == 0


def binaries(folder: Path) -> Path | None:
    """Where Postgres's programs are: of the cluster's version, else the newest of Debian's packages, else on PATH."""
    version = folder / "postgres" / "PG_VERSION"
    wanted = version.read_text().strip() if version.exists() else "*"
    packaged = sorted(Path("/usr/lib/postgresql").glob(f"{wanted}/bin/initdb"), key=lambda path: int(path.parts[-3]))
    found = str(packaged[-1]) if packaged else shutil.which("initdb")
    return Path(found).resolve().parent if found else None


def service(settings: Settings, known: Mapping[str, str]) -> Service:
    """The server, whose cluster is made when there is none."""
    folder = settings.folder / "postgres"
    programs = binaries(settings.folder)
    assert programs is not None
    if not folder.exists():
        _make_cluster(folder, programs, known[f"{SUPERUSER}_superuser"])
    port = settings.postgres_port
    options = ["listen_addresses=127.0.0.1", f"port={port}", "unix_socket_directories=", "max_connections=200"]
    return Service(
        "postgres",
        "postgres",
        [str(programs / "postgres"), "-D", str(folder), *(word for option in options for word in ("-c", option))],
        {"LANG": "C.UTF-8", "PATH": os.environ.get("PATH", os.defpath)},
        lambda since: _prepared(settings, known),
        listens=("127.0.0.1", port),
        port_variable="POSTGRES_PORT",
        folder="/",
        user=SUPERUSER,
        signal="INT",  # SIGTERM would wait for the clients to leave
    )


def url(settings: Settings, known: Mapping[str, str], database: str, driver: str) -> str:
    """Where a server finds its `database`, password included."""
    return f"postgresql+{driver}://{USER}:{known['postgres']}@127.0.0.1:{settings.postgres_port}/{database}"


def _make_cluster(folder: Path, programs: Path, password: str) -> None:
    """A cluster under a name of its own until it is whole."""
    new, secret = folder.with_name("postgres.new"), folder.with_name("postgres.password")
    shutil.rmtree(new, ignore_errors=True)
    secret.unlink(missing_ok=True)
    new.mkdir(mode=0o700)
    with os.fdopen(os.open(secret, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as handle:
        handle.write(password)
    if (user := _system_user()) and os.geteuid() == 0:
        for path in (new, secret):
            os.chown(path, user.pw_uid, user.pw_gid)
    command = [
        *(str(programs / "initdb"), "--pgdata", str(new), "--username", SUPERUSER, "--pwfile", str(secret)),
        *("--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C.UTF-8", "--no-instructions"),
    ]
    try:
        made = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", **_as_user())
        if made.returncode:
            raise SystemExit(f"initdb failed: {made.stderr.strip()}")
        new.rename(folder)
    finally:
        secret.unlink()


def _prepared(settings: Settings, known: Mapping[str, str]) -> bool:
    """Whether Postgres takes connections; then the role and the databases are there, too."""
    import psycopg2

    def connect(database: str) -> Any:
        password = known[f"{SUPERUSER}_superuser"]
        place = {"host": "127.0.0.1", "port": settings.postgres_port, "connect_timeout": 5}
        connection = psycopg2.connect(dbname=database, user=SUPERUSER, password=password, **place)
        connection.autocommit = True
        return connection

    try:
        connection = connect("postgres")
    except psycopg2.OperationalError as error:
        if "password authentication failed" in str(error):
            raise SystemExit(f"Postgres refuses the password of {settings.folder / 'secrets.json'}") from error
        return False
    with connection.cursor() as cursor:
        cursor.execute(
            "SET log_min_error_statement = panic"
        )  # a statement that fails goes to the log, password and all
        cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [USER])
        if cursor.fetchone() is None:
            cursor.execute(f"CREATE ROLE {USER} LOGIN PASSWORD %s", [known["postgres"]])
        for name in DATABASES:
            cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name])
            if cursor.fetchone() is None:
                cursor.execute(f"CREATE DATABASE {name} OWNER {USER}")
    connection.close()
    connection = connect("prefect")
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE EXTENSION IF NOT EXISTS pg_trgm"
        )  # Prefect's text search; of Debian's postgresql-contrib
    connection.close()
    return True


def _system_user() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return None


def _as_user() -> dict[str, Any]:
    """Popen's arguments for a process that may not be root's."""
    user = _system_user()
    if os.geteuid() != 0 or user is None:
        return {}
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
