"""Workers and whole nodes of a Ray cluster killed at random times; the run ends in the bits of a run on one machine.

Two nodes, each with a home of its own, share nothing but a store on S3.  A run up to mining has the cluster do shards,
and loses something in each stage that is spread; one that follows has it do a whole step, training, and loses that.
"""

import os
import random
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import cycle
from pathlib import Path
from threading import Event, Lock
from typing import Any, NamedTuple

import psutil
import pytest

from noisyir.app.retention import keys_to_go_on_with
from noisyir.app.runs import Execution, Outcome, run_experiment
from noisyir.base.errors import NoisyirError
from noisyir.engine.plan import Choice
from noisyir.engine.runtime import FanOut, Runtime
from noisyir.engine.stage import Observer, Step
from noisyir.engine.store import Store
from noisyir.mining.stages import relevance_judges
from noisyir.retrieval import index
from noisyir.retrieval.stages import search
from tests.chaos.case import Case
from tests.chaos.world import Digests, World
from tests.s3_server import s3_server
from tests.tiny_models import tiny_classifier

# What Ray calls a worker: after what it does.  Its agents, with which a node dies, are called ray::, too.
_AT_WORK = ("ray::_piece", "ray::_run")
_VICTIMS = ("worker", "node")
_LEASE_SECONDS = "20"  # after which a killed worker's training is taken over; a busy machine is slow to say it lives


class _Part(NamedTuple):
    """A part of the pipeline: up to which step, in which stages something is killed, and how many steps run at once.

    Of several steps at once the cluster does each as a whole.
    """

    to: str
    stages: tuple[str, ...]
    steps_at_once: int
    within: float  # seconds of the stage's beginning


_MAPS = _Part("mine", ("encode", "search", "cross_judge"), 1, 3.0)
_PARTS = (_MAPS, _Part("train_dpr", ("train_dpr",), 2, 6.0), _MAPS, _Part("train_npc", ("train_npc",), 2, 6.0))


class _Aim(NamedTuple):
    stage: str
    victim: str
    after: float


# A node that is gone refuses connections, and is dead after ten of them; one that is slow has half a minute for each.
_PATIENT = {"health_check_period_ms": 1000, "health_check_timeout_ms": 30_000, "health_check_failure_threshold": 10}


class TwoNodes:
    """A Ray cluster of two nodes on this machine; a head without cores holds it together."""

    def __init__(self, folder: Path) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        from ray.cluster_utils import Cluster

        self._folder, self._number = folder, 0
        self._cluster = Cluster(shutdown_at_exit=False)  # else only the main thread may add a node, or lives too short
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
        own = {"NOISYIR_HOME": str(home), "OMP_NUM_THREADS": "1"}
        own["RAY_worker_niceness"] = "0"  # Ray's own 15 starves them where a machine has other work
        self.nodes.append(_patiently(partial(self._cluster.add_node, num_cpus=1, env_vars=own)))

    def empty(self) -> None:
        """Take all nodes away but the head, which has no cores."""
        while self.nodes:
            self._cluster.remove_node(self.nodes.pop())

    def kill(self, victim: str, draw: random.Random) -> bool:
        """kill -9 of a worker that is at work, or of its node with all its processes, which another replaces.

        Whether there was one.
        """
        at_work = [(node, worker) for node in self.nodes for worker in _workers(node)]
        if not at_work:
            return False
        node, worker = draw.choice(at_work)
        if victim == "worker":
            with suppress(psutil.NoSuchProcess):
                worker.send_signal(signal.SIGKILL)
                return True
            return False
        self.nodes.remove(node)
        self._cluster.remove_node(node, allow_graceful=False)
        self.add()
        return True

    def close(self) -> None:
        """End all."""
        self._cluster.shutdown()


def _workers(node: Any) -> list[psutil.Process]:
    """The processes of a node that are at work."""
    with suppress(psutil.NoSuchProcess):
        begun = psutil.Process(node.all_processes["raylet"][0].process.pid).children(recursive=True)
        return [process for process in begun if process.name() in _AT_WORK]
    return []


def _patiently(start: Callable[[], Any]) -> Any:
    """What `start` returns; Ray gives a node 30 seconds, which a busy machine may need more than once."""
    for _ in range(10):
        with suppress(Exception):
            return start()
    return start()


class _Killer(Observer):
    """Kills at times after the beginning of stages.

    killed: what, when, and how many shards and checkpoints were in the store by then; as people read it.
    """

    def __init__(self, nodes: TwoNodes, store: Store, aims: list[_Aim], draw: random.Random) -> None:
        self._nodes, self._store, self._draw = nodes, store, draw
        self.killed: list[str] = []
        self._over, self._one_at_a_time = Event(), Lock()
        self._aims, self._threads = aims, ThreadPoolExecutor(len(aims))
        self._begun: dict[_Aim, Future[None]] = {}

    def started(self, step: Step) -> None:
        """Aim at the stage."""
        for aim in self._aims:
            if aim.stage == step.stage.name and aim not in self._begun:
                self._begun[aim] = self._threads.submit(self._kill, aim)

    def end(self) -> None:
        """Kill nobody any more.  What went wrong with killing, or with replacing a node, is raised."""
        self._over.set()
        with self._threads:
            for kill in self._begun.values():
                kill.result()

    def _kill(self, aim: _Aim) -> None:
        wait = aim.after
        while not self._over.wait(wait):
            wait = 0.05
            with self._one_at_a_time:
                done = len(self._store.fs.find(f"{self._store.root}/.work"))
                if self._nodes.kill(aim.victim, self._draw):
                    self.killed.append(f"{aim.victim} killed {aim.after:.1f} s into {aim.stage}, behind {done} files")
                    return


