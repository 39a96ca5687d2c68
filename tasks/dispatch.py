"""Stages that run on another pool's workers: each a flow run of `dispatched_step`, its result read from the store.

The parent waits without a lock that a child wants, and with no slot but its own.  So two parents that want one stage
make two flow runs, of which the second finds what the first has built.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, TypeVar
from uuid import uuid4

import httpx
from prefect import get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import FlowRun, State, WorkPoolStatus
from prefect.deployments import run_deployment
from prefect.exceptions import ObjectNotFound
from prefect.logging import get_run_logger
from prefect.states import Cancelling
from pydantic import Field, PositiveFloat

from noisyir.engine.build_stage import Result, recorded
from noisyir.engine.plan import RunStep
from noisyir.engine.runtime import Runtime
from noisyir.engine.serialized_step import SerializedStep
from noisyir.engine.stage import Inputs, Step
from noisyir.engine.store import Store
from noisyir.errors import ConfigError, NoisyirError, StoreError
from noisyir.settings import Params
from noisyir.tracking.tracker import Tracker
from tasks.pages import flow_run_page

FLOW = "dispatched_step"
ATTEMPTS = 3
POLL_SECONDS = 1.0
LATE_SECONDS = 30.0  # an answer that took longer came after a restart of the server
T = TypeVar("T")
_RAISED = "Flow run encountered an exception: "


class Pools(Params):
    """Which stages leave the process of the flow that runs the pipeline, and how long it waits for a worker."""

    elsewhere: tuple[Literal["cpu", "gpu"], ...] = Field((), description="stages of these pools go to their workers")
    patience_seconds: PositiveFloat = Field(
        600.0, description="longest that a stage waits for a worker to come up, and its flow for Prefect's server"
    )


@dataclass(frozen=True)
class Dispatch:
    """How `noisyir.engine.plan.execute` calls a step where some pools' stages run elsewhere; `here` calls the others.

    Cached steps are not sent anywhere.  A child that crashed, as one does that was killed or ran out of memory, is
    started again, `ATTEMPTS` times in all: stages go on from their checkpoints.  NoisyirError for what a child raises.
    """

    pools: Pools
    store: Store
    runtime: Runtime
    tracker: Tracker
    here: RunStep

    def __call__(self, step: Step, inputs: Inputs, refresh: bool) -> Result:
        """Run the step where its pool says."""
        if step.stage.pool not in self.pools.elsewhere:
            return self.here(step, inputs, refresh)
        if not refresh and self.store.find(step.stage.name, step.key, recorded(inputs)):
            return self.here(step, inputs, refresh)
        sent = datetime.now(UTC)
        for attempt in range(1, ATTEMPTS + 1):
            child = self._start(step, inputs, refresh)
            get_run_logger().info("%s sent to the pool %s: %s", step.name, step.stage.pool, flow_run_page(child.id))
            state = self._wait(child, step)
            if not state.is_crashed():
                break
            get_run_logger().warning("%s crashed, attempt %d of %d: %s", step.name, attempt, ATTEMPTS, state.message)
        log = f"Its log: {flow_run_page(child.id)}"
        if not state.is_completed():
            raise NoisyirError(f"{step.name}, on the pool {step.stage.pool}, {_ending(state)}. {log}")
        found = self.store.find(step.stage.name, step.key, recorded(inputs))
        if found is None:
            raise StoreError(
                f"{step.name} is done, says the pool {step.stage.pool}, but its artifact is not in {self.store.url}: "
                f"do its workers share that store? {log}"
            )
        another_runs = datetime.fromisoformat(found.created) < sent  # whose child was faster
        return Result(found, cached=another_runs)

    def _start(self, step: Step, inputs: Inputs, refresh: bool) -> FlowRun:
        name, request = f"{FLOW}/{step.stage.pool}", str(uuid4())  # asked twice, Prefect makes one run of it
        alone = self.runtime.model_copy(update={"steps_at_once": 1})  # how many run at once is its pool's matter
        parameters = {
            "step": SerializedStep.of(step, inputs).model_dump(mode="json"),
            "refresh": refresh,
            "store": self.store.url,
            "runtime": alone.model_dump(mode="json"),
            "parent": self.tracker.tags.get("flow_run"),
            "mlflow_run": self.tracker.run_id(),
        }

        def send() -> FlowRun:
            return run_deployment(  # type: ignore[return-value]  # it is a coroutine in async code only
                name, parameters=parameters, flow_run_name=step.name, tags=[step.stage.pool],
                idempotency_key=request, timeout=0,
            )  # fmt: skip

        try:
            return self._patiently(send)
        except ObjectNotFound as error:
            raise ConfigError(f"no deployment {name}: python -m infra.deploy") from error

    def _wait(self, child: FlowRun, step: Step) -> "State[object]":
        """The child's final state.  NoisyirError when no worker takes it."""
        waits_since = time.monotonic()
        with get_client(sync_client=True) as client:
            while True:
                time.sleep(POLL_SECONDS)
                asked = time.monotonic()
                state = self._patiently(lambda: client.read_flow_run(child.id).state)
                if state is not None and state.is_final():
                    return state
                if state is None or not state.is_scheduled() or time.monotonic() - asked > LATE_SECONDS:
                    waits_since = time.monotonic()  # it is at work, or nobody could have taken it meanwhile
                elif time.monotonic() - waits_since > self.pools.patience_seconds:
                    self._give_up_without_worker(client, child, step)

    def _give_up_without_worker(self, client: SyncPrefectClient, child: FlowRun, step: Step) -> None:
        """Cancel the child if its pool has nobody who could take it; a pool that is only busy is waited for."""
        pool = child.work_pool_name or step.stage.pool
        if self._patiently(lambda: client.read_work_pool(pool)).status is WorkPoolStatus.READY:
            return
        client.set_flow_run_state(child.id, Cancelling(message="no worker took it"))
        raise NoisyirError(
            f"{step.name} waited {self.pools.patience_seconds:.0f} s for a worker, and the pool {pool} has none: "
            f"prefect worker start --pool {pool}"
        )

    def _patiently(self, call: Callable[[], T]) -> T:
        """What Prefect's server answers, asked again while it is down; its error when that takes too long."""
        began = time.monotonic()
        while True:
            try:
                return call()
            except httpx.HTTPError as error:
                if not _is_away(error) or time.monotonic() - began > self.pools.patience_seconds:
                    raise
                time.sleep(POLL_SECONDS)


def _is_away(error: httpx.HTTPError) -> bool:
    """Whether Prefect's server, or its database, is down for now, as while it is started again."""
    return not isinstance(error, httpx.HTTPStatusError) or error.response.is_server_error


def _ending(state: "State[object]") -> str:
    name, message = str(state.name).lower(), (state.message or "").removeprefix(_RAISED).strip()
    return f"{name}: {message}" if message else name
