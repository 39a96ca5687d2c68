"""MLflow's tracking store and registry, opened quietly."""

import os
import shlex
import sqlite3
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from noisyir.base import environment
from noisyir.base.errors import ConfigError
from noisyir.engine.locks import held
from noisyir.engine.outside_errors import one_line, without_password

if TYPE_CHECKING:
    from mlflow import MlflowClient

_SCHEME = "sqlite:///"
_REMEDY = (
    "put a backup of it back, or begin an empty registry (trained models stay in the store) with: mv {0} {0}.damaged; "
    "--no-track runs without it"
)

_TIMEOUT = "MLFLOW_HTTP_REQUEST_TIMEOUT"
ANSWER_SECONDS = "15"  # for the first question, put four times; a file on its way may take MLflow's two minutes
_asking = Lock()  # threads share the variable

# mlflow reads these on import, so this module is imported first
for _name, _value in {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # else a server adds two lines to each stage's
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",  # the default waits four minutes for an absent server
}.items():
    os.environ.setdefault(_name, _value)


@dataclass(frozen=True)
class Backend:
    """An open tracking store; `artifacts` is the place of a new experiment's files, None if a server decides."""

    client: "MlflowClient"
    uri: str
    artifacts: str | None

    def experiment_id(self, name: str) -> str:
        """The id of the MLflow experiment `name`, created if it is missing."""
        from mlflow.exceptions import MlflowException

        if found := self.client.get_experiment_by_name(name):
            return str(found.experiment_id)
        try:
            return str(self.client.create_experiment(name, artifact_location=self.artifacts))
        except MlflowException as error:
            if error.error_code == "RESOURCE_ALREADY_EXISTS" and (found := self.client.get_experiment_by_name(name)):
                return str(found.experiment_id)  # another run made it meanwhile
            raise

    def page(self, experiment_id: str, run_id: str) -> str | None:
        """A run's web address without password; None without a server."""
        parts = urlsplit(without_password(self.uri))
        if parts.scheme not in ("http", "https"):
            return None
        return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}/#/experiments/{experiment_id}/runs/{run_id}"

    def current(self) -> AbstractContextManager[None]:
        """Make this the store of mlflow's own code, by the process's environment."""
        return environment("MLFLOW_TRACKING_URI", self.uri)


def connect(home: Path) -> Backend:
    """The store at `MLFLOW_TRACKING_URI`, or the SQLite one in `home`.

    Raises:
        ConfigError: If it cannot be opened.
    """
    uri, database = check_embedded(home)
    served = uri.startswith(("http://", "https://", "databricks"))
    from mlflow import MlflowClient

    try:
        home.mkdir(parents=True, exist_ok=True)
        alone = nullcontext() if served or (database and database.exists()) else exclusive(home)  # one migrates it
        with alone, _asking, environment(_TIMEOUT, os.environ.get(_TIMEOUT) or ANSWER_SECONDS):
            if database and not database.exists():
                make_database(database)
            client = MlflowClient(uri, os.environ.get("MLFLOW_REGISTRY_URI") or uri)
            client.search_experiments(max_results=1)
    except Exception as error:  # MLflow, its database and its server raise anything
        fault = f"{without_password(uri)}: {one_line(error)}"
        raise ConfigError("registry.cannot_open_mlflow", fault=fault) from error
    return Backend(client, uri, None if served else (home / "mlflow-artifacts").as_uri())


def check_embedded(home: Path) -> tuple[str, Path | None]:
    """The tracking store's address, and its file if it is one; MLflow is not loaded."""
    uri = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{home / 'mlflow.db'}"
    # the file of an address such as sqlite:////home/mlflow.db; none of other databases and servers
    database = Path(uri.removeprefix(_SCHEME).partition("?")[0]) if uri.startswith(_SCHEME) else None
    if database is not None:
        check_database(database)
    return uri, database


def exclusive(home: Path) -> AbstractContextManager[bool]:
    """Lock the embedded store and the registry against other processes of this machine."""
    return held(home / ".mlflow.lock")


def check_database(path: Path) -> None:
    """Check a database, if it exists.

    A file without tables was emptied, because new databases are created whole; MLflow would show a blank registry.

    Raises:
        ConfigError: If it is empty, damaged or no database.
    """
    if not path.exists():
        return
    remedy = _REMEDY.format(shlex.quote(str(path)))
    try:
        # rw because a reader, too, must roll back a killed writer's transaction
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as database:
            [(fault,)] = database.execute("PRAGMA quick_check(1)").fetchall()
            tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.Error as error:
        if error.sqlite_errorcode in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return  # another process is writing to it
        raise ConfigError("registry.damaged_database", path=path, fault=one_line(error), remedy=remedy) from error
    if fault != "ok":
        raise ConfigError("registry.damaged_database", path=path, fault=" ".join(fault.split()), remedy=remedy)
    if "alembic_version" not in tables:
        raise ConfigError("registry.empty_database", path=path, remedy=remedy)


def make_database(path: Path) -> None:
    """Make MLflow's tables in a temporary file and move it to `path`, so that a kill leaves no half."""
    from mlflow import MlflowClient

    arriving = path.with_name(f"{path.name}.arriving")
    arriving.unlink(missing_ok=True)
    MlflowClient(f"{_SCHEME}{arriving}").search_experiments(max_results=1)
    arriving.replace(path)
