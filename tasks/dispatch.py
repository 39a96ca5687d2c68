"""Stages that run on another pool's workers: each a flow run of `dispatched_step`, its result read from the store.

The parent waits without a lock that a child wants, and with no slot but its own.  So two parents that want one stage
make two flow runs, of which the second finds what the first has built.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from typing import Literal, Protocol, TypeVar
from uuid import UUID, uuid4

import httpx
from prefect import get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import FlowRun, State, WorkPoolStatus
from prefect.deployments import run_deployment
from prefect.exceptions import ObjectNotFound
from prefect.logging import get_run_logger
from prefect.runtime import flow_run
from prefect.states import Cancelling
from pydantic import Field, PositiveFloat

from noisyir.app.dry_run import run_needs
from noisyir.base.errors import ConfigError, NoisyirError, StoreError
from noisyir.base.settings import Params
from noisyir.engine.build_stage import Result, recorded
from noisyir.engine.locks import current_run
from noisyir.engine.meta import Meta
from noisyir.engine.needs import Needs, most
from noisyir.engine.plan import Ahead, RunStep, ahead, filled, resolved
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Inputs, Output, PlannedInputs, Step
from noisyir.engine.store import Store
from noisyir.registry.tracker import Tracker
from noisyir.tasks.machine import Machine, in_words, lack_of_memory
from noisyir.tasks.pages import flow_run_page
from noisyir.tasks.stage_task import Call
from noisyir.training.launch import SerializedStep

FLOW = "dispatched_step"
ATTEMPTS = 3
# Between two looks at a child's state a twentieth of the time that it has taken, from the least to the greatest; no
# child ends in less time than the first takes.
FIRST_POLL_SECONDS, LEAST_POLL_SECONDS, POLL_SECONDS = 0.8, 0.15, 1.0
_NAMED = 20
LATE_SECONDS = 30.0  # an answer that took longer came after a restart of the server
T = TypeVar("T")
_RAISED = "Flow run encountered an exception: "
_MORE = "Lower train.batch_size or runtime.batch_tokens, or set more in the job variables of "


class Pools(Params):
    """Which stages leave the process of the flow that runs the pipeline, and how long it waits for a worker."""

    elsewhere: tuple[Literal["cpu", "gpu"], ...] = Field((), description="stages of these pools go to their workers")
    together: bool = Field(True, description="stages of one pool that can follow each other go in one flow run")
    patience_seconds: PositiveFloat = Field(
        600.0, description="longest that a stage waits for a worker to come up, and its flow for Prefect's server"
    )


class RunTask(Protocol):
    """Runs a step's call as a task: `StageTasks.run_task`."""

    def __call__(self, step: Step, call: Call, inputs: Inputs, refresh: bool, *, retries: int) -> Result:
        """Run it."""


@dataclass(frozen=True)
class _Sent:
    at: datetime
    child: FlowRun
    state: "State[object]"
    more: str  # to say of a failure


