"""Everything behind passwords: servers, workers, the process that they fork from, flows, the command line."""

import json
import tempfile
from pathlib import Path

import httpx
import pytest

from tests.e2e.site import Site
from tests.tiny import SETTINGS, write_beir

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]


def test_a_run_through_pools_with_passwords():
    with tempfile.TemporaryDirectory(prefix="noisyir-e2e-") as name:
        Path(name).chmod(0o755)  # Postgres may be another user
        site = Site(Path(name), auth=True)
        write_beir(site.home / "beir")
        try:
            site.up()
            assert httpx.post(f"{site.api.base_url}flow_runs/filter", json={}).status_code == 401
            given = [*SETTINGS, f"data.path={site.home / 'beir'}", "methods=[dpr]"]
            run = site.start(
                "train_retriever/on-demand", experiment="demo", overrides=given, pools={"elsewhere": ["cpu", "gpu"]}
            )
            assert site.end(run) == "COMPLETED", site.message(run)
            assert {child["work_pool_name"] for child in site.children(run)} == {"cpu", "gpu"}
            told = json.loads(site.noisyir("status", "--json"))
            assert told["runs"][0]["state"] == "done" and told["models"][0]["name"] == "noisyir-retriever"
            secrets = json.loads((site.home / "servers" / "secrets.json").read_text()).values()
            logs = [path.read_text(errors="replace") for path in (site.home / "servers" / "logs").iterdir()]
            assert not [secret for secret in secrets for log in logs if secret in log]
            assert "starts from nothing" not in site.log("warm")
        finally:
            site.down()
