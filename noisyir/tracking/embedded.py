"""The embedded tracking database, one SQLite file: whether it is sound; and how it comes to be, whole or not at all."""

import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

from noisyir.engine.outside_errors import one_line
from noisyir.errors import ConfigError

_SCHEME = "sqlite:///"
_REMEDY = (
    "put a backup of it back, or begin an empty registry (trained models stay in the store) with: mv {0} {0}.damaged; "
    "--no-track runs without it"
)


def database_of(uri: str) -> Path | None:
    """The file of an address such as sqlite:////home/mlflow.db; None for other kinds of databases and for servers."""
    return Path(uri.removeprefix(_SCHEME).partition("?")[0]) if uri.startswith(_SCHEME) else None


def check_database(path: Path) -> None:
    """ConfigError where a database is there that is empty, damaged or none, with what to do.

    A file without tables is no new database: those come into being whole.  So it was emptied, and an MLflow that
    fills it again would show a blank registry as if nothing had been registered.
    """
    if not path.exists():
        return
    remedy = _REMEDY.format(shlex.quote(str(path)))
    try:
        # rw, for a reader, too, has to take back what a killed writer left half done
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as database:
            [(fault,)] = database.execute("PRAGMA quick_check(1)").fetchall()
            tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.Error as error:
        if error.sqlite_errorcode in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return  # another process is writing to it
        raise ConfigError(f"the tracking database {path} is damaged: {one_line(error)}: {remedy}") from error
    if fault != "ok":
        raise ConfigError(f"the tracking database {path} is damaged: {' '.join(fault.split())}: {remedy}")
    if "alembic_version" not in tables:
        raise ConfigError(f"the tracking database {path} is empty, or none of MLflow's: {remedy}")


def make_database(path: Path) -> None:
    """Make MLflow's tables in a file beside `path` and move it there, so that a kill leaves no half of it."""
    from mlflow import MlflowClient

    arriving = path.with_name(f"{path.name}.arriving")
    arriving.unlink(missing_ok=True)
    MlflowClient(f"{_SCHEME}{arriving}").search_experiments(max_results=1)
    arriving.replace(path)
