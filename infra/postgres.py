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
        if SUPERUSER not in [user.pw_name for user in pwd.getpwall()]:
            return "it does not run as root, and there is no user postgres"
        settings.folder.mkdir(parents=True, exist_ok=True)
        if subprocess.run(["/usr/bin/test", "-x", settings.folder], check=False, **_as_user()).returncode:
            return f"it runs as the user postgres, who cannot enter {settings.folder}"
    return None


def binaries(folder: Path) -> Path | None:
    """Where Postgres's programs are: of the cluster's version, else the newest of Debian's packages, else on PATH."""
    version = folder / "postgres" / "PG_VERSION"
    wanted = version.read_text().strip() if version.exists() else "*"
    packaged = sorted(Path("/usr/lib/postgresql").glob(f"{wanted}/bin/initdb"), key=lambda path: int(path.parts[-3]))
    found = str(packaged[-1]) if packaged else shutil.which("initdb")
    return Path(found).resolve().parent if found else None


def service(settings: Settings, known: Mapping[str, str]) -> Service:
    """The server, whose cluster is made when there is none."""
    folder, programs = settings.folder / "postgres", binaries(settings.folder)
    assert programs is not None
    if not folder.exists():
        _make_cluster(folder, programs, known["postgres"])
    place = ("127.0.0.1", settings.postgres_port)
    return Service("postgres", "postgres", lambda since: _takes_connections(settings, known), place, "POSTGRES_PORT")


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
    databases = "".join(f"CREATE DATABASE {name} OWNER {USER}\n" for name in DATABASES)
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
    if os.geteuid() != 0:
        return {"cwd": "/"}
    user = pwd.getpwnam(SUPERUSER)
    return {"cwd": "/", "user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
