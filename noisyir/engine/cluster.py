"""A Ray cluster that takes pieces of stages, and whole steps: one that is there, or one started here for the run."""

import os
import resource
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Self

from noisyir.engine.devices import own_device
from noisyir.engine.observe import Silent
from noisyir.engine.runtime import FanOut, Runtime, default_home
from noisyir.engine.stage import Job, Piecewise, Pool, PortableJob
from noisyir.errors import ConfigError, NoisyirError

PIECES_A_WORKER = 4  # of a spread stage: more and smaller ones even out, fewer load the model less often
_AHEAD = 2  # pieces that are sent for each worker: one at work, one that waits for it
_TRIES = 5  # that a piece's worker, or its machine, may be lost
_TELL = 60.0  # seconds without any result after which it is asked whether there are workers at all
_LET_GO = 10.0  # seconds that cancelled work is waited for


@dataclass(frozen=True)
class Done:
    """A piece that a worker has done: where, for how long, its greatest memory so far, and what its function told."""

    node: str
    process: int
    seconds: float
    most_bytes: int
    told: list[Any]


class Cluster:
    """Where work goes, from any thread; a context manager.  It is joined, or started, with the first piece."""

    def __init__(self, runtime: Runtime) -> None:
        self.fan_out: FanOut = runtime.fan_out
        self.runtime = _of_a_worker(runtime)
        self._owner = ThreadPoolExecutor(1)  # which outlives the steps' threads: Ray ends with the one that began it
        self._ours = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        with self._owner as owner:
            owner.submit(self._stop).result()

    def spread(self, job: Job[Any], function: Piecewise[Any], items: Sequence[Any]) -> Iterator[Any]:
        """What `noisyir.engine.stage.Job.spread` does on the cluster: a task for some consecutive items each.

        No more tasks are out than workers can take soon; what a lost worker had is done anew by another.
        """
        slots = self._slots()
        size = max(1, -(-len(items) // (PIECES_A_WORKER * slots)))
        pieces = (items[first : first + size] for first in range(0, len(items), size))
        remote, portable = self._remote(_piece, job.step.stage.pool), job.portable()
        sent = (remote.remote(portable, function, piece, self.runtime, self._home(job)) for piece in pieces)
        for done in self._results(job.step.name, sent):
            yield from done.told

    def call(self, what: str, pool: Pool, function: Callable[..., Any], *arguments: Any) -> Any:
        """What a module's function returns for these arguments on a worker; its error is raised here."""
        self._slots()
        return next(self._results(what, iter([self._remote(function, pool).remote(*arguments)])))

    def home_there(self, home: Path) -> Path | None:
        """The home that a worker uses: this one's on this machine, its own (None) elsewhere."""
        return None if self.fan_out.address else home

    def _home(self, job: Job[Any]) -> Path | None:
        return self.home_there(job.store.home)

    def _results(self, what: str, sent: Iterator[Any]) -> Iterator[Any]:
        """What the tasks return, as they end; `sent` sends one at a time, and only so many are out together."""
        import ray

        out: list[Any] = []
        try:
            while True:
                out += islice(sent, max(0, _AHEAD * self._slots() - len(out)))
                if not out:
                    return
                ready, out = ray.wait(out, timeout=_TELL)
                for ref in ready:
                    yield _value(ref, what)
                if not ready and not _there("CPU"):
                    raise NoisyirError(f"{what}: Ray's cluster has no worker left. The same command goes on from here")
        finally:
            for ref in out:
                with suppress(Exception):  # it has ended meanwhile
                    ray.cancel(ref, force=True)
            if out:  # nothing goes on behind the stage's back
                ray.wait(out, num_returns=len(out), timeout=_LET_GO)

    def _remote(self, function: Callable[..., Any], pool: Pool) -> Any:
        """The function as a task; one of the pool gpu asks for a GPU where the cluster has any."""
        import ray

        gpus = int(pool == "gpu" and _there("GPU") > 0)
        memory = {"memory": int(self.fan_out.memory_gb * 1e9)} if self.fan_out.memory_gb else {}
        cpus = self.runtime.cpu_threads if self.fan_out.address else 1
        return ray.remote(function).options(num_cpus=cpus, num_gpus=gpus, max_retries=_TRIES, **memory)

    def _slots(self) -> int:
        """How many tasks the cluster can take at a time now, at least one."""
        self._owner.submit(self._start).result()
        if not self.fan_out.address:
            return self.fan_out.workers
        return max(1, int(_there("CPU")) // self.runtime.cpu_threads)

    def _start(self) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if not self.fan_out.address:  # of this machine alone, it listens on loopback; ray reads this when imported
            os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        try:
            import ray
        except ModuleNotFoundError as error:
            raise ConfigError(
                "runtime.fan_out.engine=ray needs the package ray: pip install 'noisyir[ray]', or set none"
            ) from error
        if ray.is_initialized():
            return
        how: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
        if self.fan_out.address:
            how["address"] = self.fan_out.address
        else:
            how |= {"num_cpus": self.fan_out.workers, "include_dashboard": False}
        try:
            ray.init(**how)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise ConfigError(f"runtime.fan_out.address={self.fan_out.address}: {error}") from error
        self._ours = True

    def _stop(self) -> None:
        if self._ours:
            sys.modules["ray"].shutdown()


def _piece(
    portable: PortableJob, function: Piecewise[Any], items: Sequence[Any], runtime: Runtime, home: Path | None
) -> Done:
    """Do some items on a worker."""
    began, here = time.monotonic(), home or default_home()
    with own_device(runtime, here) as machine:
        told = list(function(portable.open(machine, Silent(), home=here), items))
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Done(socket.gethostname(), os.getpid(), time.monotonic() - began, most, told)


def _value(ref: Any, what: str) -> Any:
    """What a task returned.  Its own error; NoisyirError where its workers were lost again and again."""
    import ray
    from ray.exceptions import RayError, RayTaskError

    try:
        return ray.get(ref)
    except RayTaskError as error:
        raise error.cause from None
    except RayError as error:
        raise NoisyirError(
            f"{what}: a piece's worker was lost {_TRIES + 1} times, most likely for want of memory "
            f"({type(error).__name__}). The same command goes on where it stopped; fewer runtime.fan_out.workers, or "
            "more runtime.fan_out.memory_gb, leave more to each"
        ) from None


def _there(resource: str) -> float:
    """How much of a resource the cluster's machines have now, at work or idle."""
    import ray

    found: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return found.get(resource, 0.0)


def _of_a_worker(runtime: Runtime) -> Runtime:
    """Workers of a cluster on this machine share its threads; elsewhere each has as many as are asked for, or one."""
    threads = runtime.threads or 1 if runtime.fan_out.address else runtime.cpu_threads // runtime.fan_out.workers
    return runtime.model_copy(update={"threads": max(1, threads)})
