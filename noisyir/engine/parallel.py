"""A plan's steps side by side: those that do not need each other run at the same time, each in a process of its own.

Processes, for stages share torch's generators, numbers of threads and a JVM with whatever else runs in theirs.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol

from noisyir.engine.build_stage import Result, reuse, run_stage
from noisyir.engine.observe import Relay, Several
from noisyir.engine.plan import Choice, Plan, execute
from noisyir.engine.processes import Helpers, Tell
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Inputs, Observer, Spread, Step
from noisyir.engine.store import Store
from noisyir.engine.waiting import current_run
from noisyir.errors import ConfigError


class RunsStage(Protocol):
    """How one stage is run for a step: `run_stage`, here or in another process."""

    def __call__(
        self,
        step: Step,
        inputs: Inputs,
        *,
        store: Store,
        observer: Observer,
        refresh: bool,
        spread: Spread | None = None,
    ) -> Result:
        """As `noisyir.engine.stage.run_stage`."""


@contextmanager
def stage_runner(runtime: Runtime) -> Iterator[RunsStage]:
    """`run_stage` here for one step at a time; for several in processes, which share the machine's threads.

    The latter may be called from several threads at once; its processes end with the block.  What an engine spreads
    stays here, for it only waits.
    """
    here: RunsStage = partial(run_stage, runtime=runtime)

    if runtime.steps_at_once == 1:
        yield here
        return
    shared = runtime.model_copy(update={"threads": max(1, runtime.cpu_threads // runtime.steps_at_once)})

    def apart(
        step: Step, inputs: Inputs, *, store: Store, observer: Observer, refresh: bool, spread: Spread | None = None
    ) -> Result:
        def hear(message: tuple[str, tuple[object, ...]]) -> None:
            event, values = message
            getattr(observer, event)(step, *values)

        if spread and step.stage.spreads:
            return here(step, inputs, store=store, observer=observer, refresh=refresh, spread=spread)
        if not refresh and (result := reuse(step, inputs, store, observer)):
            return result
        bare = replace(step, inputs={})  # what is planned does not travel; what is resolved does
        arguments = (bare, inputs, store.url, store.home, shared, refresh, current_run.get())
        try:
            made: Result = helpers.call(step.name, _run, arguments, hear)
        except Exception as error:
            observer.failed(step, error)
            raise
        return made

    with Helpers() as helpers:
        yield apart


def at_once(runtime: Runtime, jobs: int | None) -> Runtime:
    """The settings with so many steps at a time; None: one a core.  ConfigError for less than one."""
    if jobs is not None and jobs < 1:
        raise ConfigError(f"jobs is the number of steps at a time, at least 1, not {jobs}")
    return runtime.model_copy(update={"steps_at_once": jobs or runtime.cpu_threads})


def execute_side_by_side(
    plan: Plan,
    choice: Choice,
    store: Store,
    runtime: Runtime,
    observer: Observer,
    then: Callable[[Step, Result], None] = lambda step, result: None,
) -> dict[str, Result]:
    """As `plan.execute` with `run_stage`, `runtime.steps_at_once` steps at a time."""
    one_at_a_time = Several([observer])
    with stage_runner(runtime) as run:

        def run_step(step: Step, inputs: Inputs, refresh: bool) -> Result:
            return run(step, inputs, store=store, observer=one_at_a_time, refresh=refresh)

        return execute(plan, choice, store, run_step, runtime.steps_at_once, then)


def _run(
    tell: Tell, step: Step, inputs: Inputs, url: str, home: Path, runtime: Runtime, refresh: bool, run: str | None
) -> Result:
    store = Store(url, home=home)
    current_run.set(run)
    return run_stage(step, inputs, store=store, runtime=runtime, observer=Relay(tell), refresh=refresh)
