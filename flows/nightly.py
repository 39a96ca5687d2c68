"""A night of an experiment: it is trained with the seeds that the gate wants, and the gate decides."""

from functools import partial
from typing import Any

from prefect import flow, tags
from prefect.client.schemas import State
from prefect.runtime import flow_run
from prefect.states import Completed
from prefect.variables import Variable

from noisyir.app.data_check import refuse_unknown
from noisyir.app.rescoring import promote_on_data_of_today
from noisyir.app.runs import Execution
from noisyir.base.errors import ConfigError
from noisyir.engine.runtime import Runtime
from noisyir.evaluation.settings import PromoteParams
from noisyir.flows.artifacts import fails_in_words, tell_of_decision, tell_of_run
from noisyir.flows.experiment import load, run_name, stages_as_tasks, writable_store
from noisyir.flows.stops import AskFirst, refused_by_check, refused_by_judgements
from noisyir.flows.train_retriever import train_retriever
from noisyir.registry.kinds import RETRIEVER
from noisyir.registry.tracker import Tracker
from noisyir.tasks.dispatch import Pools

NEVERTHELESS = "with register_if=always it is registered, and the gate decides"


def _night_of() -> str:
    return f"night of {run_name().partition(':')[0]}"


@flow(name="nightly", flow_run_name=_night_of, persist_result=False)
@fails_in_words
def nightly(
    experiment: str,
    overrides: tuple[str, ...] = (),
    gate: PromoteParams = PromoteParams(),  # noqa: B008 - frozen
    fail_on: tuple[str, ...] = (),
    ask: AskFirst = AskFirst(),  # noqa: B008 - frozen
    variable: str | None = None,
    store: str | None = None,
    runtime: Runtime = Runtime(),  # noqa: B008 - frozen
    pools: Pools = Pools(),  # noqa: B008 - frozen
) -> Any:
    """Train an experiment on what its data has become, and promote the model if it beats its champion by the gate.

    Args:
        experiment: a name that ships with noisyir, or a .yaml file that the worker sees.
        overrides: settings to change, such as train.epochs=3 or seed=7.
        gate: the thresholds; as many seeds are trained as min_seeds says, and with 1 the gate is by queries alone.
        fail_on: faults of the data at which nothing is trained, as of noisyir check, such as rows or leaks.queries.
        ask: with `above`, pairs are audited first; a person is asked unless judgements show that fewer are wrong.
        variable: a Prefect Variable, read when the night begins, that lists further settings, as of overrides.
        store: folder or fsspec URL of the artifacts; empty: the one that this worker's NOISYIR_STORE or NOISYIR_HOME
            names.
        runtime: the machine that stages run on, not the method: device, threads, processes.
        pools: which stages are sent to the workers of other pools, as flow runs of dispatched_step.

    """
    overrides = (*overrides, *settings_of(variable)) if variable else overrides
    exp, artifacts, tracker = load(experiment, overrides, store, "retriever"), writable_store(store), Tracker()
    refuse_unknown(fail_on)
    here = partial(Execution, artifacts, runtime, tracker, elsewhere=pools.elsewhere)
    tasks = partial(stages_as_tasks, store=artifacts, runtime=runtime, tracker=tracker, pools=pools)
    with tasks() as run_step:
        refused = refused_by_check(exp, fail_on) or refused_by_judgements(
            experiment, overrides, ask, here(run_step=run_step), store
        )
    if refused:
        return _ended(exp.name, f"not trained, and the champion stays: {refused}")
    seeds = [exp.seed + number for number in range(gate.min_seeds)]
    for seed in seeds:
        chosen = (*overrides, f"seed={seed}")
        with tags("noisyir"):  # by which the automation that crashes silent runs knows it
            outcome = train_retriever(experiment, chosen, store=store, runtime=runtime, pools=pools)
        if RETRIEVER.name in outcome.facts.get("refused", ""):
            said = f"refused: with seed {seed} it is not worth using, and the champion stays"
            return _ended(exp.name, f"{said}; {NEVERTHELESS}")
    with tasks() as run_step:
        decision = promote_on_data_of_today(
            RETRIEVER.name, None, gate, here(run_step=run_step), experiment=exp.name, flow_run=str(flow_run.id)
        )
    tell_of_decision(decision, artifacts)
    by = "by queries alone" if len(seeds) == 1 else f"by queries and the seeds {', '.join(map(str, seeds))}"
    return _ended(exp.name, f"{decision.summary} (the gate is {by})")


def settings_of(variable: str) -> tuple[str, ...]:
    """The settings that a Prefect Variable lists.  ConfigError if it is not there, or is no list of texts."""
    found: Any = Variable.get(variable)
    if not isinstance(found, list) or not all(isinstance(setting, str) for setting in found):
        raise ConfigError(
            f"the Prefect Variable {variable} is {found!r}, and no list of settings: type "
            f"prefect variable set --overwrite {variable} '[\"train.epochs=3\"]'"
        )
    return tuple(found)


def _ended(experiment: str, message: str) -> State[Any]:
    tell_of_run(experiment, message)
    return Completed(message=message)
