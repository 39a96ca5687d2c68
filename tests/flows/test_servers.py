"""The servers of one machine, of compose and of Kubernetes: closed by default, no secrets in sight, up and down."""

import asyncio
import base64
import json
import os
import queue
import re
import shlex
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from configparser import RawConfigParser
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
import yaml
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from supervisor.datatypes import dict_of_key_value_pairs

from infra import servers, supervision, up
from infra.prefect_app import OwnPages
from infra.servers import Settings
from infra.supervision import MARK, Service, Supervisor, marked, stop
from noisyir.engine.store import Store
from noisyir.methods.experiments import load
from noisyir.registry.promote import Decision
from tests.local import free_port
from tests.tiny import write_beir

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())
SECRET_VARIABLES = ("POSTGRES_PASSWORD", "PREFECT_AUTH", "MLFLOW_PASSWORD", "MLFLOW_CSRF_KEY", "S3_PASSWORD")


class Program(NamedTuple):
    command: list[str]
    environment: dict[str, str]


def programs(settings: Settings, **known: str) -> dict[str, Program]:
    """What supervisord reads of each program."""
    text = servers.supervised(settings, known or servers.passwords(settings))
    here = {"here": str(settings.folder)}
    read = RawConfigParser(inline_comment_prefixes=(";", "#"))
    read.read_string(text)
    return {
        section.removeprefix("program:"): Program(
            shlex.split(read[section]["command"] % here),
            dict_of_key_value_pairs(read[section].get("environment", "") % here),
        )
        for section in read.sections()
        if section.startswith("program:")
    }


# Other sites' pages


@pytest.mark.parametrize(
    ("headers", "own"),
    [
        ([("host", "127.0.0.1:4200")], True),
        ([("host", "LOCALHOST:4200"), ("origin", "http://localhost:4200")], True),
        ([("host", "127.0.0.1:4200"), ("origin", "http://evil.example")], False),
        ([("host", "127.0.0.1:4200"), ("origin", "http://127.0.0.1:4201")], False),
        ([("host", "127.0.0.1:4200"), ("origin", "null")], False),
        ([("host", "127.0.0.1:4200"), ("origin", "http://localhost:4200"), ("origin", "http://evil.example")], False),
        ([("host", "evil.example:4200")], False),
        ([("host", "127.0.0.1.evil.example")], False),
        ([], False),
    ],
)
def test_a_server_answers_its_own_pages_and_programs_alone(headers, own):
    pages = OwnPages(None, servers.LOOPBACK, 4200)
    assert pages.is_own([(name.encode(), value.encode()) for name, value in headers]) is own


def test_a_page_of_the_server_may_call_its_own_server_only():
    client = TestClient(OwnPages(PlainTextResponse("page"), ["127.0.0.1"], 4200), base_url="http://127.0.0.1:4200")
    policy = client.get("/").headers["content-security-policy"].split()
    assert policy[:2] == ["connect-src", "'self'"]
    assert {urlsplit(source).hostname for source in policy[2:]} == {"127.0.0.1"}
    assert "ws://127.0.0.1:4200" in policy


def test_the_name_that_the_refusal_advises_to_allow_is_then_answered(tmp_path, monkeypatch):
    def answers(host):
        command = programs(Settings(home=tmp_path))["prefect"].command
        pages = OwnPages(None, command[-1].split(","), int(command[-2]))
        return pages.is_own([(b"host", host.encode()), (b"origin", f"http://{host}".encode())])

    assert not answers("box.example:9000")
    monkeypatch.setenv("NOISYIR_ALLOWED_HOSTS", "box.example:9000")
    assert answers("box.example:9000") and answers("127.0.0.1:4200") and not answers("evil.example")


# One machine


def test_servers_listen_on_loopback_unless_told(tmp_path):
    settings = Settings(home=tmp_path)
    assert [service.listens[0] for service in servers.pages(settings)] == ["127.0.0.1", "127.0.0.1"]
    found = programs(settings)
    assert found["prefect"].command[-3:-1] == ["127.0.0.1", "4200"]
    assert found["mlflow"].command[found["mlflow"].command.index("--host") + 1] == "127.0.0.1"


