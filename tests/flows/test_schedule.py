"""`noisyir schedule`: a deployment of the nightly, changed and removed by the same command, and no half of one."""

import asyncio
import re
import shlex
import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from noisyir.base.errors import ConfigError
from noisyir.front import cli


def test_an_experiment_is_scheduled_changed_and_removed(prefect_api, tmp_path, capsys):
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.actions import WorkPoolCreate
    from prefect.exceptions import ObjectNotFound
    from prefect.states import Cancelled, Pending

    path = tmp_path / "pairs.yaml"
    path.write_text("{name: my pairs, data: {kind: pydocs}, train: {epochs: 1}}\n")
    with get_client(sync_client=True) as client:
        if "driver" not in {pool.name for pool in client.read_work_pools()}:
            assert cli.main(["schedule", str(path)]) == 1
            assert "has no pool driver: python -m infra.bootstrap" in capsys.readouterr().err
            client.create_work_pool(WorkPoolCreate(name="driver", type="process"))
        for cron in ("0 2 * * *", "30 1 * * 1-5"):
            assert (
                cli.main(
                    [
                        "schedule",
                        str(path),
                        "seed=7",
                        "--cron",
                        cron,
                        "--timezone",
                        "Europe/Vienna",
                        "--min-seeds",
                        "1",
                        "--fail-on",
                        "rows, ids",
                        "--ask-above",
                        "0.1",
                    ]
                )
                == 0
            )
            found = client.read_deployment_by_name("nightly/my pairs")
            (schedule,) = found.schedules
            assert (schedule.schedule.cron, schedule.schedule.timezone) == (cron, "Europe/Vienna") and schedule.active
        assert found.parameters["gate"] == {"min_seeds": 1} and found.parameters["ask"] == {"above": 0.1}
        assert found.parameters["fail_on"] == ["rows", "ids"]
        assert found.parameters["experiment"] == str(path) and found.parameters["overrides"] == ["seed=7"]
        assert {"noisyir", "scheduled"} <= set(found.tags) and found.work_queue_name == "scheduled"
        assert found.entrypoint == "noisyir.flows.nightly.nightly"
        assert "gate        promotes nothing" in capsys.readouterr().out
        client.update_deployment_schedule(found.id, schedule.id, active=False)  # as Prefect's page does
        assert cli.main(["schedule", str(path), "seed=7"]) == 0
        resume = f"prefect deployment schedule resume 'nightly/my pairs' {schedule.id}"
        assert f"0 2 * * * UTC; still paused: {resume}\n" in capsys.readouterr().out
        (schedule,) = client.read_deployment_by_name("nightly/my pairs").schedules
        assert schedule.schedule.cron == "0 2 * * *" and not schedule.active
        assert cli.main(["schedule", str(path), "data.promotion_share=0.5", "--environment", "staging"]) == 0
        said = capsys.readouterr().out
        assert "promotes nothing" not in said
        assert cli.main(["schedule", str(path), "--environment", "staging"]) == 0
        typed = capsys.readouterr().out.splitlines()[-1].partition("noisyir ")[2]
        assert client.read_deployment_by_name("nightly/my pairs-staging")
        staging = client.read_deployment_by_name("nightly/my pairs-staging").id
        run = client.create_flow_run_from_deployment(staging, state=Pending()).id
        assert cli.main(typed.split()) == 1, "Prefect cannot end a run without its deployment"
        (cure,) = re.findall(r"flow-run cancel (\S+)", capsys.readouterr().err)
        assert cure == str(run)
        client.set_flow_run_state(run, Cancelled(), force=True)
        assert cli.main(typed.split()) == 0, "the printed command removes it"
        with pytest.raises(ObjectNotFound):
            client.read_deployment_by_name("nightly/my pairs-staging")
        assert client.read_deployment_by_name("nightly/my pairs"), "another environment's stays"
        other = path.rename(tmp_path / "other.yaml")
        assert cli.main(["schedule", str(other)]) == 1, "a second file of this name"
        assert f"nightly/my pairs trains {path}: give this one another name" in capsys.readouterr().err
        assert cli.main(["schedule", str(other), "--remove"]) == 0 and cli.main(["schedule", str(other)]) == 0
        capsys.readouterr()
        assert cli.main(["schedule", str(other), "name=my pairs-b"]) == 0
        assert f"stop        noisyir schedule {other} 'name=my pairs-b' --remove" in capsys.readouterr().out
        assert cli.main(["schedule", str(other), "--environment", "b"]) == 1, "a name that another experiment has"
        said = capsys.readouterr().err
        assert f"nightly/my pairs-b trains {other} name=my pairs-b: give" in said
        (cure,) = re.findall(r"remove that first: noisyir (schedule .* --remove)$", said.strip())
        assert cli.main(shlex.split(cure)) == 0 and client.read_deployment_by_name("nightly/my pairs")
        with pytest.raises(ObjectNotFound):
            client.read_deployment_by_name("nightly/my pairs-b")
        assert cli.main(["schedule", str(other), "--environment", "b"]) == 0


