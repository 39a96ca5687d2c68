"""Backup, restore and upgrade of the servers' databases, on servers of their own over Postgres."""

import tempfile
from pathlib import Path

import pytest

from infra import servers
from infra.servers import Settings
from tests.e2e.site import Site, kill
from tests.flows.test_upkeep import of_an_older_mlflow

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]


@pytest.fixture
def own_site():
    """Servers that no other test uses."""
    with tempfile.TemporaryDirectory(prefix="noisyir-upkeep-") as name:
        Path(name).chmod(0o755)
        site = Site(Path(name))
        if fault := servers.missing_postgres(Settings(home=site.home)):
            pytest.skip(f"no Postgres: {fault}")
        try:
            site.up()
            yield site
        finally:
            site.down()


def mlflow_client(site):
    from mlflow import MlflowClient

    return MlflowClient(f"http://127.0.0.1:{site.ports['MLFLOW_PORT']}")


def test_servers_come_back_from_a_backup_and_from_an_older_schema(own_site):
    site, client = own_site, mlflow_client(own_site)
    client.create_registered_model("kept")
    run = client.create_run("0").info.run_id
    client.create_model_version("kept", f"runs:/{run}/model", run, tags={"recipe": "r"})
    client.set_registered_model_alias("kept", "champion", "1")
    site.api.post("/variables/", json={"name": "kept", "value": "before"}).raise_for_status()
    folder = site.infra("backup").split()[-1]
    assert sorted(path.name for path in Path(folder).iterdir()) == ["mlflow.dump", "prefect.dump", "secrets.json"]
    assert Path(folder).stat().st_mode & 0o777 == 0o700

    client.delete_registered_model("kept")
    site.api.patch("/variables/name/kept", json={"value": "after"}).raise_for_status()
    for name in ("mlflow", "prefect", "postgres"):
        kill(site.pid(name))
    site.infra("restore", folder)
    found = client.get_model_version_by_alias("kept", "champion")
    assert (found.version, found.tags, found.run_id) == ("1", {"recipe": "r"}, run)
    assert site.api.get("/variables/name/kept").json()["value"] == "before"

    gone = client.create_run("0").info.run_id
    client.delete_run(gone)
    site.infra("forget", "--days", "0")
    assert client.get_run(run).info.status == "RUNNING", "what was not deleted stays"
    from mlflow.exceptions import MlflowException

    with pytest.raises(MlflowException, match="not found"):
        client.get_run(gone)

    of_an_older_mlflow(Settings(home=site.home, database="postgres", postgres_port=site.ports["POSTGRES_PORT"]))
    assert "mlflow.dump" in str(list(Path(site.infra("upgrade").partition("backup ")[2].split()[0]).iterdir()))
    assert [model.name for model in client.search_registered_models()] == ["of before"]
    assert site.api.get("/variables/name/kept").json()["value"] == "before"
