"""Workers and whole nodes of a Ray cluster killed at random times; the run ends in the bits of a run on one machine.

Two nodes, each with a home of its own, share nothing but a store on S3.
"""

import random
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psutil
import pytest

from noisyir.app.runs import Outcome, run_experiment
from noisyir.engine.observe import Silent
from noisyir.engine.plan import Choice
from noisyir.engine.runtime import FanOut, Runtime
from noisyir.engine.stage import Observer, Step
from noisyir.engine.store import Store
from noisyir.errors import NoisyirError
from noisyir.retrieval import parts
from noisyir.stages.mining import relevance_judges
from noisyir.stages.retrieval import search
from noisyir.tracking.tracker import Tracker
from tests.chaos.case import Case
from tests.chaos.world import Digests, World
from tests.s3_server import s3_server
from tests.tiny_models import tiny_classifier

TO = Choice(to="mine")
_SPREAD = ("encode", "search", "cross_judge")
_WORKER = "ray::"  # what Ray calls the processes that have done work
_VICTIMS = ("worker", "node")
# A node that is gone refuses connections, and is dead after ten of them; one that is slow has half a minute for each.
_PATIENT = {"health_check_period_ms": 1000, "health_check_timeout_ms": 30_000, "health_check_failure_threshold": 10}


class TwoNodes:
    """A Ray cluster of two nodes on this machine; a head without cores holds it together."""

    def __init__(self, folder: Path) -> None:
        from ray.cluster_utils import Cluster

        self._folder, self._number = folder, 0
        self._cluster = Cluster()
        bare = {"include_dashboard": False, "include_log_monitor": False, "no_monitor": True}
        _patiently(partial(self._cluster.add_node, num_cpus=0, _system_config=_PATIENT, **bare))
        self.nodes: list[Any] = []
        for _ in range(2):
            self.add()

    @property
    def address(self) -> str:
        """Where a run joins it."""
        return str(self._cluster.address)

    def add(self) -> None:
        """One more node, with an empty home."""
        home = self._folder / f"node-{self._number}"
        self._number += 1
        own = {"NOISYIR_HOME": str(home), "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}
        own["RAY_worker_niceness"] = "0"  # Ray's own 15 starves them where a machine has other work
        self.nodes.append(_patiently(partial(self._cluster.add_node, num_cpus=1, env_vars=own)))

    def empty(self) -> None:
        """Take all nodes away but the head, which has no cores."""
        while self.nodes:
            self._cluster.remove_node(self.nodes.pop())

    def kill(self, victim: str, draw: random.Random) -> bool:
        """kill -9 of a worker of one of the nodes, or of a node with all its processes, which another replaces.

        Whether there was one.
        """
        node = draw.choice(self.nodes)
        if victim == "node":
            self.nodes.remove(node)
            self._cluster.remove_node(node, allow_graceful=False)
            self.add()
            return True
        raylet = node.all_processes["raylet"][0].process.pid
        with suppress(psutil.Error, IndexError):
            workers = [one for one in psutil.Process(raylet).children(recursive=True) if one.name().startswith(_WORKER)]
            draw.choice(workers).send_signal(signal.SIGKILL)
            return True
        return False

    def close(self) -> None:
        """End all."""
        self._cluster.shutdown()


def _patiently(start: Callable[[], Any]) -> Any:
    """What `start` returns; Ray gives a node 30 seconds, which a busy machine may need more than once."""
    for _ in range(5):
        with suppress(Exception):
            return start()
    return start()


class _Killer(Silent):
    """Kills at times after the stages that are spread have begun, and says how often it did."""

    def __init__(self, nodes: TwoNodes, stage: str, victim: str, after: float, draw: random.Random) -> None:
        self._nodes, self._stage, self._victim, self._after, self._draw = nodes, stage, victim, after, draw
        self.killed, self._over = 0, Event()
        self._thread = Thread(target=self._kill, daemon=True)

    def started(self, step: Step) -> None:
        """Aim at the stage."""
        if step.stage.name == self._stage and self._thread.ident is None:  # a stage has several steps
            self._thread.start()

    def end(self) -> None:
        """Kill nobody any more."""
        self._over.set()
        if self._thread.ident:
            self._thread.join()

    def _kill(self) -> None:
        if not self._over.wait(self._after):
            self.killed += self._nodes.kill(self._victim, self._draw)


def cases(seed: int, count: int, folder: Path) -> Iterator[Case]:
    """So many kills, by turns in each stage that is spread, of a worker and of a node."""
    draw, world = random.Random(seed), World.make(folder)
    tiny_classifier(folder / "classifier")
    with s3_server(), closing(TwoNodes(folder)) as nodes:
        here = world.store("whole")
        _run(world, here, Runtime(device="cpu", threads=1), Silent())
        wanted = digests(here)
        for number in range(count):
            stage, victim = _SPREAD[number % 3], _VICTIMS[number // 3 % 2]
            after = draw.uniform(0, 3.0)
            store = Store(f"s3://bucket/{number}", home=folder / f"driver-{number}")
            killer = _Killer(nodes, stage, victim, after, draw)
            machine = Runtime(device="cpu", threads=1, fan_out=FanOut(engine="ray", address=nodes.address))
            ended = None
            try:
                _run(world, store, machine, killer)
            except NoisyirError as error:
                ended = f"the run ended: {error}"
            finally:
                killer.end()
            name = f"{number}: {victim} killed {killer.killed} times {after:.1f} s into {stage}"
            yield Case(name, ended or _fault(store, wanted))


def _run(world: World, store: Store, machine: Runtime, observer: Observer) -> Outcome:
    judge = f"judges={{cross_encoder: {{weights: {world.folder / 'classifier'}, max_len: 32}}}}"
    settings = "methods=[dpr,npc]", "encode.shard_rows=4", "mine.judges=[cross_encoder]", judge
    exp = world.experiment("retriever", *settings)
    with small_pieces():
        return run_experiment(exp, TO, store=store, runtime=machine, tracker=Tracker(), observer=observer)


@contextmanager
def small_pieces() -> Iterator[None]:
    """Indexes in parts of a few rows, searched for a few queries at a time; few pairs judged at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "ROWS_A_PART", 20)
        patch.setattr(search, "_QUERIES_AT_ONCE", 8)
        patch.setattr(relevance_judges, "_PAIRS_AT_ONCE", 32)
        yield


def _fault(store: Store, wanted: Digests) -> str | None:
    found = digests(store)
    if left := store.fs.glob(f"{store.root}/.work/**"):
        return f"left over: {left[:3]}"
    if wrong := [name for name in wanted if found.get(name) != wanted[name]]:
        return f"{len(wrong)} artifacts differ: {wrong[:3]}"
    twice = len(store.all_builds()) - len({(meta.stage, meta.key) for meta in store.all_builds()})
    return f"{twice} stages were built twice" if twice else None


def digests(store: Store) -> Digests:
    """Of every artifact, by stage/key/name."""
    return {
        f"{meta.stage}/{meta.key}/{name}": contents.digest
        for meta in store.all_builds()
        for name, contents in meta.artifacts.items()
    }
