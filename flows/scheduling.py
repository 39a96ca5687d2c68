"""The nightly of an experiment of one's own: a deployment of the flow `nightly` with a schedule."""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy, StateType
from prefect.client.schemas.schedules import CronSchedule
from prefect.deployments.runner import RunnerDeployment
from prefect.exceptions import ObjectNotFound
from prefect.schedules import Cron
from prefect.server.schemas.schedules import CronSchedule as Dates
from prefect.settings import PREFECT_API_URL
from prefect.types.entrypoint import EntrypointType
from prefect.utilities.asyncutils import run_coro_as_sync
from pydantic import ValidationError

from noisyir import __version__
from noisyir.app.data_check import refuse_unknown
from noisyir.base.errors import ConfigError
from noisyir.engine.provenance import git_commit
from noisyir.flows.embedded import check_server
from noisyir.flows.nightly import nightly, settings_of
from noisyir.methods import experiments
from noisyir.tasks.dispatch import Pools

POOL, QUEUE, SLUG = "driver", "scheduled", "nightly"
ELSEWHERE = ("cpu", "gpu")
HOW = "give five fields, such as '0 2 * * *' for two o'clock each night"
NO_SERVER = "no Prefect server is named: in a checkout make up starts one, and source .noisyir/servers/env names it"
AT_WORK = (StateType.PENDING, StateType.RUNNING, StateType.PAUSED, StateType.CANCELLING)
_COMMIT = 12  # digits shown


def schedule(
    experiment: str,
    cron: str,
    *,
    timezone: str | None,
    environment: str | None,
    overrides: tuple[str, ...],
    night: Mapping[str, Any],
) -> tuple[str, str]:
    """Deploy the nightly of an experiment; the same call again changes it.

    Returns the deployment's name and, if somebody paused its schedule, the command that resumes it: it stays paused.

    night: further parameters of the flow.

    Raises:
        ConfigError: If the experiment, the schedule, the server or the pool is not there.
    """
    name = deployment_of(experiment, environment, overrides)
    _refuse_bad(cron, timezone)
    refuse_unknown(night.get("fail_on", ()))
    commit = git_commit()
    tags = ["noisyir", "scheduled", *([environment] if environment else []), __version__]
    place = str(Path(experiment).resolve()) if Path(experiment).is_file() else experiment
    with _server() as client:
        known = {pool.name for pool in client.read_work_pools()}
        if POOL not in known:
            raise ConfigError(
                f"{PREFECT_API_URL.value()} has no pool {POOL}: python -m infra.bootstrap makes it, in a checkout"
            )
        _refuse_other(client, f"{nightly.name}/{name}", place, overrides, removal(experiment, environment, overrides))
        resume = _resume(client, f"{nightly.name}/{name}")
        if variable := night.get("variable"):
            experiments.load(experiment, (*overrides, *settings_of(variable)))  # refused now, and not at night
        deployment = nightly.to_deployment(
            name,
            schedule=Cron(cron, timezone=timezone, slug=SLUG, active=not resume),
            parameters={
                "experiment": place,
                "overrides": overrides,
                **night,
                "pools": Pools(elsewhere=tuple(pool for pool in ELSEWHERE if pool in known)).model_dump(mode="json"),
            },
            tags=[*tags, f"sha:{commit[:_COMMIT]}"] if commit else tags,
            version=__version__,
            work_queue_name=QUEUE,
            concurrency_limit=ConcurrencyLimitConfig(limit=1, collision_strategy=ConcurrencyLimitStrategy.CANCEL_NEW),
            entrypoint_type=EntrypointType.MODULE_PATH,
        )
        assert isinstance(deployment, RunnerDeployment)  # and no coroutine, because this is no async function
        deployment.apply(work_pool_name=POOL)
    return f"{nightly.name}/{name}", resume


