"""Machines by stage: what former builds needed, how pools are asked for it, and a child that lacked memory."""

import asyncio
import json
import logging
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from noisyir.base.errors import ConfigError, NoisyirError, StoreError
from noisyir.engine.needs import Needs, most, needs_of
from tests.flows.test_dispatch import run, stage_runs
from tests.flows.workers import ROOT, deploy, worker
from tests.tiny import tiny_data

pytestmark = pytest.mark.usefixtures("prefect_api")
KILLER = Path(__file__).with_name("memory_limit.py")
GIB = 2**30


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    tiny_data(home / "beir")
    return home


def template(pool: str) -> dict[str, Any]:
    return json.loads((ROOT / "infra" / "k8s" / f"{pool}.json").read_text())


def machine_of(kind: str, base: dict[str, Any], **fixed: str):
    from noisyir.tasks.machine import Machine

    defaults = {name: about.get("default") for name, about in base["variables"]["properties"].items()}
    return Machine(kind, {**defaults, **fixed}, frozenset(fixed))


def job_of(pool: str, values: dict[str, str]) -> dict[str, Any]:
    """The pod's specification that Prefect makes of our template and these variables."""
    import kubernetes_validate
    from prefect.workers.base import BaseJobConfiguration

    class Job(BaseJobConfiguration):
        job_manifest: dict[str, Any]

    named = {**values, "command": "run", "name": "run", "labels": {}, "annotations": {}}
    made = asyncio.run(Job.from_template_and_values(template(pool), named))
    container = made.job_manifest["spec"]["template"]["spec"]["containers"][0]
    container["args"] = container["args"].split()  # as the worker does
    kubernetes_validate.validate(made.job_manifest, "1.34", strict=True)
    return made.job_manifest["spec"]["template"]["spec"]


def test_needs_become_the_resources_of_our_kubernetes_jobs(prefect_api):
    needs = Needs(processors=1.3, memory=5 * GIB, gpu_memory=30 * GIB)
    asked = machine_of("kubernetes", template("gpu")).variables(needs, gpus=4)
    pod = job_of("gpu", asked)
    assert pod["containers"][0]["resources"] == {
        "requests": {"cpu": "1.5", "memory": "7680Mi"},
        "limits": {"memory": "7680Mi", "nvidia.com/gpu": "4"},
    }
    (preferred,) = pod["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert preferred["preference"]["matchExpressions"] == [
        {"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": ["30720"]}
    ]
    of_cpu = machine_of("kubernetes", template("cpu")).variables(needs, gpus=1)
    assert sorted(of_cpu) == ["cpu_request", "memory_limit", "memory_request"]
    plain = (job_of("cpu", machine_of("kubernetes", template("cpu")).variables(Needs(), gpus=1)))["containers"][0]
    assert plain["resources"]["limits"]["memory"] == "16Gi", "what is not known stays the template's"


def test_docker_is_asked_by_its_own_name_and_people_are_not_overruled():
    docker = {"variables": {"properties": {"image": {}, "mem_limit": {"default": None}}}}
    machine = machine_of("docker", docker)
    asked = machine.variables(Needs(2.0, GIB), gpus=1)
    assert asked == {"mem_limit": "1536m"} and machine.more(asked, "exit code 137") == {"mem_limit": "3072m"}
    assert machine.more({}, "exit code 137") == {}, "a pool without a limit gives all that there is"
    own = machine_of("kubernetes", template("gpu"), memory_limit="8Gi")
    assert own.variables(Needs(1.0, 20 * GIB), gpus=1) == {"cpu_request": "1"}
    assert own.more({}, "OOMKilled") == {"memory_request": "64Gi", "memory_limit": "16Gi"}
    assert own.more({"gpu_memory": "20000"}, "CUDA out of memory") == {"gpu_memory": "40000"}
    assert not machine_of("process", {"variables": {"properties": {"env": {}}}}).takes_needs()


