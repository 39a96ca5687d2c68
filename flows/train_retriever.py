"""The pipeline of training as a Prefect flow: for a deployment, and for `noisyir run --engine prefect`."""

from functools import partial

from prefect import flow
from prefect.runtime import flow_run

from noisyir.app.runs import Outcome
from noisyir.engine.plan import Choice
from noisyir.engine.runtime import Runtime
from noisyir.flows.experiment import load, run_in_flow, run_name, run_watched
from noisyir.methods.plans.experiment import Experiment
from noisyir.tasks.dispatch import Pools

_TASKS = {"train_retriever": "retriever", "train_reader": "reader"}  # by flow; a renamed one trains both


@flow(name="train_retriever", flow_run_name=run_name, persist_result=False)
def train_retriever(
    experiment: Experiment | str,
    overrides: tuple[str, ...] = (),
    to: str | None = None,
    only: str | None = None,
    refresh: tuple[str, ...] = (),
    store: str | None = None,
    runtime: Runtime = Runtime(),  # noqa: B008 - frozen
    pools: Pools = Pools(),  # noqa: B008 - frozen
) -> Outcome:
    """Train a dense retriever on noisy pairs, compare it with BM25, track and register it.

    Args:
        experiment: a name that ships with noisyir, a .yaml file that the worker sees, or all settings.
        overrides: settings to change, such as train.epochs=3 or seed=7.
        to: the last stage to run; empty: all.
        only: the one stage to run, from artifacts that are there; empty: all.
        refresh: stages to rebuild although they are there, such as encode or encode@npc.
        store: folder or fsspec URL of the artifacts; empty: the one that this worker's NOISYIR_STORE or NOISYIR_HOME
            names.
        runtime: the machine that stages run on, not the method: device, threads, processes.
        pools: which stages are sent to the workers of other pools, as flow runs of dispatched_step.

    """
    exp = load(experiment, overrides, store, task=_TASKS.get(flow_run.flow_name))
    choice = Choice(to=to, only=only, refresh=refresh)
    return run_in_flow(exp, choice, store=store, runtime=runtime, pools=pools)


run_experiment = partial(run_watched, train_retriever)