def unschedule(experiment: str, *, environment: str | None, overrides: tuple[str, ...] = ()) -> str:
    """Remove the deployment of an experiment's nightly, and return its name.

    Raises:
        ConfigError: If there is none, or a run of it is at work: Prefect cannot end a run without its deployment.
    """
    name = f"{nightly.name}/{deployment_of(experiment, environment, overrides)}"
    with _server() as client:
        try:
            deployment = client.read_deployment_by_name(name).id
            client.pause_deployment(deployment)
            if run := _first_run(client, deployment, *AT_WORK):
                raise ConfigError(
                    f"{name} begins no further run, but the flow run {run} has not ended: type this again then, or "
                    f"prefect flow-run cancel {run} first"
                )
            client.delete_deployment(deployment)
        except ObjectNotFound as error:
            raise ConfigError(f"{name} is not scheduled: prefect deployment ls lists what is") from error
    return name


def deployment_of(experiment: str, environment: str | None, overrides: tuple[str, ...]) -> str:
    """The name of an experiment's deployment: its own name, and the environment's.

    Raises:
        ConfigError: If there is no such experiment, or no server.
    """
    exp = experiments.load(experiment, overrides)
    if exp.task.kind != "retriever":
        raise ConfigError(
            f"{exp.name} trains a {exp.task.kind}, and only retrievers have a nightly: put noisyir run into cron"
        )
    if not PREFECT_API_URL.value():
        raise ConfigError(NO_SERVER)
    return f"{exp.name}-{environment}" if environment else exp.name


def removal(experiment: str, environment: str | None, overrides: Iterable[str]) -> str:
    """The command that removes the deployment of this name, whichever experiment it trains."""
    where = ["--environment", environment] if environment else []
    return shlex.join(["noisyir", "schedule", experiment, *_names_in(overrides), *where, "--remove"])


def _names_in(overrides: Iterable[str]) -> list[str]:
    """The settings that give the experiment another name."""
    return [setting for setting in overrides if setting.startswith("name=")]


def _refuse_other(client: SyncPrefectClient, name: str, place: str, overrides: tuple[str, ...], command: str) -> None:
    """Refuse to put an experiment into another one's place, because both have one name; `command` removes that."""
    with suppress(ObjectNotFound):
        known = client.read_deployment_by_name(name).parameters
        other, names = known.get("experiment"), _names_in(known.get("overrides") or ())
        if (other, names) != (place, _names_in(overrides)):
            trains = " ".join([str(other), *names])
            raise ConfigError(f"{name} trains {trains}: give this one another name, or remove that first: {command}")


def _resume(client: SyncPrefectClient, name: str) -> str:
    """The command that resumes a deployment's schedule, if somebody paused it; else nothing."""
    with suppress(ObjectNotFound):
        for schedule in client.read_deployment_by_name(name).schedules:
            if not schedule.active:
                return shlex.join(["prefect", "deployment", "schedule", "resume", name, str(schedule.id)])
    return ""


@contextmanager
def _server() -> Iterator[SyncPrefectClient]:
    """Prefect's server; raises ConfigError if it does not answer."""
    check_server("in a checkout make up starts it")
    with get_client(sync_client=True) as client:
        yield client


def _first_run(client: SyncPrefectClient, deployment: UUID, *states: StateType) -> UUID | None:
    """The id of a run of a deployment in one of these states, if there is one."""
    wanted = FlowRunFilter(
        deployment_id=FlowRunFilterDeploymentId(any_=[deployment]),
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[*states])),
    )
    return next((run.id for run in client.read_flow_runs(flow_run_filter=wanted, limit=1)), None)


def _refuse_bad(cron: str, timezone: str | None) -> None:
    fields = 1 if cron.startswith("@") else 5  # Prefect takes a sixth for seconds
    try:
        CronSchedule(cron=cron if len(cron.split()) == fields else "", timezone=timezone)
    except ValidationError as error:
        if error.errors()[0]["loc"] == ("timezone",):
            raise ConfigError(f"--timezone {timezone!r} is no zone: give one such as Europe/Vienna") from error
        raise ConfigError(f"--cron {cron!r} is no schedule: {HOW}") from error
    try:
        run_coro_as_sync(Dates(cron=cron, timezone=timezone).get_dates(1))
    except ValueError as error:  # as for the 30th of February
        raise ConfigError(f"--cron {cron!r} names a date that never comes: {HOW}") from error
