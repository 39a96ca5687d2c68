"""A plan's steps in several processes: those that do not need each other run at the same time."""

from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from noisyir.config import Runtime
from noisyir.errors import ConfigError, NoisyirError
from noisyir.observe import Observer
from noisyir.plan import Choice, Plan, Step, resolve
from noisyir.processes import end_with_parent
from noisyir.stage import Inputs, Result, run_stage
from noisyir.store import Store


def execute_in_processes(
    plan: Plan, choice: Choice, store: Store, runtime: Runtime, observer: Observer, jobs: int
) -> dict[str, Result]:
    """As `plan.execute` with `run_stage`, on `jobs` processes that share the machine's threads.

    The first step that fails stops the run: those at work are finished, no more are begun, and its error is raised.
    ConfigError for less than one process; NoisyirError when one was killed.
    """
    if jobs < 1:
        raise ConfigError(f"jobs is the number of steps at a time, at least 1, not {jobs}")
    selected, refreshed = choice.selected(plan), choice.refreshed(plan)
    waiting = [step for step in plan.steps if step.name in selected]
    shared = runtime.model_copy(update={"threads": max(1, runtime.cpu_threads // jobs)})
    done: dict[str, Result] = {}
    at_work: dict[Future[Result], Step] = {}
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=end_with_parent)
    with pool, _killed_is_said(at_work):
        while waiting or at_work:
            for step in _ready(waiting, selected, done)[: jobs - len(at_work)]:
                waiting.remove(step)
                inputs = resolve(step, plan, store, done)
                bare = replace(step, inputs={})  # what is planned does not travel; what is resolved does
                future = pool.submit(_run, bare, inputs, store.url, store.home, shared, step.name in refreshed)
                at_work[future] = step
            finished, _ = wait(at_work, return_when=FIRST_COMPLETED)
            for future in finished:
                step, result = at_work[future], future.result()
                done[step.name] = result
                observer.finished(step, result.meta, result.cached)
                del at_work[future]
    return {step.name: done[step.name] for step in plan.steps if step.name in selected}


@contextmanager
def _killed_is_said(at_work: Mapping[Future[Result], Step]) -> Iterator[None]:
    """Turn the pool's error for a process that was killed into one that says what the user can do."""
    try:
        yield
    except BrokenProcessPool as error:
        steps = ", ".join(step.name for step in at_work.values())
        raise NoisyirError(
            f"a process was killed, most likely for want of memory, while these ran: {steps}. The same command "
            "continues where it stopped; fewer steps at a time (--jobs) need less memory"
        ) from error


def _ready(waiting: list[Step], selected: set[str], done: Mapping[str, Result]) -> list[Step]:
    """The waiting steps of which every input that this run makes is there."""
    return [
        step
        for step in waiting
        if all(output.step in done or output.step not in selected for output in step.outputs_needed())
    ]


def _run(step: Step, inputs: Inputs, url: str, home: Path, runtime: Runtime, refresh: bool) -> Result:
    return run_stage(step, inputs, store=Store(url, home=home), runtime=runtime, refresh=refresh)
