"""A plan's steps in several processes: those that do not need each other run at the same time."""

from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from noisyir.config import Runtime
from noisyir.observe import Observer
from noisyir.plan import Choice, Plan, Step, resolve
from noisyir.stage import Inputs, Result, run_stage
from noisyir.store import Store


def execute_in_processes(
    plan: Plan, choice: Choice, store: Store, runtime: Runtime, observer: Observer, jobs: int
) -> dict[str, Result]:
    """As `plan.execute` with `run_stage`, on `jobs` processes that share the machine's threads.

    The first step that fails stops the run: those at work are finished, no more are begun, and its error is raised.
    """
    selected, refreshed = choice.selected(plan), choice.refreshed(plan)
    waiting = [step for step in plan.steps if step.name in selected]
    shared = runtime.model_copy(update={"threads": max(1, runtime.cpu_threads // jobs)})
    done: dict[str, Result] = {}
    at_work: dict[Future[Result], Step] = {}
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        while waiting or at_work:
            for step in _ready(waiting, selected, done)[: jobs - len(at_work)]:
                waiting.remove(step)
                inputs = resolve(step, plan, store, done)
                bare = replace(step, inputs={})  # what is planned does not travel; what is resolved does
                future = pool.submit(_run, bare, inputs, store.url, store.home, shared, step.name in refreshed)
                at_work[future] = step
            finished, _ = wait(at_work, return_when=FIRST_COMPLETED)
            for future in finished:
                step = at_work.pop(future)
                done[step.name] = future.result()
                observer.finished(step, done[step.name].meta, done[step.name].cached)
    return {step.name: done[step.name] for step in plan.steps if step.name in selected}


def _ready(waiting: list[Step], selected: set[str], done: Mapping[str, Result]) -> list[Step]:
    """The waiting steps of which every input that this run makes is there."""
    return [
        step
        for step in waiting
        if all(output.step in done or output.step not in selected for output in step.outputs_needed())
    ]


def _run(step: Step, inputs: Inputs, url: str, home: Path, runtime: Runtime, refresh: bool) -> Result:
    return run_stage(step, inputs, store=Store(url, home=home), runtime=runtime, refresh=refresh)
