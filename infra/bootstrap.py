"""What noisyir needs of a Prefect server: pools, limits, automations and deployments.  Run it as often as you like.

usage: PREFECT_API_URL=... NOISYIR_ROOT=... python -m infra.bootstrap [--type process|kubernetes] [--gpus 2]
                                                                     [--reset-templates]

NOISYIR_ROOT is the folder of a checkout on the workers.  NOISYIR_ZOMBIE_SECONDS is how long a flow run may stay silent
before it counts as crashed, and NOISYIR_ANSWER_SECONDS how long one waits for a person.  The webhook that is told of
failed runs comes from the variable NOISYIR_WEBHOOK, never from the command line: its address is a secret.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from string import Template
from typing import Any
from uuid import UUID

import yaml

import noisyir.tasks  # noqa: F401 - switches telemetry off before prefect is imported

# isort: split
from prefect.automations import AutomationCore
from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import DeploymentScheduleCreate, WorkPoolCreate, WorkPoolUpdate
from prefect.exceptions import ObjectNotFound
from prefect.settings import PREFECT_API_URL, PREFECT_FLOWS_HEARTBEAT_FREQUENCY
from prefect.workers.process import ProcessWorker
from pydantic import SecretStr

FOLDER = Path(__file__).resolve().parent
WANTED = Template((FOLDER / "bootstrap.yaml").read_text())
DECLARED = yaml.safe_load(WANTED.template)
POOLS, QUEUE, SCHEDULES = (DECLARED[name] for name in ("pools", "queue", "schedules"))
OURS = "made by infra.bootstrap"  # tag of automations
TYPES = ("process", "kubernetes")  # of pools whose job templates are ours
BEATS = 4  # heartbeats that must be missing in a row
LEAST_BEATS = 3  # with fewer, a run that is merely busy counts as crashed
WEBHOOK = "noisyir-failures"
TOLD = ("failures", "late", "refusals", "promotions", "checks", "questions", "results")  # to the webhook
ANSWER_SECONDS = 12 * 3600  # for a person who is asked
START_SECONDS = 300  # from a worker's taking a run to its first sign of life


def main() -> int:
    """Make what is not there, change what differs, and say so."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--type", choices=TYPES, help="of pools; of new ones process")
    parser.add_argument("--gpus", type=int, choices=range(1, 10_000), metavar="N", help="flow runs of `gpu` at a time")
    parser.add_argument("--reset-templates", action="store_true", help="give pools that are there our job templates")
    args = parser.parse_args()
    if not PREFECT_API_URL.value():
        raise SystemExit("PREFECT_API_URL is not set: source .noisyir/servers/env, or name your server")
    with get_client(sync_client=True) as client:
        prepare(client, args.type, args.gpus, reset=args.reset_templates)
        return deploy(client)


def prepare(
    client: SyncPrefectClient, kind: str | None = None, gpus: int | None = None, *, reset: bool = False
) -> None:
    """Make pools of this kind, with a limit of `gpu`, and what crashes and tells of flow runs."""
    window = _window(PREFECT_FLOWS_HEARTBEAT_FREQUENCY.value() or 0, os.environ.get("NOISYIR_ZOMBIE_SECONDS"))
    kinds = {ensure_pool(client, pool, kind, gpus if pool == "gpu" else None, reset=reset) for pool in POOLS}
    answer = int(os.environ.get("NOISYIR_ANSWER_SECONDS") or ANSWER_SECONDS)
    automations = [automation("silent", SECONDS=window), automation("unanswered", ANSWER=answer)]
    if kinds == {"process"}:  # a Kubernetes job may wait for a node, and its worker watches it
        automations.append(automation("stuck", SECONDS=START_SECONDS))
    if url := os.environ.get("NOISYIR_WEBHOOK"):
        webhook = ensure_webhook(client, url)
        automations += [automation(name, WEBHOOK=webhook) for name in TOLD]
    for wanted in automations:
        ensure_automation(client, wanted)
    remove_former_automations(client)


def _window(heartbeat: int, given: str | None) -> int:
    """Seconds that a run may be silent.  SystemExit for less than three heartbeats, or where there are none."""
    if not heartbeat:
        raise SystemExit("no heartbeats of flow runs: set PREFECT_FLOWS_HEARTBEAT_FREQUENCY=30, here and for workers")
    seconds, least = int(given) if given else BEATS * heartbeat, LEAST_BEATS * heartbeat
    if seconds < least:
        raise SystemExit(f"NOISYIR_ZOMBIE_SECONDS={seconds}: at least {least}, three heartbeats of {heartbeat} s")
    return seconds


