"""The noise bench as a Prefect flow: its steps side by side, in processes here, on the pools, or on a cluster."""

from prefect import flow
from prefect.runtime import flow_run

from noisyir.app import runs
from noisyir.app.runs import Execution, Outcome
from noisyir.engine.plan import Choice
from noisyir.engine.remote.parallel import at_once
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Observer
from noisyir.flows.artifacts import completed, fails_in_words, show
from noisyir.flows.experiment import stages_as_tasks, watched, watchers, writable_store
from noisyir.methods import experiments
from noisyir.methods.plans.suite import Suite
from noisyir.registry.tracker import Tracker
from noisyir.tasks.dispatch import Pools


def _run_name() -> str:
    suite: dict[str, object] | Suite | str = flow_run.parameters["suite"]
    if isinstance(suite, Suite):
        return suite.name
    return suite if isinstance(suite, str) else str(suite["name"])


@flow(name="bench_noise", flow_run_name=_run_name, persist_result=False)
@fails_in_words
def bench_noise(
    suite: Suite | str = "pydocs",
    overrides: tuple[str, ...] = (),
    seeds: int | None = None,
    jobs: int | None = None,
    refresh: tuple[str, ...] = (),
    store: str | None = None,
    runtime: Runtime = Runtime(),  # noqa: B008 - frozen
    pools: Pools = Pools(),  # noqa: B008 - frozen
) -> Outcome:
    """Compare denoisers on every kind of noise.

    Args:
        suite: a name that ships with noisyir, a .yaml file that the worker sees, or all settings.
        overrides: settings to change, such as methods=[dpr,npc].
        seeds: 0 to N - 1 instead of the suite's.
        jobs: steps at a time, here and on the pools; empty: one a core.
        refresh: stages to rebuild although they are there, such as encode or encode@npc.
        store: folder or fsspec URL of the artifacts; empty: the one that this worker's NOISYIR_STORE or NOISYIR_HOME
            names.
        runtime: the machine, not the method; runtime.fan_out: a Ray cluster that runs the steps in place of
            processes here.
        pools: which stages are sent to the workers of other pools, as flow runs of dispatched_step.

    """
    chosen = experiments.load_suite(suite, overrides) if isinstance(suite, str) else suite
    chosen = experiments.with_seeds(chosen, seeds)
    artifacts = writable_store(store)
    tracker, observer = watchers() or (Tracker(), Observer())
    choice, machine = Choice(refresh=refresh), at_once(runtime, jobs)
    with stages_as_tasks(store=artifacts, runtime=machine, tracker=tracker, observer=observer, pools=pools) as run_step:
        outcome = runs.run_suite(
            chosen,
            choice,
            Execution(store=artifacts, runtime=machine, tracker=tracker, run_step=run_step, elsewhere=pools.elsewhere),
        )
    show(outcome, artifacts)
    return completed(outcome)


def run_suite(suite: Suite, choice: Choice, execution: Execution) -> Outcome:
    """As the flow, here and now: the caller's tracker and observer follow it."""
    runtime, store = execution.runtime, execution.store
    with watched(execution):
        return bench_noise(suite, jobs=runtime.steps_at_once, refresh=choice.refresh, store=store.url, runtime=runtime)