def test_steps_that_go_together_need_the_most_and_one_unknown_leaves_it_to_the_pool():
    assert most([Needs(1.0, GIB, 5), Needs(2.5, GIB // 2, 7)]) == Needs(2.5, GIB, 7)
    assert most([Needs(1.0, GIB), Needs(2.0)]) == Needs(2.0)


FULL_HEAP = ConfigError("retrieval.java_heap_is_full", doing="indexing", heap="4g", more="8g")
NO_ROOM = StoreError("retrieval.no_room_for_states", wanted=3.0, free=1.0)
LITTLE = NoisyirError("retrieval.too_little_memory", wanted=5.6, heap="4g")


@pytest.mark.parametrize(
    ("said", "lacking"),
    [
        (f"{type(FULL_HEAP).__name__}: {FULL_HEAP}", False),
        ("JavaException: JVM exception occurred: Java heap space java.lang.OutOfMemoryError", False),
        (f"{type(NO_ROOM).__name__}: {NO_ROOM}", False),
        (f"{type(LITTLE).__name__}: {LITTLE}", True),
        ("OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", True),
        ("MemoryError", True),
        ("Process exited with status code: 137; the container was OOMKilled", True),
    ],
)
def test_what_only_a_setting_or_the_disk_cures_is_no_lack_of_memory(said: str, lacking: bool):
    from prefect.client.schemas.objects import FlowRun
    from prefect.states import Failed

    from noisyir.tasks.machine import lack_of_memory

    state = Failed(message=f"Flow run encountered an exception: {said}")
    assert (lack_of_memory(FlowRun(flow_id=uuid4()), state) is not None) is lacking


def limited(limit: str) -> None:
    """Give the pool `gpu` a job template with the variable memory_limit, which `memory_limit.py` enforces."""
    from prefect import get_client
    from prefect.client.schemas.actions import WorkPoolUpdate
    from prefect.workers.process import ProcessWorker

    base = ProcessWorker.get_default_base_job_template()
    base["variables"]["properties"]["memory_limit"] = {"type": "string", "default": limit}
    base["job_configuration"] |= {
        "command": f"{sys.executable} {KILLER}",
        "env": {"MEMORY_LIMIT": "{{ memory_limit }}"},
    }
    with get_client(sync_client=True) as client:
        client.update_work_pool("gpu", WorkPoolUpdate(base_job_template=base))


@pytest.mark.slow  # children start nine times
@pytest.mark.timeout(900)
def test_children_get_what_former_builds_needed_and_twice_the_memory_once(home, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("NOISYIR_HOME", str(home))
    deploy("gpu")
    logging.getLogger("prefect").propagate = True
    with worker("gpu", tmp_path / "worker.log"):
        outcome = run(home, to="train_dpr")  # a pool of processes
        assert caplog.text.count("the pool gpu is of type process: no memory is set aside for stages") == 1
        needs = needs_of(outcome.results["train_dpr@dpr"].meta)
        assert needs.memory > 200 * 2**20 and needs.processors > 0

        limited("150Mi")  # less than importing torch takes
        before = {child.id for child in stage_runs("gpu")}
        run(home, to="train_dpr", refresh=("train_dpr@dpr",))
        (child,) = [child for child in stage_runs("gpu") if child.id not in before]
        limit = int(child.job_variables["memory_limit"].removesuffix("Mi"))
        assert limit - 256 < needs.memory * 1.5 / 2**20 <= limit

        # never run here: the template's own limit holds, which is too little, and twice of it is enough
        tiny_data(tmp_path / "beir")
        limited(f"{needs.memory // 2**20 * 2 // 3}Mi")
        assert not run(tmp_path, to="train_dpr").results["train_dpr@dpr"].cached
        assert caplog.text.count("train_dpr@dpr lacked memory, and is tried again with memory_limit=") == 1

        limited("150Mi")  # less than importing torch takes, and twice of it, too
        tiny_data(tmp_path / "other" / "beir")
        before = {child.id for child in stage_runs("gpu")}
        twice = r"^train_dpr@dpr, .*crashed: .*137.* It lacked memory twice, at last with memory_limit=300Mi\. Lower .*"
        with pytest.raises(NoisyirError, match=twice + "dispatched_step/gpu"):
            run(tmp_path / "other", to="train_dpr")
        assert len({child.id for child in stage_runs("gpu")} - before) == 2