def cases(seed: int, count: int, folder: Path) -> Iterator[Case]:
    """So many kills, of workers and of nodes by turns: three in a run up to mining, one in a training."""
    draw, world = random.Random(seed), World.make(folder)
    tiny_classifier(folder / "classifier")
    here, number = world.store("whole"), 0
    for part in set(_PARTS):
        _run(world, part, here, Runtime(device="cpu", threads=1), Observer())
    wanted = digests(here)
    with s3_server(), _leases_end_soon(), closing(TwoNodes(folder)) as nodes, _joined(nodes):
        for turn, part in enumerate(cycle(_PARTS)):
            if number >= count:
                return
            aims = [
                _Aim(stage, _VICTIMS[(n + n // 4) % 2], draw.uniform(0, part.within))
                for n, stage in zip(range(number, count), part.stages, strict=False)
            ]
            store = Store(f"s3://bucket/{turn // 2}", home=folder / f"driver-{turn // 2}")
            killer = _Killer(nodes, store, aims, draw)
            fault = _fault_of_run(world, part, nodes, store, killer, wanted)
            for killed in killer.killed or ["nothing killed"] * bool(fault):
                yield Case(f"{number}: {killed}", fault)
                number += 1


def _fault_of_run(
    world: World, part: _Part, nodes: TwoNodes, store: Store, killer: _Killer, wanted: Digests
) -> str | None:
    """What was wrong with a part of the pipeline on the cluster while the killer worked; None where nothing was."""
    fan_out = FanOut(engine="ray", address=nodes.address)
    how = {"steps_at_once": part.steps_at_once, "checkpoint_seconds": 0.5}
    try:
        made = _run(world, part, store, Runtime(device="cpu", threads=1, fan_out=fan_out, **how), killer)
    except NoisyirError as error:
        return f"the run ended: {error}"
    finally:
        killer.end()
    with store.locks.alone():  # of a worker that was killed once its build was there; gc looks for those
        store.work.remove_leftovers(keys_to_go_on_with(store, keep_runs=1))
    return _fault(store, wanted, {result.meta.stage for result in made.results.values()})


@contextmanager
def _joined(nodes: TwoNodes) -> Iterator[None]:
    """One driver for all runs: its workers are at hand for the next, so that not each run imports everything anew."""
    import ray

    ray.init(address=nodes.address, log_to_driver=False, configure_logging=False)
    try:
        yield
    finally:
        ray.shutdown()  # type: ignore[no-untyped-call]


@contextmanager
def _leases_end_soon() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NOISYIR_LEASE_SECONDS", _LEASE_SECONDS)
        yield


def _run(world: World, part: _Part, store: Store, machine: Runtime, observer: Observer) -> Outcome:
    judge = f"judges={{cross_encoder: {{weights: {world.folder / 'classifier'}, max_len: 32}}}}"
    longer = "train.epochs=40", "train.patience=null"
    settings = "methods=[dpr,npc]", "encode.shard_rows=4", "mine.judges=[cross_encoder]", judge, *longer
    exp = world.experiment("retriever", *settings)
    with small_pieces():
        choice = Choice(to=part.to)
        return run_experiment(exp, choice, Execution(store=store, runtime=machine, observer=observer))


@contextmanager
def small_pieces() -> Iterator[None]:
    """Indexes in parts of a few rows, searched for a few queries at a time; few pairs judged at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "ROWS_A_PART", 20)
        patch.setattr(search, "_QUERIES_AT_ONCE", 8)
        patch.setattr(relevance_judges, "_PAIRS_AT_ONCE", 32)
        yield


def _fault(store: Store, wanted: Digests, stages: set[str]) -> str | None:
    """stages: of the run, each of whose artifacts must be there."""
    found = digests(store)
    if left := store.fs.find(f"{store.root}/.work"):
        return f"left over: {left[:3]}"
    if wrong := [name for name in wanted if name.partition("/")[0] in stages and found.get(name) != wanted[name]]:
        return f"{len(wrong)} artifacts differ: {wrong[:3]}"
    twice = len(store.builds.all()) - len({(meta.stage, meta.key) for meta in store.builds.all()})
    return f"{twice} stages were built twice" if twice else None


def digests(store: Store) -> Digests:
    """Of every artifact, by stage/key/name."""
    return {
        f"{meta.stage}/{meta.key}/{name}": contents.digest
        for meta in store.builds.all()
        for name, contents in meta.artifacts.items()
    }
