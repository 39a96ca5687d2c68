"""A plan's steps side by side: those that do not need each other run at the same time, each in a process of its own.

Processes, for stages share torch's generators, numbers of threads and a JVM with whatever else runs in theirs.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from noisyir.engine.build_stage import Result, reuse, run_stage
from noisyir.engine.cluster import Cluster
from noisyir.engine.observe import Relay, Several
from noisyir.engine.plan import Choice, Plan, execute
from noisyir.engine.portable import bare
from noisyir.engine.processes import Helpers, Tell
from noisyir.engine.runtime import Runtime, default_home
from noisyir.engine.stage import Inputs, Observer, Step
from noisyir.engine.store import Store
from noisyir.engine.waiting import current_run
from noisyir.errors import ConfigError


class RunsStage(Protocol):
    """How one stage is run for a step: `run_stage`, here or in another process."""

    def __call__(self, step: Step, inputs: Inputs, *, store: Store, observer: Observer, refresh: bool) -> Result:
        """As `noisyir.engine.stage.run_stage`."""


@contextmanager
def stage_runner(runtime: Runtime) -> Iterator[RunsStage]:
    """`run_stage` here for one step at a time; for several in processes, which share the machine's threads.

    The latter may be called from several threads at once.  With `runtime.fan_out`, a Ray cluster takes what stages
    spread, and in place of the processes whole steps.  Processes and cluster end with the block.
    """
    with Helpers() as helpers, Cluster(runtime) as cluster:
        far = cluster if runtime.fan_out.engine == "ray" else None
        here: RunsStage = partial(run_stage, runtime=runtime, spread=far.spread if far else None)
        yield here if runtime.steps_at_once == 1 else _Apart(runtime, here, helpers, far)


@dataclass(frozen=True)
class _Apart:
    """Runs each step in a process of its own, here or on the cluster; by `here` those that spread their work."""

    runtime: Runtime
    here: RunsStage
    helpers: Helpers
    cluster: Cluster | None

    def __call__(self, step: Step, inputs: Inputs, *, store: Store, observer: Observer, refresh: bool) -> Result:
        if self.cluster and step.stage.spreads:
            return self.here(step, inputs, store=store, observer=observer, refresh=refresh)
        if not refresh and (result := reuse(step, inputs, store, observer)):
            return result
        try:
            return (self._far if self.cluster else self._near)(step, inputs, store, observer, refresh)
        except Exception as error:
            observer.failed(step, error)
            raise

    def _near(self, step: Step, inputs: Inputs, store: Store, observer: Observer, refresh: bool) -> Result:
        def hear(message: tuple[str, tuple[object, ...]]) -> None:
            event, values = message
            getattr(observer, event)(step, *values)

        shared = self.runtime.model_copy(
            update={"threads": max(1, self.runtime.cpu_threads // self.runtime.steps_at_once)}
        )
        arguments = (bare(step), inputs, store.url, store.home, shared, refresh, current_run.get())
        made: Result = self.helpers.call(step.name, _run, arguments, hear)
        return made

    def _far(self, step: Step, inputs: Inputs, store: Store, observer: Observer, refresh: bool) -> Result:
        """On the cluster: the observer is told when a step is sent and when it is back, and not what lies between."""
        assert self.cluster is not None
        observer.started(step)
        runtime, home = self.cluster.runtime, self.cluster.home_there(store.home)
        arguments = (bare(step), inputs, store.url, home, runtime, refresh, current_run.get())
        made: Result = self.cluster.call(step.name, step.stage.pool, _run, lambda _: None, *arguments)
        observer.finished(step, made.meta, made.cached)
        return made


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
    tell: Tell,
    step: Step,
    inputs: Inputs,
    url: str,
    home: Path | None,
    runtime: Runtime,
    refresh: bool,
    run: str | None,
) -> Result:
    store = Store(url, home=home or default_home())
    current_run.set(run)
    return run_stage(step, inputs, store=store, runtime=runtime, observer=Relay(tell), refresh=refresh)
