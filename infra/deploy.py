"""Register what infra/prefect.yaml deploys, and leave people's schedules as they are.

usage: PREFECT_API_URL=... NOISYIR_ROOT=... python -m infra.deploy

`prefect deploy` sets every schedule to what the file says, and removes those that it does not know: a schedule that
somebody switched on would be off after an upgrade.  So what was there before is put back.
"""

import subprocess
import sys
from collections.abc import Mapping, Sequence

import flows  # noqa: F401 - switches telemetry off before prefect is imported

# isort: split
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.objects import DeploymentSchedule

from infra.bootstrap import ensure_automation, promotion
from infra.servers import ROOT

DEPLOY = ("-m", "prefect", "--no-prompt", "deploy", "--prefect-file", "infra/prefect.yaml", "--all")
Schedules = Mapping[str, Sequence[DeploymentSchedule]]


def main() -> int:
    """Deploy, and put schedules back."""
    with get_client(sync_client=True) as client:
        before = schedules(client)
        code = subprocess.run([sys.executable, *DEPLOY], cwd=ROOT, check=False).returncode
        restore(client, before)
        if code == 0:
            deployment = client.read_deployment_by_name("promote/on-demand").id
            print(f"automation of promote/on-demand: {ensure_automation(client, promotion(deployment))}")
    return code


def schedules(client: SyncPrefectClient) -> Schedules:
    """The schedules of every deployment, by its id."""
    return {str(deployment.id): deployment.schedules for deployment in client.read_deployments()}


def restore(client: SyncPrefectClient, before: Schedules) -> None:
    """Switch the schedules on and off as they were, and make again those that are gone."""
    for deployment in client.read_deployments():
        present = {one.slug or str(one.schedule): one for one in deployment.schedules}
        for old in before.get(str(deployment.id), ()):
            now = present.get(old.slug or str(old.schedule))
            if now is None:
                fields = ("schedule", "active", "max_scheduled_runs", "parameters", "slug")
                again = DeploymentScheduleCreate(**{name: getattr(old, name) for name in fields})
                client.create_deployment_schedules(deployment.id, [again])
            elif now.active != old.active:
                client.update_deployment_schedule(deployment.id, now.id, active=old.active)


if __name__ == "__main__":
    sys.exit(main())
