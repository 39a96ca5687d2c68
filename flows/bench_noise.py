"""The noise bench as a Prefect flow: its steps side by side, in processes here or on a Dask or Ray cluster."""

from prefect import flow
from prefect.runtime import flow_run

from flows.artifacts import show
from flows.experiment import tag_flow_run, watched, watchers
from noisyir import experiments
from noisyir.config import Runtime, Suite
from noisyir.observe import Observer, Several, Silent
from noisyir.parallel import at_once
from noisyir.plan import Choice, Plan, execute
from noisyir.reader_pipelines import bench_of
from noisyir.runs import Outcome, run_plan
from noisyir.stage import Result
from noisyir.store import Store, open_store
from noisyir.tracking import Tracker
from tasks.log_context import log_context
from tasks.stage_task import through_cluster, through_tasks


def _run_name() -> str:
    suite: dict[str, object] | Suite | str = flow_run.parameters["suite"]
    if isinstance(suite, Suite):
        return suite.name
    return suite if isinstance(suite, str) else str(suite["name"])


@flow(name="bench_noise", flow_run_name=_run_name, persist_result=False)
def bench_noise(
    suite: Suite | str = "pydocs",
    overrides: tuple[str, ...] = (),
    seeds: int | None = None,
    jobs: int | None = None,
    refresh: tuple[str, ...] = (),
    store: str | None = None,
    runtime: Runtime = Runtime(),  # noqa: B008 - frozen
) -> Outcome:
    """Compare denoisers on every kind of noise.

    suite: a name that ships with noisyir, a .yaml file, or all settings; overrides: such as methods=[dpr,npc].
    seeds: 0 to N - 1 instead of the suite's.  jobs: steps at a time on this machine (default: one a core).
    refresh: stages to rebuild.  store: folder or fsspec URL of the artifacts.
    runtime.fan_out: a Dask or Ray cluster that runs the steps instead, as many at a time as it says workers.
    """
    chosen = experiments.load_suite(suite, overrides) if isinstance(suite, str) else suite
    chosen = experiments.with_seeds(chosen, seeds)
    artifacts = open_store(store)
    artifacts.check_writable()
    tracker, observer = watchers() or (Tracker(), Silent())
    plan, choice = bench_of(chosen), Choice(refresh=refresh)

    tag_flow_run(tracker)

    def steps() -> dict[str, Result]:
        with log_context(run=str(flow_run.id)):
            return _execute(plan, choice, artifacts, at_once(runtime, jobs), Several([observer, tracker]))

    outcome = run_plan(plan, choice, steps, name=chosen.name, settings=chosen, store=artifacts, tracker=tracker)
    show(outcome, artifacts)
    return outcome


def _execute(plan: Plan, choice: Choice, store: Store, runtime: Runtime, observer: Observer) -> dict[str, Result]:
    here = runtime.fan_out.engine == "none"
    through, at_a_time = (through_tasks, runtime.steps_at_once) if here else (through_cluster, runtime.fan_out.workers)
    with through(store=store, runtime=runtime, observer=observer) as run_step:
        return execute(plan, choice, store, run_step, at_a_time)


def run_suite(
    suite: Suite, choice: Choice, *, store: Store, runtime: Runtime, tracker: Tracker, observer: Observer
) -> Outcome:
    """As the flow, here and now: the caller's tracker and observer follow it."""
    with watched(tracker, observer):
        return bench_noise(suite, jobs=runtime.steps_at_once, refresh=choice.refresh, store=store.url, runtime=runtime)