@dataclass(frozen=True)
class Dispatch:
    """How `noisyir.engine.plan.execute` calls a step where some pools' stages run elsewhere; `here` calls the others.

    Each is a task of this run, in which the flow run of the pool nests.  Cached steps are not sent anywhere.  With a
    step go those of its pool that the run does next, for a hop costs more
    than many a stage; each is an artifact of its own, and one that fails leaves those before it in the store.  A child
    that crashed, as one does that was killed, is started again, `ATTEMPTS` times in all: stages go on from their
    checkpoints.  NoisyirError for what a child raises.
    """

    pools: Pools
    store: Store
    runtime: Runtime
    tracker: Tracker
    here: RunStep
    run_task: RunTask
    _sent: dict[str, _Sent] = field(default_factory=dict)  # by key, steps that went with an earlier one
    _made: dict[str, Result] = field(default_factory=dict)  # by name, what they made, which the run has not come to yet
    _at_work: set[UUID] = field(default_factory=set)  # children that are waited for
    _machines: dict[str, Machine] = field(default_factory=dict)  # by pool

    def __call__(self, step: Step, inputs: Inputs, refresh: bool) -> Result:
        """Run the step where its pool says."""
        in_store = not refresh and step.key not in self._sent and self._find(step, inputs)
        if in_store or step.stage.pool not in self.pools.elsewhere:
            return self.here(step, inputs, refresh)
        return self.run_task(step, partial(self._elsewhere, step), inputs, refresh, retries=0)

    def _elsewhere(self, step: Step, inputs: Inputs, refresh: bool) -> Result:
        """Have the pool's worker run the step, unless it went with an earlier one."""
        found = self._find(step, inputs)
        if sent := self._sent.pop(step.key, None):  # with an earlier step
            fresh = found is not None and datetime.fromisoformat(found.created) >= sent.at
            if found and (fresh or sent.state.is_completed()):
                return Result(found, cached=not (fresh or refresh))
            if not sent.state.is_crashed():
                raise NoisyirError(_failure(step, sent.child, sent.state) + sent.more)
        return self._send(step, inputs, refresh)

    def cancel_children(self) -> None:
        """If this run is being cancelled, cancel what is at work elsewhere.

        What fails here is made good by Prefect's server, which looks for such children every 20 s.
        """
        with suppress(httpx.HTTPError, ObjectNotFound), get_client(sync_client=True) as client:
            own = client.read_flow_run(UUID(flow_run.id)).state
            for child in tuple(self._at_work) if own is not None and own.is_cancelling() else ():
                client.set_flow_run_state(child, Cancelling(message="the run that waits for it was cancelled"))

    def _send(self, step: Step, inputs: Inputs, refresh: bool) -> Result:
        """Have the pool's worker run the step, and those behind it that can run there at once."""
        together, began = self._together(Ahead(step, inputs, refresh)), datetime.now(UTC)
        child, state, more = self._tried(together)
        found = self._find(step, inputs)
        fresh = found is not None and datetime.fromisoformat(found.created) >= began
        if not state.is_completed() and (len(together) == 1 or not fresh):
            raise NoisyirError(_failure(step, child, state) + more)
        if found is None:
            raise StoreError(
                f"stage {step.name}: done, says the pool {step.stage.pool}, but its artifact is not in "
                f"{self.store.url}: do its workers share that store? Its log: {flow_run_page(child.id)}"
            )
        self._sent.update({one.step.key: _Sent(began, child, state, more) for one in together[1:]})
        if state.is_completed():
            self._know(together)
        # Not fresh: of another run, whose child was faster, or built again to the same bytes.
        return Result(found, cached=not (fresh or refresh))

    def _tried(self, together: Sequence[Ahead]) -> tuple[FlowRun, "State[object]", str]:
        """The last child of these steps, how it ended, and what to say of memory that did not suffice twice.

        One that lacked memory is started again with twice of it, once; one that crashed otherwise as it was.
        """
        step, pool = together[0].step, together[0].step.stage.pool
        name, machine, log = called([one.step.name for one in together]), self._machine(pool), get_run_logger()
        asked = first = self._needs_of(together, machine)
        for attempt in range(1, ATTEMPTS + 1):
            child = self._start(together, asked)
            if run := current_run.get():
                self.store.runs.set_progress(run, {"step": f"{name} on the pool {pool}"})
            log.info("%s sent to the pool %s: %s", name, pool, flow_run_page(child.id))
            self._at_work.add(child.id)
            state = self._wait(child, step)
            self._at_work.remove(child.id)
            lacking = machine.takes_needs() and self._patiently(partial(lack_of_memory, child, state))
            if lacking and asked != first:
                return child, state, f" It lacked memory twice, at last with {in_words(asked)}. {_MORE}{FLOW}/{pool}"
            if lacking and (more := machine.more(asked, lacking)) != asked:
                log.warning("%s lacked memory, and is tried again with %s: %s", name, in_words(more), lacking)
                asked = more
            elif state.is_crashed():
                log.warning("%s crashed, attempt %d of %d: %s", name, attempt, ATTEMPTS, state.message)
            else:
                break
        return child, state, ""

    def _machine(self, pool: str) -> Machine:
        """What machines of the pool can be asked for; a pool of processes takes no needs, which is said once."""
        if pool not in self._machines:
            try:
                self._machines[pool] = found = self._patiently(partial(Machine.of, f"{FLOW}/{pool}"))
            except ObjectNotFound as error:
                raise ConfigError(f"no deployment {FLOW}/{pool}: python -m infra.bootstrap") from error
            if not found.takes_needs():
                get_run_logger().info("the pool %s is of type %s: no memory is set aside for stages", pool, found.kind)
        return self._machines[pool]

    def _needs_of(self, together: Sequence[Ahead], machine: Machine) -> dict[str, str]:
        """The variables for what the steps need, of which each runs for itself."""
        if not machine.takes_needs():
            return {}
        needs, steps = run_needs.get()(), [one.step for one in together]
        gpus = self.runtime.processes if any(step.stage.learners for step in steps) else 1
        return machine.variables(most(needs.get(step.name, Needs()) for step in steps), gpus)

    def _know(self, together: Sequence[Ahead]) -> None:
        """Remember what steps made that went together, for those that go next."""
        for one in together:
            inputs = resolved(one.inputs, self._made)
            if meta := self._find(one.step, inputs):
                self._made[one.step.name] = Result(meta, cached=True)

    def _find(self, step: Step, inputs: Inputs) -> Meta | None:
        return self.store.builds.find(step.stage.name, step.key, recorded(inputs))

    def _together(self, first: Ahead) -> list[Ahead]:
        """The step and those of its pool that a run does next and that need what is made, in the store, or each other.

        Where several steps run side by side, only those that need one of them: others may have a worker to themselves.
        """
        together, names, there = [first], {first.step.name}, dict(self._made)
        for later in ahead.get()() if self.pools.together else ():
            if later.step.name in self._made:
                continue
            inputs = filled(later.inputs, there)
            needed = {output.step for output in _outputs_in(inputs)}
            if not needed and not later.refresh and (meta := self._find(later.step, resolved(inputs, {}))):
                there[later.step.name] = Result(meta, cached=True)
                continue
            behind = {output.step for output in later.step.outputs_needed()} & names
            if later.step.stage.pool == first.step.stage.pool and needed <= names and (behind or self._one_at_a_time):
                together.append(later._replace(inputs=inputs))
                names.add(later.step.name)
        return together

    @property
    def _one_at_a_time(self) -> bool:
        return self.runtime.steps_at_once == 1

    def _start(self, together: Sequence[Ahead], variables: dict[str, str]) -> FlowRun:
        pool = together[0].step.stage.pool
        name, request = f"{FLOW}/{pool}", str(uuid4())  # asked twice, Prefect makes one run of it
        alone = self.runtime.model_copy(update={"steps_at_once": 1})  # how many run at once is its pool's matter
        parameters = {
            "steps": [SerializedStep.of(one.step, one.inputs).model_dump(mode="json") for one in together],
            "refresh": [one.step.name for one in together if one.refresh],
            "store": self.store.url,
            "runtime": alone.model_dump(mode="json"),
            "parent": self.tracker.tags.get("flow_run"),
            "run": current_run.get(),
            "mlflow_run": self.tracker.run_id(),
        }

        def send() -> FlowRun:
            return run_deployment(  # type: ignore[return-value]  # it is a coroutine in async code only
                name, parameters=parameters, flow_run_name=called([one.step.name for one in together]), tags=[pool],
                idempotency_key=request, timeout=0, work_queue_name=_queue(flow_run.id) if flow_run.id else None,
                job_variables=variables,
            )  # fmt: skip

        return self._patiently(send)

    def _wait(self, child: FlowRun, step: Step) -> "State[object]":
        """The child's final state.  NoisyirError when no worker takes it."""
        began = waits_since = time.monotonic()
        with get_client(sync_client=True) as client:
            time.sleep(FIRST_POLL_SECONDS)
            while True:
                time.sleep(min(POLL_SECONDS, max(LEAST_POLL_SECONDS, (time.monotonic() - began) / 20)))
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
        status = self._patiently(lambda: client.read_work_pool(pool)).status
        if status is WorkPoolStatus.READY:
            return
        cure = f"has none: prefect worker start --pool {pool}"
        if status is WorkPoolStatus.PAUSED:
            cure = f"is paused: prefect work-pool resume {pool}"
        client.set_flow_run_state(child.id, Cancelling(message="no worker took it"))
        waited = f"waited {self.pools.patience_seconds:.0f} s for a worker"
        raise NoisyirError(f"stage {step.name}: {waited}, and the pool {pool} {cure}")

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


