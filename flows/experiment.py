"""What the flows share: an experiment is read, run with its stages as tasks, and perhaps watched by a caller."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path

from prefect.exceptions import TerminationSignal
from prefect.runtime import flow_run

from noisyir.app import runs
from noisyir.app.runs import Execution, Outcome, ProgressFile
from noisyir.base.command_line import typed_words
from noisyir.base.errors import ConfigError, NoisyirError
from noisyir.engine.observe import ObserverGroup
from noisyir.engine.plan import Choice, RunStep
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Observer
from noisyir.engine.store import Store, open_store
from noisyir.flows.artifacts import best_of, completed, fails_in_words, show, tell_of_versions
from noisyir.flows.embedded import embedded
from noisyir.methods import experiments
from noisyir.methods.plans.experiment import Experiment
from noisyir.registry import open_tracker
from noisyir.registry.tracker import Tracker
from noisyir.tasks.dispatch import Dispatch, Pools
from noisyir.tasks.log_context import log_context
from noisyir.tasks.pages import flow_run_page
from noisyir.tasks.stage_task import through_tasks

# What a caller in the same process brings along, and no parameter could carry: parameters are JSON.
_watchers: ContextVar[tuple[Tracker, Observer] | None] = ContextVar("watchers", default=None)


def run_name() -> str:
    """What a person looks for: experiment, methods and seed, from the flow's parameters."""
    given: dict[str, object] | Experiment | str = flow_run.parameters["experiment"]
    try:
        experiment = Experiment.parse(given) if isinstance(given, dict) else given
        exp = load(experiment, tuple(flow_run.parameters.get("overrides", ())), flow_run.parameters.get("store"))
    except (NoisyirError, ValueError):  # the flow says what is wrong
        return str(given["name"]) if isinstance(given, dict) else Path(str(given)).stem
    methods = f"{', '.join(method.kind for method in exp.methods)}, " if not exp.task.trained else ""
    return f"{exp.name}: {methods}seed {exp.seed}"


def load(
    experiment: Experiment | str, overrides: tuple[str, ...], store: str | None, task: str | None = None
) -> Experiment:
    """The experiment of a flow's parameters, on data that may lie in the store.

    ConfigError for one that trains something else than `task` says.
    """
    open_store(store)
    exp = experiments.load(experiment, overrides) if isinstance(experiment, str) else experiment
    if task is not None and exp.task.kind != task:
        raise ConfigError(f"{exp.name} trains a {exp.task.kind}: run the flow train_{exp.task.kind}, not train_{task}")
    return exp


def tag_flow_run(tracker: Tracker) -> None:
    """Have the tracker say which flow run this is, and how its experiment is called."""
    tracker.tag("flow_run", str(flow_run.id))
    if isinstance(given := flow_run.parameters.get("experiment"), str):
        tracker.tag("run_as", given)
    if page := flow_run_page(flow_run.id):
        tracker.tag("flow_run_url", page)


@contextmanager
def _typed(choice: Choice) -> Iterator[None]:
    """Have the run's record name the command that does the same as this flow run, unless one was typed."""
    given, words = flow_run.parameters, typed_words.get()
    if not words and isinstance(given["experiment"], str):
        only = ("--only", choice.only) if choice.only else ()
        words = ("run", given["experiment"], *given.get("overrides", ()), *only)
    token = typed_words.set(words)
    try:
        yield
    finally:
        typed_words.reset(token)


def writable_store(url: str | None) -> Store:
    """The store of a flow's parameters.  StoreError when nothing can be written there."""
    artifacts = open_store(url)
    artifacts.check_writable()
    return artifacts


@contextmanager
def stages_as_tasks(
    *,
    store: Store,
    runtime: Runtime,
    tracker: Tracker,
    observer: Observer = Observer(),  # noqa: B008 - keeps nothing
    pools: Pools = Pools(),  # noqa: B008 - frozen
    parent: str | None = None,
) -> Iterator[RunStep]:
    """How a flow runs its steps: as tasks of its own, or as flow runs of the pools that its parameters name.

    parent: the flow run that sent this one, whose log lines these belong to.
    """
    tag_flow_run(tracker)
    with (
        through_tasks(
            store=store, runtime=runtime, observer=ObserverGroup([observer, tracker, ProgressFile(store)])
        ) as here,
        log_context(run=parent or str(flow_run.id), mlflow=partial(tracker.run_id, begin=False)),
    ):
        dispatch = Dispatch(pools, store, runtime, tracker, here, here.run_task)
        try:
            yield dispatch
        except TerminationSignal:
            dispatch.cancel_children()
            raise


@fails_in_words
def run_in_flow(
    exp: Experiment,
    choice: Choice,
    *,
    store: str | None,
    runtime: Runtime,
    pools: Pools = Pools(),  # noqa: B008 - frozen
) -> Outcome:
    """The body of a flow: the experiment's pipeline, its stages as tasks, or as flow runs of the pools' workers."""
    artifacts = writable_store(store)
    patience = pools.patience_seconds if pools.elsewhere else None  # servers may be starting, too
    made = partial(open_tracker, experiment=exp, home=artifacts.home, patience=patience)
    tracker, observer = watchers() or (made(), Observer())
    with (
        _typed(choice),
        stages_as_tasks(store=artifacts, runtime=runtime, tracker=tracker, observer=observer, pools=pools) as run_step,
    ):
        outcome = runs.run_experiment(
            exp,
            choice,
            Execution(
                store=artifacts,
                runtime=runtime,
                tracker=tracker,
                observer=observer,
                run_step=run_step,
                elsewhere=pools.elsewhere,
            ),
        )
    show(outcome, artifacts)
    if tracker.run_id(begin=False):  # else the facts are an earlier run's
        tell_of_versions(outcome)
    else:
        tracker.repeat(artifacts, outcome.kept, outcome.facts.get("mlflow_run"), outcome.cached)
    return completed(outcome, best_of(outcome, artifacts, exp))


def run_watched(flow: Callable[..., Outcome], exp: Experiment, choice: Choice, execution: Execution) -> Outcome:
    """Run a flow here and now, against `PREFECT_API_URL` or else a server that lives as long as the flow.

    The caller's tracker and observer follow it; errors are the stages' own, as with `noisyir.app.runs.run_experiment`.
    """
    with watched(execution):
        return flow(
            experiment=exp,
            to=choice.to,
            only=choice.only,
            refresh=choice.refresh,
            store=execution.store.url,
            runtime=execution.runtime,
        )


@contextmanager
def watched(execution: Execution) -> Iterator[None]:
    """Have the flow that is called here tell the tracker and the observer of the execution."""
    token = _watchers.set((execution.tracker, execution.observer))
    try:
        with embedded():
            yield
    finally:
        _watchers.reset(token)


def watchers() -> tuple[Tracker, Observer] | None:
    """Whom the caller of this flow brought along."""
    return _watchers.get()