def test_other_hosts_need_passwords(tmp_path):
    with pytest.raises(SystemExit, match="AUTH=1"):
        Settings(home=tmp_path, host="0.0.0.0")
    opened = programs(Settings(home=tmp_path, host="0.0.0.0", auth=True))
    assert opened["prefect"].environment["PREFECT_SERVER_API_AUTH_STRING"].startswith("noisyir:")
    assert "basic-auth" in opened["mlflow"].command
    assert opened["mlflow"].environment["MLFLOW_AUTH_ADMIN_PASSWORD"]


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_no_secret_is_on_a_command_line_and_files_with_secrets_are_private(tmp_path, monkeypatch, database):
    monkeypatch.setattr(servers, "postgres_programs", lambda folder: Path("/usr/bin"))
    settings = Settings(home=tmp_path, auth=True, database=database)
    secrets = servers.passwords(settings).values()
    found = programs(settings)
    assert ("postgres" in found) == (database == "postgres")
    assert not [word for program in found.values() for word in program.command for one in secrets if one in word]
    holders = [path for path in tmp_path.rglob("*") if path.is_file() and any(s in path.read_text() for s in secrets)]
    assert holders and all(path.stat().st_mode & 0o777 == 0o600 for path in holders)
    assert servers.passwords(settings) == servers.passwords(settings)


def test_telemetry_is_off_and_the_callers_servers_are_not_inherited(tmp_path, monkeypatch):
    monkeypatch.setenv("PREFECT_API_KEY", "of somewhere else")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://elsewhere")
    monkeypatch.setenv("NOISYIR_WEBHOOK", "https://secret")
    assert servers.inherited().items() >= servers.TELEMETRY_OFF.items()
    assert {"PREFECT_API_KEY", "MLFLOW_TRACKING_URI", "NOISYIR_WEBHOOK"}.isdisjoint(servers.inherited())
    assert "elsewhere" not in servers.supervised(Settings(home=tmp_path), servers.passwords(Settings(home=tmp_path)))


def test_prefects_clients_read_one_certificate_and_not_all_of_the_machine(tmp_path):
    path = programs(Settings(tmp_path))["driver"].environment["PREFECT_API_SSL_CERT_FILE"]
    assert ssl.create_default_context(cafile=path).cert_store_stats()["x509"] == 1


def test_a_home_may_have_any_name_that_supervisords_settings_can_hold(tmp_path):
    for name in ("a b", "100 %(x)s", "a;#b"):
        home = tmp_path / name
        assert programs(Settings(home))["gpu"].environment["NOISYIR_HOME"] == str(home)
    for name in ('a "b"', "it's", "a #b", "a ;b", "a\\b"):
        with pytest.raises(SystemExit, match="choose another"):
            programs(Settings(tmp_path / name))


