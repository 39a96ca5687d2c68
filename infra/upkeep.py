"""Upkeep of the servers' databases: both are dumped and put back, and MLflow's gets the schema of today's version."""

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from infra.servers import USER, Settings, client_environment, mlflow_database, postgres_programs
from infra.supervision import write_private

DATABASES = ("prefect", "mlflow")
# The owner of a database may do this.  A cluster's extension was made in single-user mode, and pg_dump takes it for
# built in.
EMPTY = "DROP SCHEMA public CASCADE; CREATE SCHEMA public; CREATE EXTENSION pg_trgm;"


def backup(settings: Settings, known: Mapping[str, str]) -> Path:
    """Dump both databases, with the passwords beside them, into a new folder that only its owner can read."""
    folder = settings.folder / "backups" / datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    folder.mkdir(parents=True, mode=0o700)
    if settings.database == "postgres":
        for name in DATABASES:
            _postgres(settings, known, "pg_dump", name, "--format=custom", f"--file={folder / name}.dump")
    for path in _files(settings):
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(folder / path.name)) as copy:
            source.backup(copy)
    write_private(folder / "secrets.json", json.dumps(dict(known), indent=2) + "\n")
    return folder


def restore(settings: Settings, known: Mapping[str, str], folder: Path) -> None:
    """Replace both databases by their dumps, and the servers' passwords by theirs.

    SystemExit if the folder has no dumps of this kind of database, before anything is replaced.
    """
    uses_postgres = settings.database == "postgres"
    dumps = [folder / f"{name}.dump" for name in DATABASES] if uses_postgres else sorted(folder.glob("*.db"))
    missing = [path.name for path in [*dumps, folder / "secrets.json"] if not path.is_file()]
    if missing or not dumps:
        kind, lacks = "Postgres" if uses_postgres else "SQLite", ", ".join(missing) or "*.db"
        raise SystemExit(f"{folder} is no backup of {kind}, for it lacks {lacks}: name one that make backup printed")
    for path in dumps:
        if uses_postgres:
            _postgres(settings, known, "psql", path.stem, "--quiet", f"--command={EMPTY}")
            _postgres(settings, known, "pg_restore", path.stem, "--exit-on-error", "--no-owner", str(path))
        else:
            place = settings.prefect_home if path.stem == "prefect" else settings.data
            place.mkdir(parents=True, exist_ok=True)
            for ending in ("", "-wal", "-shm"):
                (place / f"{path.name}{ending}").unlink(missing_ok=True)
            shutil.copyfile(path, place / path.name)
    theirs = json.loads((folder / "secrets.json").read_text())  # the role of Postgres keeps its own
    write_private(settings.folder / "secrets.json", json.dumps({**theirs, "postgres": known["postgres"]}, indent=2))


def upgrade_mlflow(settings: Settings, known: Mapping[str, str]) -> None:
    """Give MLflow's database the schema of the version that is installed.  The address, a secret, is no argument."""
    from mlflow.db import upgrade

    upgrade.main([mlflow_database(settings, known)], standalone_mode=False)


def forget(settings: Settings, known: Mapping[str, str], days: int) -> None:
    """Remove MLflow's runs that were deleted so many days ago, with their files, which the server has."""
    from mlflow.cli import gc

    os.environ.update(client_environment(settings, known))
    given = {"--older-than": f"{days}d", "--backend-store-uri": mlflow_database(settings, known)}
    gc.main([word for option in given.items() for word in option], standalone_mode=False)


def _files(settings: Settings) -> list[Path]:
    """SQLite's files that are there, where the servers use it."""
    places = [settings.prefect_home / "prefect.db", settings.data / "mlflow.db", settings.data / "mlflow-auth.db"]
    return [path for path in places if path.exists() and settings.database != "postgres"]


def _postgres(settings: Settings, known: Mapping[str, str], program: str, database: str, *options: str) -> None:
    """Run one of Postgres's programs on a database.  SystemExit with its last line if it fails."""
    programs = postgres_programs(settings.folder)
    assert programs is not None
    place = {"PGHOST": "127.0.0.1", "PGPORT": str(settings.postgres_port), "PGUSER": USER}
    environment = {**os.environ, **place, "PGPASSWORD": known["postgres"]}
    command = [str(programs / program), *options, f"--dbname={database}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if "error" in line.lower()] or [done.stderr.strip()]
        raise SystemExit(f"{program} failed on {database}: {said[0]}")
