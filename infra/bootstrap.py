"""What a Prefect server needs before noisyir's deployments: pools, limits, automations.  Run it as often as you like.

usage: PREFECT_API_URL=... python -m infra.bootstrap [--type process|kubernetes] [--limit gpu=2]

The webhook that is told of failed runs comes from the variable NOISYIR_WEBHOOK, never from the command line: its
address is a secret.  NOISYIR_ZOMBIE_SECONDS is how long a flow run may stay silent before it counts as crashed.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import flows  # noqa: F401 - switches telemetry off before prefect is imported

# isort: split
from prefect.automations import AutomationCore, EventTrigger
from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
from prefect.client.schemas.objects import StateType
from prefect.events.actions import CallWebhook, ChangeFlowRunState, RunDeployment
from prefect.events.schemas.automations import Posture
from prefect.events.schemas.events import ResourceSpecification
from prefect.exceptions import ObjectNotFound
from prefect.settings import PREFECT_API_URL, PREFECT_FLOWS_HEARTBEAT_FREQUENCY
from pydantic import SecretStr

from flows.artifacts import REGISTERED

POOLS = {
    "driver": ("parents of experiments: they wait for stages, and run the cheap ones", 4),
    "cpu": ("stages that want a processor", 2),
    "gpu": ("stages that want a GPU, one at a time each", 1),
}
BEATS = 4  # heartbeats that must be missing in a row
LEAST_BEATS = 3  # with fewer, a run that is merely busy counts as crashed
SILENT = "noisyir: crash flow runs that fell silent"
STUCK = "noisyir: crash flow runs that never start"
FAILURES = "noisyir: tell of failed flow runs"
LATE = "noisyir: tell of flow runs that nobody takes"
LATE_SECONDS = 600
PROMOTION = "noisyir: decide on each version that is registered"
WEBHOOK = "noisyir-failures"
SCHEDULED, SCHEDULED_PRIORITY = "scheduled", 10  # the queue of a pool, behind its usual one
START_SECONDS = 300  # from a worker's taking a run to its first sign of life
ANY_RUN = ResourceSpecification({"prefect.resource.id": ["prefect.flow-run.*"]})
# A heartbeat must be followed by another, or by one of these: an end, or a state in which nobody sends any.
LAST_WORDS = ("heartbeat", "Completed", "Failed", "Cancelled", "Crashed", "AwaitingRetry", "Paused", "Suspended")


def main(arguments: Sequence[str] | None = None) -> int:
    """Make what is not there, change what differs, and say so."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--type", default="process", choices=("process", "kubernetes"), help="of new pools")
    parser.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="POOL=N",
        help="flow runs of a pool at a time; new pools: 4, 2, 1",
    )
    args = parser.parse_args(arguments)
    limits = _limits(args.limit)
    heartbeat = PREFECT_FLOWS_HEARTBEAT_FREQUENCY.value() or 0
    window = _window(heartbeat, os.environ.get("NOISYIR_ZOMBIE_SECONDS"))
    if not PREFECT_API_URL.value():
        raise SystemExit("PREFECT_API_URL is not set: source .noisyir/servers/env, or name your server")
    with get_client(sync_client=True) as client:
        for pool in POOLS:
            print(f"pool {pool}: {ensure_pool(client, pool, args.type, limits.get(pool))}")
            ensure_queue(client, pool)
        automations = [silent(window)]
        if args.type == "process":  # a Kubernetes job may wait for a node, and its worker watches it
            automations.append(stuck(timedelta(seconds=START_SECONDS)))
        if url := os.environ.get("NOISYIR_WEBHOOK"):
            webhook = ensure_webhook(client, url)
            automations += [failures(webhook), late(webhook)]
        for automation in automations:
            print(f"{automation.name}: {ensure_automation(client, automation)}")
    return 0


def _limits(given: Sequence[str]) -> dict[str, int]:
    limits = {}
    for item in given:
        pool, _, number = item.partition("=")
        if pool not in POOLS or not number.isdigit() or int(number) < 1:
            raise SystemExit(f"--limit {item}: write POOL=N, with a pool of {', '.join(POOLS)}")
        limits[pool] = int(number)
    return limits


def _window(heartbeat: int, given: str | None) -> timedelta:
    """How long a run may be silent.  SystemExit for less than three heartbeats, or where there are none."""
    if not heartbeat:
        raise SystemExit(
            "flow runs send no heartbeats: set PREFECT_FLOWS_HEARTBEAT_FREQUENCY=30, here and for the workers"
        )
    seconds = int(given) if given else BEATS * heartbeat
    if seconds < LEAST_BEATS * heartbeat:
        least = LEAST_BEATS * heartbeat
        raise SystemExit(f"NOISYIR_ZOMBIE_SECONDS={seconds}: at least {least}, three heartbeats of {heartbeat} s")
    return timedelta(seconds=seconds)


def ensure_pool(client: SyncPrefectClient, name: str, kind: str, limit: int | None) -> str:
    """Make the pool, or give the one that is there this limit, if any, and its template; what was done, in a word."""
    description, usual = POOLS[name]
    template = base_template(name, kind)
    try:
        pool = client.read_work_pool(name)
    except ObjectNotFound:
        made = WorkPoolCreate(
            name=name, type=kind, description=description, concurrency_limit=limit or usual, base_job_template=template
        )
        client.create_work_pool(made)
        return "made"
    if pool.type != kind:
        raise SystemExit(
            f"pool {name} is of type {pool.type}, not {kind}: --type {pool.type}, or delete the pool first"
        )
    wanted = limit or pool.concurrency_limit
    if pool.concurrency_limit == wanted and pool.base_job_template == template:
        return "as it should be"
    client.update_work_pool(name, WorkPoolUpdate(concurrency_limit=wanted, base_job_template=template))
    return "changed"