@cache
def _queue(run: str) -> str | None:
    """The queue that a flow run was taken from, in which the stages that it sends wait, too; None: the usual one."""
    with get_client(sync_client=True) as client:
        return client.read_flow_run(UUID(run)).work_queue_name


def _outputs_in(inputs: PlannedInputs) -> Iterator[Output]:
    for value in inputs.values():
        yield from (
            made for made in (value.values() if isinstance(value, Mapping) else (value,)) if isinstance(made, Output)
        )


def called(steps: Sequence[str]) -> str:
    """What a flow run that does these steps is called: after all of them, or where they are many after the first."""
    more = f" and {len(steps) - _NAMED} more" if len(steps) > _NAMED else ""
    return ", ".join(steps[:_NAMED]) + more


def _failure(step: Step, child: FlowRun, state: "State[object]") -> str:
    """How the child ended, with the step at the beginning alone: who names it before takes it off there."""
    ending = _ending(state).replace(f"stage {step.name}: ", "")
    return f"stage {step.name}: on the pool {step.stage.pool} {ending}. Its log: {flow_run_page(child.id)}"


def _is_away(error: httpx.HTTPError) -> bool:
    """Whether Prefect's server, or its database, is down for now, as while it is started again."""
    return not isinstance(error, httpx.HTTPStatusError) or error.response.is_server_error


def _ending(state: "State[object]") -> str:
    name, message = str(state.name).lower(), (state.message or "").removeprefix(_RAISED).strip()
    return f"{name}: {message}" if message else name