def test_a_bad_schedule_is_refused_before_anything_is_deployed(prefect_api):
    from noisyir.flows.scheduling import schedule, unschedule

    how = {"timezone": None, "environment": None, "overrides": (), "night": {}}
    for cron in ("soon", "0 2 * * * *", "@daily 2"):
        with pytest.raises(ConfigError, match=f"--cron {re.escape(repr(cron))} is no schedule: give five fields"):
            schedule("demo", cron, **how)
    for never in ("0 2 30 2 *", "0 2 31 4,6 *"):
        with pytest.raises(ConfigError, match=f"--cron {re.escape(repr(never))} names a date that never comes"):
            schedule("demo", never, **how)

    async def in_a_notebook():
        schedule("demo", "0 2 30 2 *", **how)

    with pytest.raises(ConfigError, match="names a date that never comes"):
        asyncio.run(in_a_notebook())
    with pytest.raises(SystemExit, match="2"):
        cli.main(["schedule", "demo", "--min-seeds", "0"])
    with pytest.raises(ConfigError, match="--timezone 'Mars' is no zone: give one such as"):
        schedule("demo", "0 2 * * *", **{**how, "timezone": "Mars"})
    with pytest.raises(ConfigError, match="idz"):
        schedule("demo", "0 2 * * *", **{**how, "night": {"fail_on": ("idz",)}})
    with pytest.raises(ConfigError, match="only retrievers have a nightly"):
        schedule("squad_cds_small", "0 2 * * *", **how)
    with pytest.raises(ConfigError, match="nightly/nfcorpus is not scheduled"):
        unschedule("nfcorpus", environment=None)


def test_without_a_server_the_command_names_one(prefect_api):
    from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

    from noisyir.flows.scheduling import deployment_of, unschedule

    with temporary_settings(restore_defaults={PREFECT_API_URL}), pytest.raises(ConfigError, match="make up"):
        deployment_of("demo", None, ())
    away = {PREFECT_API_URL: "http://127.0.0.1:9/api", PREFECT_CLIENT_MAX_RETRIES: 0}
    with (
        temporary_settings(away),
        pytest.raises(ConfigError, match=r"not answer at http://127\.0\.0\.1:9/api: .* make up"),
    ):
        unschedule("demo", environment=None)


def test_a_server_that_never_answers_is_given_up(prefect_api, capsys, monkeypatch):
    from prefect.settings import PREFECT_API_REQUEST_TIMEOUT, PREFECT_API_URL, temporary_settings

    from noisyir.flows import embedded

    soon = dict.fromkeys(embedded.FIRST_QUESTION, 0) | {PREFECT_API_REQUEST_TIMEOUT: 0.5}
    monkeypatch.setattr(embedded, "FIRST_QUESTION", soon)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        at = f"http://127.0.0.1:{silent.getsockname()[1]}/api"
        with temporary_settings({PREFECT_API_URL: at}):
            assert cli.main(["schedule", "demo"]) == 1
    assert f"Prefect does not answer at {at}: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("status", "said"), [(401, "refuses the password at {}: set PREFECT_API_AUTH"), (200, "does not answer at {}: ")]
)
def test_a_wrong_password_and_another_servers_page_are_told_before_anything_is_deployed(
    prefect_api, capsys, status, said
):
    from prefect.settings import PREFECT_API_URL, temporary_settings

    class Page(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"<html>")

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        at = f"http://127.0.0.1:{server.server_port}/api"
        with temporary_settings({PREFECT_API_URL: at}):
            assert cli.main(["schedule", "demo"]) == 1
        server.shutdown()
    assert f"Prefect {said.format(at)}" in capsys.readouterr().err
