"""Two Ray nodes that share nothing but a store on S3 do what one process does, to the bit."""

from contextlib import closing
from threading import Timer

import pytest

from noisyir.app.runs import Execution, run_experiment
from noisyir.base.errors import NoisyirError
from noisyir.engine.plan import Choice
from noisyir.engine.remote import parallel
from noisyir.engine.runtime import FanOut, Runtime
from noisyir.engine.store import Store
from tests.chaos.nodes import TwoNodes, small_pieces
from tests.chaos.world import SMALL, World
from tests.unit.engine.said import Watched

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
TIMES = {"report", "audit"}  # stages whose pages hold when they were made


def digests(outcome):
    return {
        name: {artifact: contents.digest for artifact, contents in result.meta.artifacts.items()}
        for name, result in outcome.results.items()
        if result.meta.stage not in TIMES
    }


def test_the_demos_pipeline_on_two_nodes_is_that_of_this_process(tmp_path, bucket):
    world, told = World.make(tmp_path), []

    class Said(Watched):
        def said(self, step, text):
            told.append((step.name, text))

    def run(store, machine):
        exp = world.experiment("retriever", *SMALL, "encode.shard_rows=8")
        with small_pieces():
            return run_experiment(exp, Choice(), Execution(store=store, runtime=machine, observer=Said()))

    here = run(world.store("here"), Runtime(device="cpu", threads=1))
    with closing(TwoNodes(tmp_path)) as nodes:
        machine = Runtime(device="cpu", threads=1, fan_out=FanOut(engine="ray", address=nodes.address))
        there = run(Store(bucket, home=tmp_path / "driver"), machine)
    assert digests(there) == digests(here)
    assert {name.partition("@")[0] for name, _ in told} == {"encode", "search"}
    nodes_named = {line.split()[0] for _, text in told for line in text.splitlines()[1:]}
    assert len(nodes_named) == 2  # each did some of it
    homes = [next(tmp_path.glob(f"node-{number}/remote/*/copies")) for number in range(2)]
    assert all(list(home.iterdir()) for home in homes)  # each read what it needed into a home of its own


def test_a_cluster_that_has_no_worker_is_waited_for(tmp_path, bucket, monkeypatch, caplog):
    world = World.make(tmp_path)
    monkeypatch.setattr(parallel, "_TELL", 2.0)
    with closing(TwoNodes(tmp_path)) as nodes:
        nodes.empty()
        machine = Runtime(device="cpu", threads=1, fan_out=FanOut(engine="ray", address=nodes.address))

        def run():
            store = Store(bucket, home=tmp_path / "driver")
            exp = world.experiment("retriever", *SMALL)
            choice = Choice(to="encode@zero_shot")
            return run_experiment(exp, choice, Execution(store=store, runtime=machine, observer=Watched()))

        with pytest.raises(NoisyirError, match="Ray's cluster has had no worker for"):
            run()
        monkeypatch.setattr(parallel, "_EMPTY", 10_000)  # for as long as the node takes to come
        timer = Timer(5.0, nodes.add)
        timer.start()
        assert not run().results["encode@zero_shot"].cached
        timer.join()
    assert "has no worker, and is waited for" in caplog.text