def ensure_pool(
    client: SyncPrefectClient, name: str, kind: str | None, limit: int | None, *, reset: bool = False
) -> str:
    """Make the pool, or give the one that is there this limit, if any, and its queue; its kind.

    A job template that is there stays as people made it; `reset` writes ours, if the pool is of a type that we have.
    """
    try:
        pool = client.read_work_pool(name)
    except ObjectNotFound:
        new, given = kind or "process", {"concurrency_limit": limit} if limit else {}
        made = WorkPoolCreate(name=name, type=new, base_job_template=base_template(name, new), **POOLS[name] | given)
        pool = client.create_work_pool(made)
        print(f"pool {name}: made")
    if kind not in (None, pool.type):
        raise SystemExit(f"pool {name} is of type {pool.type}: --type {pool.type}, or delete the pool first")
    template = base_template(name, pool.type) if reset and pool.type in TYPES else pool.base_job_template
    wanted = WorkPoolUpdate(base_job_template=template, concurrency_limit=limit or pool.concurrency_limit)
    if (pool.base_job_template, pool.concurrency_limit) != (template, wanted.concurrency_limit):
        client.update_work_pool(name, wanted)
        print(f"pool {name}: changed")
    if QUEUE["name"] not in [queue.name for queue in client.read_work_queues(work_pool_name=name)]:
        client.create_work_queue(**QUEUE, work_pool_name=name)
    return pool.type


def base_template(pool: str, kind: str) -> dict[str, Any]:
    """How a flow run of this pool becomes a process, by Prefect's template, or a Kubernetes job, by ours."""
    if kind == "kubernetes":
        return dict(json.loads((FOLDER / "k8s" / f"{pool}.json").read_text()))
    return ProcessWorker.get_default_base_job_template()


def automation(name: str, **values: object) -> AutomationCore:
    """The automation that bootstrap.yaml calls so, with these values filled in."""
    return AutomationCore.model_validate(yaml.safe_load(WANTED.safe_substitute(values))["automations"][name])


def ensure_automation(client: SyncPrefectClient, wanted: AutomationCore) -> None:
    """Make the automation, or change the one of its name; one that somebody switched off stays off."""
    found, without_ids = client.read_automations_by_name(wanted.name), {"trigger": {"id"}}
    wanted = wanted.model_copy(update={"tags": [OURS]})
    if not found:
        client.create_automation(wanted)
        print(f"{wanted.name}: made")
        return
    present = AutomationCore(**found[0].model_dump(exclude={"id"}))
    wanted = wanted.model_copy(update={"enabled": present.enabled, "tags": sorted({*present.tags, OURS})})
    if present.model_dump(exclude=without_ids) != wanted.model_dump(exclude=without_ids):
        client.update_automation(found[0].id, wanted)
        print(f"{wanted.name}: changed")


def remove_former_automations(client: SyncPrefectClient) -> None:
    """Remove automations that were made here under a name that bootstrap.yaml no longer has; people's stay."""
    declared = {wanted["name"] for wanted in DECLARED["automations"].values()}
    for found in client.read_automations():
        if found.name not in declared and (OURS in found.tags or found.name in DECLARED["former"]):
            client.delete_automation(found.id)
            print(f"{found.name}: removed")


def ensure_webhook(client: SyncPrefectClient, url: str) -> UUID:
    """The id of the secret block that holds the webhook's address."""
    try:
        block = client.read_block_document_by_name(WEBHOOK, "webhook", include_secrets=True)
    except ObjectNotFound:
        block = None
    if block is None or block.data["url"] != url:
        return UUID(str(Webhook(method="POST", url=SecretStr(url)).save(WEBHOOK, overwrite=True)))
    return block.id


def deploy(client: SyncPrefectClient) -> int:
    """Register what prefect.yaml deploys, with the schedules and the automation that want a deployment; the exit code.

    People's schedules stay as they are: prefect.yaml has none, so that `prefect deploy` touches none.
    """
    deploy_all = ("--no-prompt", "deploy", "--all", "--prefect-file", "infra/prefect.yaml")
    code = subprocess.run([sys.executable, "-m", "prefect", *deploy_all], cwd=FOLDER.parent, check=False).returncode
    if code == 0:
        for name, wanted in SCHEDULES.items():
            deployment = client.read_deployment_by_name(name)
            if wanted["slug"] not in [present.slug for present in deployment.schedules]:
                client.create_deployment_schedules(deployment.id, [DeploymentScheduleCreate(**wanted)])
        gate = client.read_deployment_by_name("promote/on-demand").id
        ensure_automation(client, automation("promotion", DEPLOYMENT=gate))
    return code


if __name__ == "__main__":
    sys.exit(main())