def test_each_pool_has_a_worker_and_each_gpu_one_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    found = programs(Settings(home=tmp_path))
    workers = [name for name, program in found.items() if "infra.worker" in program.command]
    assert workers == ["driver", "cpu", "gpu-0", "gpu-1"]
    assert [found[name].environment["CUDA_VISIBLE_DEVICES"] for name in workers] == ["", "", "0", "1"]
    monkeypatch.setenv("NOISYIR_GPU_WORKERS", "1")
    assert list(servers.gpu_workers()) == ["gpu"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert list(servers.gpu_workers()) == ["gpu"]


def test_a_taken_port_is_a_clear_error(tmp_path, monkeypatch):
    monkeypatch.setattr(supervision, "PORT_SECONDS", 0)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        service = servers.pages(Settings(home=tmp_path, prefect_port=taken.getsockname()[1]))[0]
        with pytest.raises(SystemExit, match="PREFECT_PORT="):
            supervision.refuse_taken_port(service)


@pytest.mark.parametrize("value", ["80", "many", "70000"])
def test_a_port_is_a_port(value, monkeypatch):
    monkeypatch.setenv("PREFECT_PORT", value)
    with pytest.raises(SystemExit, match="1024 to 65535"):
        servers.asked()


def test_a_second_up_takes_the_settings_of_the_first_and_refuses_others(tmp_path, monkeypatch):
    for variable in ("NOISYIR_HOST", "NOISYIR_DATABASE", "PREFECT_PORT", "MLFLOW_PORT", "POSTGRES_PORT"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(Supervisor, "is_up", lambda self: True)
    (tmp_path / "settings.json").write_text(json.dumps({"prefect_port": 4321, "auth": True}))
    settings = up.settled(tmp_path, Supervisor(tmp_path), auth=False)
    assert settings.auth and settings.prefect_port == 4321
    monkeypatch.setenv("PREFECT_PORT", "4322")
    with pytest.raises(SystemExit, match="make down"):
        up.settled(tmp_path, Supervisor(tmp_path), auth=False)


@pytest.fixture
def short_folder():
    """A folder with a path that is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="noisyir-") as name:
        yield Path(name)


def test_servers_that_are_slow_to_start_leave_what_the_next_command_needs(short_folder, monkeypatch):
    for name in ("PREFECT_PORT", "MLFLOW_PORT"):
        monkeypatch.setenv(name, str(free_port()))
    settings = Settings(short_folder, database="sqlite", **{k: v for k, v in servers.asked().items() if "port" in k})
    supervisor = Supervisor(settings.folder)
    try:
        supervisor.begin(servers.supervised(settings, servers.passwords(settings)), servers.inherited())
        monkeypatch.setattr(supervision, "START_SECONDS", 0)
        with pytest.raises(SystemExit, match="type the same command again"):
            up.up(supervisor, settings)
        assert f"export MLFLOW_TRACKING_URI={settings.pages['mlflow']}\n" in (settings.folder / "env").read_text()
        assert {"prefect", "mlflow"} <= supervisor.pids().keys(), "they go on starting"
    finally:
        up.down(supervisor)


PARENT = """\
[program:parent]
command="{python}" -m infra.supervision -c "{code}"
environment=NOISYIR_SERVER="{folder}:all/parent"
autostart=false
autorestart={restarts}
startsecs=2
stopasgroup=true
killasgroup=true
stdout_logfile=%(here)s/logs/parent.log
"""


def begun(folder, code, *, restarts):
    """A supervisord with one service, which runs this code."""
    head = servers.supervised(Settings(folder), {"prefect": "", "mlflow": ""}).partition("[program:")[0]
    program = PARENT.format(python=sys.executable, code=code, folder=folder, restarts=restarts)
    supervisor, service = Supervisor(folder), Service("parent", "all", lambda since: True)
    supervisor.begin(head + program, dict(os.environ))
    assert supervisor.run([service]) == ["parent"]
    return supervisor, service


def test_what_a_service_started_in_another_session_is_stopped_with_it(short_folder):
    starts_another = "import subprocess as s, time; s.Popen(['sleep', '60'], start_new_session=True); time.sleep(60)"
    supervisor, service = begun(short_folder, starts_another, restarts=False)
    try:
        assert supervisor.run([service]) == []
        end = time.monotonic() + 60
        while len(supervisor.started_by("all")) < 2 and time.monotonic() < end:
            time.sleep(0.05)
        assert len(supervisor.started_by("all")) == 2 and set(supervisor.pids()) == {"parent"}
        supervisor.stop(["parent"], "all")
        assert supervisor.started_by("all") == []
    finally:
        supervisor.end()
    assert not supervisor.is_up()


def test_what_a_killed_service_left_behind_ends_before_it_is_started_again(short_folder):
    starts_another = "import subprocess as s, time; s.Popen(['sleep', '60']); time.sleep(60)"
    supervisor, _ = begun(short_folder, starts_another, restarts=True)
    try:
        time.sleep(2.5)  # supervisord holds it for started
        before = {process.pid for process in supervisor.started_by("all")}
        os.kill(supervisor.pids()["parent"], signal.SIGKILL)
        end = time.monotonic() + 60
        while before & {process.pid for process in supervisor.started_by("all")} and time.monotonic() < end:
            time.sleep(0.1)
        assert not before & {process.pid for process in supervisor.started_by("all")}
    finally:
        supervisor.stop(["parent"], "all")
        supervisor.end()


def test_a_process_that_does_not_listen_to_reason_is_killed(monkeypatch):
    monkeypatch.setattr("infra.supervision.STOP_SECONDS", 0.5)
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
    mark = f"test-{os.getpid()}"
    command = [sys.executable, "-c", deaf]
    process = subprocess.Popen(command, env={**os.environ, MARK: f"{mark}/x"}, stdout=subprocess.PIPE)
    process.stdout.readline()
    assert [found.pid for found in marked(mark)] == [process.pid] and marked(mark[:-1]) == []
    stop(marked(mark))
    assert marked(mark) == []


# A Prefect server


def name_of(automation: str) -> str:
    from infra import bootstrap

    return yaml.safe_load(bootstrap.WANTED.template)["automations"][automation]["name"]


def test_bootstrap_twice_changes_nothing(prefect_api, monkeypatch):
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.actions import WorkPoolUpdate
    from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

    from infra import bootstrap

    monkeypatch.setenv("NOISYIR_WEBHOOK", "http://127.0.0.1:9/secret")

    def state():
        with get_client(sync_client=True) as client:
            assert client.read_automations_by_name(name_of("silent"))[0].trigger.within.total_seconds() == 120
            things = [*client.read_work_pools(), *client.read_automations()]
            block = client.read_block_document_by_name(bootstrap.WEBHOOK, "webhook", include_secrets=False)
            assert "secret" not in str(block.data)
            return sorted((thing.name, str(thing.id), str(getattr(thing, "updated", ""))) for thing in [*things, block])

    with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: 30}):
        with get_client(sync_client=True) as client:
            bootstrap.prepare(client, gpus=2)
            first = state()
            bootstrap.prepare(client)
        assert state() == first
        assert {"driver", "cpu", "gpu", name_of("stuck"), name_of("failures")} <= {name for name, _, _ in first}
        with get_client(sync_client=True) as client:
            assert client.read_work_pool("gpu").concurrency_limit == 2
            with pytest.raises(SystemExit, match="type process"):
                bootstrap.prepare(client, "kubernetes")
            own = bootstrap.base_template("cpu", "kubernetes")
            client.update_work_pool("cpu", WorkPoolUpdate(base_job_template=own))
            bootstrap.prepare(client)
            assert client.read_work_pool("cpu").base_job_template == own, "what people changed stays"
            bootstrap.prepare(client, reset=True)
            assert client.read_work_pool("cpu").base_job_template == bootstrap.base_template("cpu", "process")


def test_bootstrap_removes_its_own_automations_that_are_declared_no_more(prefect_api, monkeypatch):
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

    from infra import bootstrap

    def named(name: str, tags: list[str]):
        made = bootstrap.automation("silent", SECONDS=120)
        return made.model_copy(update={"name": name, "enabled": False, "tags": tags})

    with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: 30}), get_client(sync_client=True) as client:
        monkeypatch.setitem(bootstrap.DECLARED["automations"], "once", {"name": "noisyir: of once"})
        bootstrap.ensure_automation(client, named("noisyir: of once", []))
        client.create_automation(named("noisyir: tell of late flow runs", []))
        client.create_automation(named("noisyir: my own", ["ours"]))
        bootstrap.prepare(client)
        assert client.read_automations_by_name("noisyir: of once"), "it is declared"
        monkeypatch.delitem(bootstrap.DECLARED["automations"], "once")
        bootstrap.prepare(client)
        names = {found.name for found in client.read_automations()}
        assert names.isdisjoint({"noisyir: of once", "noisyir: tell of late flow runs"})
        assert {"noisyir: my own", name_of("silent")} <= names


def test_a_run_of_a_schedule_that_fails_is_told_to_the_webhook_and_others_are_not(prefect_api, webhook, monkeypatch):
    from prefect import flow, tags
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

    from infra import bootstrap

    @flow(name="nightly", flow_run_name="of {whom}")
    def fails(whom: str) -> None:
        raise ValueError("no disk left")

    def fails_with(whom: str, *given: str) -> None:
        with tags(*given), pytest.raises(ValueError, match="no disk left"):
            fails(whom)

    told = webhook.messages
    monkeypatch.setenv("NOISYIR_WEBHOOK", webhook.url)
    with get_client(sync_client=True) as client:
        with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: 30}):
            bootstrap.prepare(client)
        try:
            text = ""
            for _ in range(40):  # the server learns of a new automation a little later
                fails_with("tonight", "noisyir", "auto-scheduled")
                with suppress(queue.Empty):
                    text = told.get(timeout=3)["text"]
                    break
            for others in (("noisyir",), ("auto-scheduled", "other-team")):  # by hand, and not ours
                fails_with("others", *others)
            time.sleep(3)
            alarms = [text, *(told.get()["text"] for _ in range(told.qsize()))]  # Prefect may tell one twice
        finally:
            client.delete_automation(client.read_automations_by_name(name_of("failures"))[0].id)
    assert all(one.startswith("nightly/of tonight is Failed: ") for one in alarms)


def test_events_of_scheduled_runs_are_told_in_their_own_words(prefect_api, webhook, tmp_path):
    from prefect import flow, tags
    from prefect.client.orchestration import get_client
    from prefect.events import emit_event

    from infra import bootstrap
    from noisyir.flows import artifacts, stops

    write_beir(tmp_path / "beir", documents=8, train=3, held_out=1)
    with (tmp_path / "beir/qrels/train.tsv").open("a") as file:
        file.write("nobody\td1\t1\n")
    exp = load("demo", ["data.kind=beir", f"data.path={tmp_path / 'beir'}"])

    @flow(name="night")
    def night() -> None:
        assert stops.refused_by_check(exp, ("ids",))
        artifacts.tell_of_run("demo", "told to nobody until it is switched on")
        decision = Decision("noisyir-retriever", "3", "promoted", (), "2", "3", "", "", None)
        artifacts.tell_of_decision(decision, Store(tmp_path / "store", home=tmp_path))
        for asks in ("yes", "no"):
            emit_event(stops.FINISHED, {**artifacts.about("demo"), "noisyir.asks": asks, "noisyir.summary": asks})

    with get_client(sync_client=True) as client:
        block = bootstrap.ensure_webhook(client, webhook.url)
        wanted = [
            bootstrap.automation(name, WEBHOOK=block) for name in ("promotions", "checks", "questions", "results")
        ]
        for one in wanted:
            bootstrap.ensure_automation(client, one)
        told, end = set(), time.monotonic() + 180
        try:
            while len(told) < 3 and time.monotonic() < end:  # the server learns of a new automation a little later
                with tags("noisyir", "auto-scheduled"):
                    night()
                time.sleep(3)
                told |= {webhook.messages.get()["text"] for _ in range(webhook.messages.qsize())}
        finally:
            for one in wanted:
                client.delete_automation(client.read_automations_by_name(one.name)[0].id)
    assert told >= {"noisyir-retriever v3 promoted", "yes"} and len(told) == 3, told
    assert any(text.startswith("demo: ids.") for text in told)


def test_a_run_that_nobody_answers_goes_on(prefect_api):
    from prefect import flow
    from prefect.client.orchestration import get_client
    from prefect.states import Suspended

    from infra import bootstrap

    @flow(name="asks")
    def asks() -> None: ...

    with get_client(sync_client=True) as client:
        deployment = client.create_deployment(client.create_flow(asks), "on-demand")
        wanted = bootstrap.automation("unanswered", ANSWER=10)
        bootstrap.ensure_automation(client, wanted)
        asking, resumed, end = [], [], time.monotonic() + 180
        try:
            while not resumed and time.monotonic() < end:  # the server learns of a new automation a little later
                run = client.create_flow_run_from_deployment(deployment, tags=["noisyir"])
                client.set_flow_run_state(run.id, Suspended(timeout_seconds=600), force=True)
                asking.append(run.id)
                time.sleep(3)
                resumed = [run for run in map(client.read_flow_run, asking) if run.state.name == "Resuming"]
        finally:
            client.delete_automation(client.read_automations_by_name(wanted.name)[0].id)
    assert resumed


def test_a_version_that_is_registered_is_put_before_the_gate_once_that_is_switched_on(prefect_api):
    from prefect import flow
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter

    from infra import bootstrap
    from noisyir.app.runs import Outcome
    from noisyir.flows.artifacts import tell_of_versions

    @flow(name="decides")
    def decides(model: str, version: str) -> None: ...

    def told() -> list[dict[str, object]]:
        wanted = FlowRunFilter.model_validate({"deployment_id": {"any_": [deployment]}})
        return [run.parameters for run in client.read_flow_runs(flow_run_filter=wanted)]

    outcome = Outcome("demo", {}, {}, {"registered": "noisyir-retriever v3, noisyir-ranker v1"})
    with get_client(sync_client=True) as client:
        deployment = client.create_deployment(client.create_flow(decides), "on-demand")
        promotion = bootstrap.automation("promotion", DEPLOYMENT=deployment)
        bootstrap.ensure_automation(client, promotion)
        (automation,) = client.read_automations_by_name(promotion.name)
        assert not automation.enabled
        client.resume_automation(automation.id)
        bootstrap.ensure_automation(client, promotion)
        try:
            end = time.monotonic() + 120
            while not told() and time.monotonic() < end:  # the server learns of a new automation a little later
                tell_of_versions(outcome)
                time.sleep(3)
            assert told()[0] == {"model": "noisyir-retriever", "version": "3"}
        finally:
            client.delete_automation(automation.id)


def test_a_run_that_never_begins_is_crashed(prefect_api):
    from prefect import flow
    from prefect.client.orchestration import get_client
    from prefect.states import Pending

    from infra import bootstrap

    with get_client(sync_client=True) as client:
        bootstrap.ensure_automation(client, bootstrap.automation("stuck", SECONDS=10))
        begun, crashed = [], []
        end = time.monotonic() + 180
        try:
            while not crashed and time.monotonic() < end:  # the server learns of a new automation a little later
                begun.append(
                    client.create_flow_run(
                        flow(lambda: None, name="taken by a worker"), state=Pending(), tags=["noisyir"]
                    ).id
                )
                time.sleep(3)
                crashed = [run.state for run in map(client.read_flow_run, begun) if run.state.is_crashed()]
        finally:
            client.delete_automation(client.read_automations_by_name(name_of("stuck"))[0].id)
    assert crashed
    assert crashed[0].message == "Nothing was heard of it for 10 s: its process or its machine died."


@pytest.mark.parametrize(("heartbeat", "seconds", "message"), [(30, "60", "at least 90"), (0, None, "no heartbeats")])
def test_a_busy_run_is_not_taken_for_a_dead_one(prefect_api, heartbeat, seconds, message):
    from infra import bootstrap

    with pytest.raises(SystemExit, match=message):
        bootstrap._window(heartbeat, seconds)


# Compose and Kubernetes


def test_images_have_no_compiler_and_run_as_a_user_on_a_root_that_is_read_only():
    for name in ("Dockerfile", "Dockerfile.gpu"):
        text = (ROOT / "docker" / name).read_text()
        assert re.findall(r"^USER (.*)$", text, re.M) == ["1000"], "by number: Kubernetes cannot tell names from root"
        kept = set(re.findall(r"install --yes --no-install-recommends (.*?) *\\\n", text)) - {"libgomp1"}
        purged = set(re.findall(r"apt-get purge --yes --auto-remove (.*?) *\\\n", text))
        assert kept == purged, "what compiles or strips goes with the layer that needs it"
    ours = {name: one for name, one in COMPOSE["services"].items() if one["image"].startswith("noisyir")}
    assert {"prefect", "mlflow", "driver", "cpu", "gpu"} <= ours.keys()
    for name, one in ours.items():
        assert one["read_only"] and "/tmp" in one["tmpfs"] and one["cap_drop"] == ["ALL"], name
        assert not [place for place in map(str, one.get("volumes", [])) if ":/tmp" in place], name


def test_compose_asks_for_every_secret_and_the_example_names_every_variable():
    text = (ROOT / "docker" / "compose.yaml").read_text()
    example = dict(
        line.split("=", 1)
        for line in (ROOT / "docker" / ".env.example").read_text().splitlines()
        if "=" in line and not line.startswith("#")
    )
    used = {word.split("}")[0].split(":")[0] for word in text.split("${")[1:]}
    assert used | {"COMPOSE_PROFILES"} == set(example)
    for name in SECRET_VARIABLES:
        assert f"${{{name}:?" in text and example[name] == ""


def test_compose_has_a_worker_for_each_pool_and_pinned_images():
    services = COMPOSE["services"]
    commands = " ".join(str(service.get("command")) for service in services.values())
    assert all(f"--pool {pool} " in commands for pool in ("driver", "cpu", "gpu"))
    foreign = [service["image"] for service in services.values() if "build" not in service]
    assert foreign and all(":" in image and not image.endswith(":latest") for image in foreign)
    assert services["gpu"]["deploy"]["resources"]["reservations"]["devices"][0]["capabilities"] == ["gpu"]
    assert not [service for service in services.values() if "command" in service and "${" in str(service["command"])
                and any(name in str(service["command"]) for name in SECRET_VARIABLES)]  # fmt: skip


@pytest.mark.parametrize("pool", ["driver", "cpu", "gpu"])
def test_kubernetes_jobs_are_contained_and_name_their_secrets(prefect_api, pool):
    import uuid

    from prefect.client.schemas.objects import WorkPool

    template = json.loads((ROOT / "infra" / "k8s" / f"{pool}.json").read_text())
    WorkPool(
        id=uuid.uuid4(), name=pool, type="kubernetes", base_job_template=template
    )  # each placeholder has a variable
    job = template["job_configuration"]["job_manifest"]["spec"]
    pod = job["template"]["spec"]
    container = pod["containers"][0]
    assert job["backoffLimit"] == 0 and pod["securityContext"]["runAsNonRoot"]
    assert {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "{{ shm_size }}"}} in pod["volumes"]
    by_reference = [item["name"] for item in container["env"] if "secretKeyRef" in item.get("valueFrom", {})]
    assert by_reference == [
        *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL_S3", "NOISYIR_STORE"),
        *("PREFECT_API_AUTH_STRING", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"),
    ]
    assert ("nvidia.com/gpu" in container["resources"]["limits"]) == (pool == "gpu")
    assert bool(template["variables"]["properties"]["node_selector"]["default"]) == (pool == "gpu")


@pytest.mark.parametrize("version", ["1.30", "1.34"])
def test_manifests_and_jobs_are_strictly_what_kubernetes_knows(prefect_api, version):
    import kubernetes_validate
    from prefect.utilities.templating import apply_values

    folder = ROOT / "infra" / "k8s"
    named = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    objects = [item for name in named for item in yaml.safe_load_all((folder / name).read_text())]
    for pool in ("driver", "cpu", "gpu"):
        template = json.loads((folder / f"{pool}.json").read_text())
        values = {name: about.get("default") for name, about in template["variables"]["properties"].items()}
        given = {"name": "run", "command": ["python", "-m", "prefect.flow_engine"], "labels": {}, "annotations": {}}
        objects.append(apply_values(template["job_configuration"]["job_manifest"], {**values, **given}))
    classes = {item["metadata"]["name"] for item in objects if item["kind"] == "PriorityClass"}
    for item in objects:
        kubernetes_validate.validate(item, version, strict=True)
        pod = item.get("spec", {}).get("template", {}).get("spec")
        assert pod is None or pod["priorityClassName"] in classes


def test_kubernetes_manifests_hold_no_secret_and_a_worker_for_each_pool():
    folder = ROOT / "infra" / "k8s"
    named = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    objects = [item for name in named for item in yaml.safe_load_all((folder / name).read_text())]
    assert "Secret" not in {item["kind"] for item in objects}
    workers = [item for item in objects if item["metadata"]["name"].startswith("worker-")]
    assert [item["metadata"]["name"] for item in workers] == ["worker-driver", "worker-cpu", "worker-gpu"]
    for item in objects:
        if item["kind"] == "Deployment":
            for variable in item["spec"]["template"]["spec"]["containers"][0]["env"]:
                secret = any(word in variable["name"] for word in ("PASSWORD", "AUTH_STRING", "SECRET"))
                assert not secret or "secretKeyRef" in variable["valueFrom"]


# The real thing


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "auth"])
def test_up_heal_and_down(kind, open_folder):
    home = open_folder
    if kind == "postgres" and (fault := servers.missing_postgres(Settings(home=home))):
        pytest.skip(f"no Postgres: {fault}")
    ports = {name: str(free_port()) for name in ("PREFECT_PORT", "MLFLOW_PORT", "POSTGRES_PORT")}
    database = "postgres" if kind == "postgres" else "sqlite"
    environment = {
        **os.environ,
        **ports,
        "NOISYIR_HOME": str(home),
        "NOISYIR_DATABASE": database,
        "NOISYIR_WATCH": "0",
        "PYTHONPATH": str(ROOT),
    }
    options = ["--auth"] if kind == "auth" else []
    try:
        told = call(["up", *options], environment)
        assert ("Postgres" if kind == "postgres" else "SQLite") in told
        check_access(home, ports, authenticated=kind == "auth")
        running = Supervisor(home / "servers").pids()
        for name in ("mlflow", "gpu"):
            os.kill(running[name], signal.SIGKILL)
        assert "started again: mlflow, gpu" in call(["up"], environment)
        check_no_secret_leaked(home)
        assert "everything is up already" in call(["up"], environment)
    finally:
        told = call(["down"], environment)
    assert "prefect" in told and "nothing is up" in call(["down"], environment)
    assert not [port for port in ports.values() if is_open(int(port))]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_dies_is_started_again_until_down(open_folder):
    ports = {name: str(free_port()) for name in ("PREFECT_PORT", "MLFLOW_PORT", "POSTGRES_PORT")}
    environment = {**os.environ, **ports, "NOISYIR_HOME": str(open_folder), "NOISYIR_DATABASE": "sqlite"}

    pids = Supervisor(open_folder / "servers").pids

    try:
        call(["up"], environment)
        before = pids()
        for name in ("mlflow", "warm", "gpu"):
            os.kill(before[name], signal.SIGKILL)
        end = time.monotonic() + 180
        while {name for name, pid in pids().items() if pid != before[name]} != {"mlflow", "warm", "gpu"}:
            assert time.monotonic() < end
            time.sleep(1)
        call(["up"], environment)
        assert "everything is up already" in call(["up"], environment)
    finally:
        call(["down"], environment)
    assert not [port for port in ports.values() if is_open(int(port))]


@pytest.fixture
def open_folder():
    """A folder that Postgres can enter, who may be another user; pytest's own are private."""
    with tempfile.TemporaryDirectory(prefix="noisyir-servers-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def call(arguments, environment):
    done = subprocess.run(
        [sys.executable, "-m", "infra.up", *arguments],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def check_access(home, ports, *, authenticated):
    lines = (home / "servers" / "env").read_text().splitlines()
    env = dict(line.removeprefix("export ").split("=", 1) for line in lines)
    assert (home / "servers" / "env").stat().st_mode & 0o777 == 0o600
    prefect_login = env.get("PREFECT_API_AUTH_STRING")
    mlflow_login = f"{env['MLFLOW_TRACKING_USERNAME']}:{env['MLFLOW_TRACKING_PASSWORD']}" if authenticated else None
    pages = [
        (f"{env['PREFECT_API_URL']}/deployments/filter", b"{}", prefect_login),
        (f"{env['MLFLOW_TRACKING_URI']}/api/2.0/mlflow/experiments/search?max_results=1", None, mlflow_login),
    ]
    api = env["PREFECT_API_URL"]
    for foreign in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Host": "evil.example:4200"}):
        assert status(f"{api}/deployments/filter", b"{}", prefect_login, foreign) == 403
    assert status(f"{api}/deployments/filter", b"{}", prefect_login, {"Origin": api.removesuffix("/api")}) == 200
    assert (
        status(f"{env['MLFLOW_TRACKING_URI']}/api/2.0/mlflow/experiments/create", b"{}", mlflow_login, foreign) == 403
    )
    for url, body, login in pages:
        assert status(url, body) == (401 if authenticated else 200)
        assert status(url, body, login) == 200
        if authenticated:
            assert status(url, body, "noisyir:wrong") == 401


def status(url, body, login=None, more=None):
    headers = {"Content-Type": "application/json", **(more or {})}
    if login:
        headers["Authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=30) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        return error.code


def check_no_secret_leaked(home):
    secrets = [secret.encode() for secret in json.loads((home / "servers" / "secrets.json").read_text()).values()]
    for path in [*(home / "servers" / "logs").iterdir(), *Path("/proc").glob("[0-9]*/cmdline")]:
        try:
            content = path.read_bytes()
        except OSError:  # a process that ended meanwhile
            continue
        assert not any(secret in content for secret in secrets), path


def is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("before", ["SCHEDULED", "RUNNING"])
def test_an_event_waits_for_the_one_before_unless_the_scheduler_emits_none(before):
    from prefect.server.events.ordering import EventArrivedEarly
    from prefect.server.events.schemas.events import ReceivedEvent

    from infra.event_order import CausalOrdering

    event = ReceivedEvent(
        id=uuid4(),
        event="prefect.flow-run.Pending",
        occurred=datetime.now(UTC),
        follows=uuid4(),
        resource={"prefect.resource.id": f"prefect.flow-run.{uuid4()}"},
        payload={"initial_state": {"type": before}},
    )
    with nullcontext() if before == "SCHEDULED" else pytest.raises(EventArrivedEarly):
        asyncio.run(CausalOrdering(f"after {before}").wait_for_leader(event))
