"""Backup, restore and upgrade of the databases, on a Postgres of their own; with all servers: tests/e2e."""

import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import text

from infra import servers, upkeep
from infra.servers import Settings
from infra.supervision import Supervisor
from tests.local import free_port

OLDER = "head-4"  # revisions


def of_an_older_mlflow(settings):
    """MLflow's database as an older version made it, with a registered model."""
    from mlflow.store.db.utils import _get_alembic_config, create_sqlalchemy_engine
    from mlflow.store.tracking.dbmodels.initial_models import Base

    url = servers.mlflow_database(settings, servers.passwords(settings))
    engine = create_sqlalchemy_engine(url)
    with engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    Base.metadata.create_all(engine)
    config = _get_alembic_config(url)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, OLDER)
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO registered_models (name, creation_time) VALUES ('of before', 1)"))
    engine.dispose()


@pytest.fixture
def settings():
    """A Postgres with both databases, and nothing else that `make up` starts."""
    with tempfile.TemporaryDirectory(prefix="noisyir-upkeep-") as name:
        Path(name).chmod(0o755)
        settings = Settings(Path(name), database="postgres", postgres_port=free_port())
        if fault := servers.missing_postgres(settings):
            pytest.skip(f"no Postgres: {fault}")
        supervisor, known = Supervisor(settings.folder), servers.passwords(settings)
        supervisor.begin(servers.supervised(settings, known), servers.inherited())
        try:
            supervisor.run([servers.postgres(settings, known)])
            yield settings
        finally:
            supervisor.stop(["postgres"], "postgres")
            supervisor.end()


def ask(settings, database, statement):
    import psycopg2

    place = {"host": "127.0.0.1", "port": settings.postgres_port, "user": servers.USER}
    password = servers.passwords(settings)["postgres"]
    with closing(psycopg2.connect(dbname=database, password=password, **place)) as connection:
        with connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else None


def test_both_databases_come_back_and_an_older_schema_is_upgraded_with_what_is_in_it(settings):
    from mlflow import MlflowClient

    known = servers.passwords(settings)
    ask(settings, "prefect", "CREATE TABLE kept AS SELECT 'before' AS value; CREATE INDEX ON kept USING gin "
                             "(value gin_trgm_ops)")  # fmt: skip
    of_an_older_mlflow(settings)
    folder = upkeep.backup(settings, known)
    assert sorted(path.name for path in folder.iterdir()) == ["mlflow.dump", "prefect.dump", "secrets.json"]
    assert folder.stat().st_mode & 0o777 == 0o700

    ask(settings, "prefect", "DROP TABLE kept; CREATE TABLE later (one int)")
    ask(settings, "mlflow", "DELETE FROM registered_models")
    upkeep.restore(settings, known, folder)
    assert ask(settings, "prefect", "SELECT value FROM kept") == [("before",)]
    tables = ask(settings, "prefect", "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    assert tables == [("kept",)], "what came after the backup is gone"
    assert ask(settings, "mlflow", "SELECT name FROM registered_models") == [("of before",)]
    assert servers.passwords(settings) == known

    upkeep.upgrade_mlflow(settings, known)
    client = MlflowClient(servers.mlflow_database(settings, known))
    assert [model.name for model in client.search_registered_models()] == ["of before"]


def test_a_folder_that_is_no_backup_replaces_nothing(settings, tmp_path):
    known = servers.passwords(settings)
    ask(settings, "prefect", "CREATE TABLE kept (one int)")
    with pytest.raises(SystemExit, match=r"it lacks prefect.dump, mlflow.dump, secrets.json: name one"):
        upkeep.restore(settings, known, tmp_path)
    assert ask(settings, "prefect", "SELECT * FROM kept") == []


def test_sqlite_files_come_back(tmp_path):
    import sqlite3

    settings = replace(Settings(tmp_path), database="sqlite")
    settings.prefect_home.mkdir(parents=True)
    files = {settings.prefect_home / "prefect.db", settings.data / "mlflow.db"}
    for path in files:
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("CREATE TABLE kept AS SELECT 1 AS one")
    known = servers.passwords(settings)
    folder = upkeep.backup(settings, known)
    for path in files:
        path.write_bytes(b"damaged")
    upkeep.restore(settings, known, folder)
    for path in files:
        with closing(sqlite3.connect(path)) as database:
            assert database.execute("SELECT one FROM kept").fetchall() == [(1,)]