def ensure_queue(client: SyncPrefectClient, pool: str) -> None:
    """Give the pool a queue for scheduled runs, which are taken when none waits that a person started."""
    if SCHEDULED not in [queue.name for queue in client.read_work_queues(work_pool_name=pool)]:
        client.create_work_queue(SCHEDULED, work_pool_name=pool, priority=SCHEDULED_PRIORITY)


def base_template(pool: str, kind: str) -> dict[str, Any]:
    """How a flow run of this pool becomes a process, by Prefect's template, or a Kubernetes job, by ours."""
    if kind == "kubernetes":
        return dict(json.loads((Path(__file__).parent / "k8s" / f"{pool}.json").read_text()))
    from prefect.workers.process import ProcessWorker

    return ProcessWorker.get_default_base_job_template()


def silent(window: timedelta) -> AutomationCore:
    """A flow run that sent a heartbeat, and then for `window` neither another nor an end, is crashed."""
    return _crash(SILENT, "prefect.flow-run.heartbeat", [f"prefect.flow-run.{word}" for word in LAST_WORDS], window)


def stuck(window: timedelta) -> AutomationCore:
    """A flow run that a worker took, and of which nothing was heard for `window`, is crashed.

    Else it stays Pending when its worker is killed before it begins, and holds the slot of its deployment.
    """
    return _crash(STUCK, "prefect.flow-run.Pending", ["prefect.flow-run.*"], window)


def _crash(name: str, after: str, expect: Sequence[str], window: timedelta) -> AutomationCore:
    message = f"Nothing was heard of it for {window.seconds} s: its process or its machine died."
    return AutomationCore(
        name=name,
        description="What is crashed for silence frees its slots, and a parent can try it again.",
        trigger=EventTrigger(
            after={after},
            expect=set(expect),
            match=ANY_RUN,
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=window,
        ),
        actions=[ChangeFlowRunState(state=StateType.CRASHED, message=message)],
    )


def failures(webhook: UUID) -> AutomationCore:
    """Each flow run that fails or crashes is told to the webhook: its name, its state and where to look."""
    return AutomationCore(
        name=FAILURES,
        description="The address is in the block noisyir-failures.",
        trigger=EventTrigger(
            expect={"prefect.flow-run.Failed", "prefect.flow-run.Crashed"},
            match=ANY_RUN,
            for_each={"prefect.resource.id"},
            posture=Posture.Reactive,
            threshold=1,
        ),
        actions=[CallWebhook(block_document_id=webhook, payload=_told("is {{ flow_run.state.name }}"))],
    )


def late(webhook: UUID) -> AutomationCore:
    """A flow run that is late, and that nobody has taken after `LATE_SECONDS`, is told to the webhook."""
    return AutomationCore(
        name=LATE,
        description="Its pool has no worker, or is busy for long.  The address is in the block noisyir-failures.",
        trigger=EventTrigger(
            after={"prefect.flow-run.Late"},
            expect={f"prefect.flow-run.{word}" for word in ("Pending", "Running", "Cancelled", "Crashed")},
            match=ANY_RUN,
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=timedelta(seconds=LATE_SECONDS),
        ),
        actions=[CallWebhook(block_document_id=webhook, payload=_told("is late, and nobody takes it"))],
    )


def promotion(deployment: UUID, model: str = "noisyir-retriever") -> AutomationCore:
    """Each version of a model that a flow registers goes through the gate, by this deployment of the flow `promote`.

    Made switched off: what it decides changes what users get.
    """
    version = {"__prefect_kind": "jinja", "template": "{{ event.resource['noisyir.version'] }}"}
    return AutomationCore(
        name=PROMOTION,
        description="Switched on in this page, it asks the gate; a refusal completes, too, and says why.",
        enabled=False,
        trigger=EventTrigger(
            expect={REGISTERED},
            match=ResourceSpecification({"prefect.resource.id": [f"noisyir.model.{model}"]}),
            for_each={"prefect.resource.id", "noisyir.version"},
            posture=Posture.Reactive,
            threshold=1,
        ),
        actions=[RunDeployment(deployment_id=deployment, parameters={"model": model, "version": version})],
    )


def _told(what: str) -> str:
    return json.dumps({"text": f"{{{{ flow.name }}}}/{{{{ flow_run.name }}}} {what}: {{{{ flow_run|ui_url }}}}"})


def ensure_automation(client: SyncPrefectClient, wanted: AutomationCore) -> str:
    """Make the automation, or change the one of its name; one that somebody switched off stays off."""
    found = client.read_automations_by_name(wanted.name)
    if not found:
        client.create_automation(wanted)
        return "made"
    present = AutomationCore(**found[0].model_dump(exclude={"id"}))
    wanted = wanted.model_copy(update={"enabled": present.enabled, "tags": present.tags})
    if _contents(present) == _contents(wanted):
        return "as it should be"
    client.update_automation(found[0].id, wanted)
    return "changed"


def _contents(automation: AutomationCore) -> dict[str, Any]:
    return automation.model_dump(exclude={"trigger": {"id"}})


def ensure_webhook(client: SyncPrefectClient, url: str) -> UUID:
    """The id of the secret block that holds the webhook's address."""
    try:
        block = client.read_block_document_by_name(WEBHOOK, "webhook", include_secrets=True)
    except ObjectNotFound:
        block = None
    if block is None or block.data["url"] != url:
        return UUID(str(Webhook(method="POST", url=SecretStr(url)).save(WEBHOOK, overwrite=True)))
    return block.id


if __name__ == "__main__":
    sys.exit(main())
