"""Which steps go to a pool in one flow run: as many as can, each once."""

import logging
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

from noisyir.engine.build_stage import Result, run_stage
from noisyir.engine.known_stages import stage_named
from noisyir.engine.plan import Choice, execute
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Inputs, Step
from noisyir.engine.store import Store
from noisyir.methods import experiments
from noisyir.methods.plans.retrievers import train_retriever
from noisyir.registry.tracker import Tracker
from noisyir.training.launch import SerializedStep
from tests.tiny import SETTINGS, tiny_data


def test_what_went_along_is_there_for_those_that_go_next(tmp_path: Path, monkeypatch):
    from prefect.states import Completed

    from noisyir.tasks.dispatch import Dispatch, Pools
    from noisyir.tasks.machine import Machine

    sent: list[list[str]] = []

    class InThisProcess(Dispatch):
        """A pool whose worker is this process."""

        def _machine(self, pool):
            return Machine("process", {})

        def _start(self, together, variables):
            assert not variables
            made: dict[str, Result] = {}
            for one in together:
                step, inputs = SerializedStep.of(one.step, one.inputs).open(stage_named, made)
                made[step.name] = self.here(step, inputs, one.refresh)
            sent.append([one.step.name for one in together])
            return SimpleNamespace(id=uuid4())

        def _wait(self, child, step):
            return Completed()

    def here(step: Step, inputs: Inputs, refresh: bool) -> Result:
        return run_stage(step, inputs, store=store, runtime=runtime, refresh=refresh)

    monkeypatch.setattr("noisyir.tasks.dispatch.get_run_logger", lambda: logging.getLogger("noisyir"))
    overrides = *SETTINGS, "methods=[dpr]", "train.epochs=1", *tiny_data(tmp_path / "beir")
    plan = train_retriever(experiments.load("demo", overrides))
    store, runtime = Store(tmp_path / "store", home=tmp_path), Runtime(device="cpu", threads=1)

    def run_task(step: Step, call, inputs: Inputs, refresh: bool, *, retries: int) -> Result:
        return call(inputs, refresh)

    def run(choice: Choice) -> dict[str, Result]:
        sent.clear()
        dispatch = InThisProcess(Pools(elsewhere=("cpu", "gpu")), store, runtime, Tracker(), here, run_task)
        return execute(plan, choice, store, dispatch)

    results = run(Choice(to="search"))
    kinds = [{name.partition("@")[0] for name in names} for names in sent]
    assert kinds[1:] == [{"encode", "index", "train_dpr"}, {"search"}]  # behind what is made of the data
    names = [name for some in sent for name in some]
    assert len(names) == len(set(names)) and set(names) <= results.keys()

    again = run(Choice(only="encode", refresh=("encode",)))
    assert sent == [list(again)] and len(again) == 2  # models and documents are of the run before

    run(Choice(to="search", refresh=("encode",)))
    assert [{name.partition("@")[0] for name in names} for names in sent] == [{"encode", "index"}]
