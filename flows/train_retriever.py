"""The retriever's pipeline as a Prefect flow: for a deployment, and for `noisyir run --engine prefect`."""

from contextvars import ContextVar

from prefect import flow
from prefect.runtime import flow_run

from flows.embedded import embedded
from noisyir import experiments, runs
from noisyir.config import Experiment, Runtime, default_home
from noisyir.observe import Observer, Several, Silent
from noisyir.plan import Choice
from noisyir.runs import Outcome
from noisyir.store import Store
from noisyir.tracking import Tracker, open_tracker
from tasks.stage_task import through_tasks

# What a caller in the same process brings along, and no parameter could carry: parameters are JSON.
_watchers: ContextVar[tuple[Tracker, Observer] | None] = ContextVar("watchers", default=None)


def _run_name() -> str:
    experiment: dict[str, object] | Experiment | str = flow_run.parameters["experiment"]
    if isinstance(experiment, Experiment):
        return experiment.name
    return experiment if isinstance(experiment, str) else str(experiment["name"])


@flow(name="train_retriever", flow_run_name=_run_name, persist_result=False)
def train_retriever(
    experiment: Experiment | str,
    overrides: tuple[str, ...] = (),
    to: str | None = None,
    only: str | None = None,
    refresh: tuple[str, ...] = (),
    store: str | None = None,
    runtime: Runtime = Runtime(),  # noqa: B008 - frozen
) -> Outcome:
    """Train a dense retriever on noisy pairs, compare it with BM25, track and register it.

    experiment: a name that ships with noisyir, a .yaml file, or all settings; overrides: such as train.epochs=3.
    to, only, refresh: which stages to run, as on the command line.  store: folder or fsspec URL of the artifacts.
    """
    exp = experiments.load(experiment, overrides) if isinstance(experiment, str) else experiment
    home = default_home()
    artifacts = Store(store or home / "store", home=home)
    artifacts.check_writable()
    tracker, observer = _watchers.get() or (open_tracker(experiment=exp, home=home), Silent())
    tracker.tag("flow_run", str(flow_run.id))
    both = Several([observer, tracker])
    return runs.run_experiment(
        exp,
        Choice(to=to, only=only, refresh=refresh),
        store=artifacts,
        runtime=runtime,
        tracker=tracker,
        observer=observer,
        run_step=through_tasks(store=artifacts, runtime=runtime, observer=both),
    )


def run_experiment(
    exp: Experiment, choice: Choice, *, store: Store, runtime: Runtime, tracker: Tracker, observer: Observer
) -> Outcome:
    """Run the flow here and now, against `PREFECT_API_URL` or else a server that lives as long as the flow.

    The caller's tracker and observer follow it; errors are the stages' own, as with `noisyir.runs.run_experiment`.
    """
    token = _watchers.set((tracker, observer))
    try:
        with embedded():
            return train_retriever(
                experiment=exp,
                to=choice.to,
                only=choice.only,
                refresh=choice.refresh,
                store=store.url,
                runtime=runtime,
            )
    finally:
        _watchers.reset(token)
