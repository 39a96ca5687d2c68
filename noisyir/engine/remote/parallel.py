"""Steps of a plan in parallel: steps that do not need each other run at the same time, each in its own process.

Threads would not do: stages share torch's generators, thread counts and a JVM with everything in their process.
"""

import ctypes
import logging
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Protocol, Self

from noisyir.base.errors import ConfigError, NoisyirError, install_hint
from noisyir.engine.build_stage import Result, reuse, run_stage
from noisyir.engine.locks import current_run
from noisyir.engine.observe import Relay
from noisyir.engine.outside_errors import one_line
from noisyir.engine.processes import Helpers, Tell
from noisyir.engine.remote.shards import Made
from noisyir.engine.runtime import FanOut, Runtime, default_home, own_device
from noisyir.engine.stage import Inputs, Job, Observer, Piecewise, Pool, Step, made_here
from noisyir.engine.store import Store

log = logging.getLogger("noisyir")
PIECES_A_WORKER = 4  # of a spread stage: more and smaller ones even out, fewer load the model less often
_AHEAD = 2  # pieces that are sent for each worker: one at work, one that waits for it
_TRIES = 5  # that a piece's worker, or its machine, may be lost
_TELL = 60.0  # seconds without any result before we check that there are workers
_EMPTY = 5  # times in a row that there may be none: a cluster that grows from nothing, or has a lost machine replaced
_FAULTS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
_LET_GO = 10.0  # seconds that cancelled work is waited for


class RunsStage(Protocol):
    """Runs one stage for a step: `run_stage`, here or in another process."""

    def __call__(self, step: Step, inputs: Inputs, refresh: bool, *, store: Store, observer: Observer) -> Result:
        """Run as `noisyir.engine.build_stage.run_stage`."""


@contextmanager
def stage_runner(runtime: Runtime) -> Iterator[RunsStage]:
    """Yield `run_stage` for one step at a time, or for several in processes that share the machine's threads.

    The latter may be called from several threads.  With `runtime.fan_out`, a Ray cluster takes the shards that stages
    spread, and whole steps.  Processes and cluster end with the block.
    """
    with Helpers() as helpers, Cluster(runtime) as cluster:
        far = cluster if runtime.fan_out.engine == "ray" else None
        here: RunsStage = partial(run_stage, runtime=runtime, spread=far.spread if far else None)
        yield here if runtime.steps_at_once == 1 else _Apart(runtime, here, helpers, far)


class Cluster:
    """A Ray cluster for work from any thread; a context manager.  It is joined, or started, with the first piece."""

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

    def spread(self, job: Job[Any], function: Piecewise[Any], items: Mapping[str, Any]) -> Iterator[Made]:
        """Make shards on the cluster, some consecutive items a task.

        No more tasks are sent than workers can take soon; the work of a lost worker is repeated by another.
        """
        size = max(1, -(-len(items) // (PIECES_A_WORKER * self._slots())))
        names, ended = iter(items), list[Done]()
        pieces = iter(lambda: {name: items[name] for name in islice(names, size)}, {})
        remote, portable = self._remote(_piece, job.step.stage.pool), PortableJob.of(job)
        home = self.home_there(job.store.home)
        sent = (remote.remote(portable, function, piece, self.runtime, home) for piece in pieces)
        for done in self._results(job.step.name, sent):
            ended.append(done)
            if len(ended) * size >= len(items):  # now, because no request follows the last shard
                job.note("fan_out", who := _who(ended))
                job.say(_lines(who))
            yield from done.made

    def call(self, what: str, pool: Pool, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return a function's value from a worker, or raise its error here."""
        self._slots()
        return next(self._results(what, iter([self._remote(function, pool).remote(*arguments)])))

    def home_there(self, home: Path) -> Path | None:
        """Return the home that a worker uses: this home on this machine, its own (None) elsewhere."""
        return None if self.fan_out.address else home

    def _results(self, what: str, sent: Iterator[Any]) -> Iterator[Any]:
        """Yield the tasks' return values as they end; `sent` sends one at a time, and a bounded number."""
        import ray

        out: list[Any] = []
        empty = 0
        try:
            while True:
                out += islice(sent, max(0, _AHEAD * self._slots() - len(out)))
                if not out:
                    return
                ready, out = ray.wait(out, timeout=_TELL)
                for ref in ready:
                    yield _value(ref, what)
                empty = 0 if ready or _there("CPU") else empty + 1
                if empty == 1:
                    log.warning("%s: Ray's cluster has no worker, and is waited for", what)
                if empty == _EMPTY:
                    raise NoisyirError("engine.rays_cluster_had_no", what=what, empty=_EMPTY * _TELL / 60)
        finally:
            for ref in out:
                with suppress(Exception):  # it has ended meanwhile
                    ray.cancel(ref, force=True)
            if out:  # nothing goes on behind the stage's back
                ray.wait(out, num_returns=len(out), timeout=_LET_GO)

    def _remote(self, function: Callable[..., Any], pool: Pool) -> Any:
        """Return the function as a task; a task of the pool gpu asks for a GPU if the cluster has any."""
        import ray

        gpus = int(pool == "gpu" and _there("GPU") > 0)
        memory = {"memory": int(self.fan_out.memory_gb * 1e9)} if self.fan_out.memory_gb else {}
        cpus = self.runtime.cpu_threads if self.fan_out.address else 1
        how = {"num_cpus": cpus, "num_gpus": gpus, "max_retries": _TRIES, "scheduling_strategy": "SPREAD"}
        return ray.remote(function).options(**how, **memory)

    def _slots(self) -> int:
        """Return how many tasks the cluster can take now, at least one."""
        self._owner.submit(self._start).result()
        if not self.fan_out.address:
            return self.fan_out.workers
        return max(1, int(_there("CPU")) // self.runtime.cpu_threads)

    def _start(self) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if not self.fan_out.address:  # of this machine alone, it listens on loopback; ray reads this when imported
            os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        hint = install_hint("ray")
        with ConfigError.wrapping("engine.runtime_fan_out_engine", ModuleNotFoundError, install_hint=hint):
            import ray
        if ray.is_initialized():
            return
        how: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
        if self.fan_out.address:
            how["address"] = self.fan_out.address
        else:
            how |= {"address": "local", "num_cpus": self.fan_out.workers, "include_dashboard": False}
        try:
            with _faults_kept():
                ray.init(**how)
        except Exception as error:  # Ray raises any error, even a plain Exception on a slow machine
            wanted = f"runtime.fan_out.address={self.fan_out.address}" if self.fan_out.address else "a cluster here"
            raise NoisyirError("engine.ray_could_not_joined", wanted=wanted, one_line=one_line(error)) from error
        self._ours = True

    def _stop(self) -> None:
        if self._ours:
            with _faults_kept():
                sys.modules["ray"].shutdown()


@contextmanager
def _faults_kept() -> Iterator[None]:
    """Keep the handlers of signals by which Java finds null pointers; Ray sets others, and Java would then crash."""
    sigaction = ctypes.CDLL(None).sigaction
    kept = {number: ctypes.create_string_buffer(256) for number in _FAULTS}  # longer than any struct sigaction
    for number, action in kept.items():
        sigaction(number, None, action)
    try:
        yield
    finally:
        for number, action in kept.items():
            sigaction(number, action, None)


@dataclass(frozen=True)
class _Apart:
    """Runs each step in its own process, here or on the cluster; steps that spread their work run through `here`."""

    runtime: Runtime
    here: RunsStage
    helpers: Helpers
    cluster: Cluster | None

    def __call__(self, step: Step, inputs: Inputs, refresh: bool, *, store: Store, observer: Observer) -> Result:
        if self.cluster and step.stage.spreads:
            return self.here(step, inputs, refresh, store=store, observer=observer)
        if not refresh and (result := reuse(step, inputs, store, observer)):
            return result
        try:
            return (self._far if self.cluster else self._near)(step, inputs, store, observer, refresh)
        except Exception as error:
            observer.failed(step, error)
            raise

    def _near(self, step: Step, inputs: Inputs, store: Store, observer: Observer, refresh: bool) -> Result:
        def hear(message: tuple[str, tuple[object, ...]]) -> None:
            event, values = message
            getattr(observer, event)(step, *values)

        shared = self.runtime.model_copy(
            update={"threads": max(1, self.runtime.cpu_threads // self.runtime.steps_at_once)}
        )
        arguments = (bare(step), inputs, store.url, store.home, shared, refresh, current_run.get())
        made: Result = self.helpers.call(step.name, _run, arguments, hear)
        return made

    def _far(self, step: Step, inputs: Inputs, store: Store, observer: Observer, refresh: bool) -> Result:
        """Run a step on the cluster; the observer hears when it is sent and when it is back, and nothing in between."""
        assert self.cluster is not None
        observer.started(step)
        runtime, home = self.cluster.runtime, self.cluster.home_there(store.home)
        arguments = (bare(step), inputs, store.url, home, runtime, refresh, current_run.get())
        made: Result = self.cluster.call(step.name, step.stage.pool, _run, lambda _: None, *arguments)
        observer.finished(step, made.meta, made.cached)
        return made


def at_once(runtime: Runtime, jobs: int | None) -> Runtime:
    """Return the settings with this many steps at a time; None: one a core.

    Raises:
        ConfigError: If it is less than one.
    """
    if jobs is not None and jobs < 1:
        raise ConfigError("engine.jobs_number_steps_time", jobs=jobs)
    return runtime.model_copy(update={"steps_at_once": jobs or runtime.cpu_threads})


def _run(
    tell: Tell,
    step: Step,
    inputs: Inputs,
    url: str,
    home: Path | None,
    runtime: Runtime,
    refresh: bool,
    run: str | None,
) -> Result:
    store = Store(url, home=home or default_home())
    current_run.set(run)
    return run_stage(step, inputs, refresh, store=store, runtime=runtime, observer=Relay(tell))


@dataclass(frozen=True)
class Done:
    """A piece that a worker has done: where, in which time, with which peak memory so far, and its shards."""

    node: str
    process: int
    seconds: float
    most_bytes: int
    made: list[Made]


@dataclass(frozen=True)
class PortableJob:
    """A job on its way to another process, which sees the same store and home."""

    step: Step
    inputs: Inputs
    url: str
    home: Path
    runtime: Runtime
    staging: Path
    work: Path

    @classmethod
    def of(cls, job: Job[Any]) -> Self:
        """Return the parts of a job that another process needs to rebuild it."""
        store = job.store
        return cls(bare(job.step), job.inputs, store.url, store.home, job.runtime, job.staging, job.work)

    def open(
        self, runtime: Runtime, observer: Observer, kind: type[Job[Any]] = Job, home: Path | None = None
    ) -> Job[Any]:
        """Return the job with the settings, and the home, of the machine that it has come to."""
        store = Store(self.url, home=home or self.home)
        work = store.work.named(self.work.name)
        return kind(
            self.step, self.step.params, self.inputs, store, runtime, observer, self.staging, work, builds=False
        )


def _piece(
    portable: PortableJob, function: Piecewise[Any], items: Mapping[str, Any], runtime: Runtime, home: Path | None
) -> Done:
    """Make some shards on a worker."""
    began, here = time.monotonic(), home or default_home()
    with own_device(runtime, here) as machine:
        job = portable.open(machine, Observer(), home=here)
        made = job.shards.made(items)  # by a worker that was lost
        left = {name: item for name, item in items.items() if name not in {shard.name for shard in made}}
        made += made_here(job, function, left)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Done(_node(), os.getpid(), time.monotonic() - began, most, made)


def _node() -> str:
    """Return the machine and its node of Ray's cluster; one machine may have several."""
    import ray

    return f"{socket.gethostname()}/{ray.get_runtime_context().get_node_id()[:6]}"


def _who(ended: Sequence[Done]) -> list[dict[str, Any]]:
    """Return a row for each worker, in the order of their names."""
    by_worker = groupby(sorted(ended, key=_worker), _worker)
    return [
        {
            "node": node,
            "process": process,
            "shards": sum(len(done.made) for done in some),
            "rows": sum(shard.rows for done in some for shard in done.made),
            "seconds": round(sum(done.seconds for done in some), 1),
            "most_mb": max(done.most_bytes for done in some) // 10**6,
        }
        for (node, process), group in by_worker
        for some in [list(group)]
    ]


def _worker(done: Done) -> tuple[str, int]:
    return done.node, done.process


def _lines(who: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as a table."""
    names = ("node", "process", "shards", "rows", "seconds", "most_mb")
    lines = [names, *(tuple(f"{row[name]:,}" if name == "rows" else str(row[name]) for name in names) for row in who)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)) for line in lines)


def _value(ref: Any, what: str) -> Any:
    """Return a task's value.

    Raises:
        NoisyirError: If its workers were lost again and again.  The task's own error is raised as it was.
    """
    import ray
    from ray.exceptions import RayError, RayTaskError

    try:
        return ray.get(ref)
    except RayTaskError as error:
        raise error.cause from None
    except RayError as error:
        raise NoisyirError(
            "engine.pieces_worker_lost_times", what=what, tries=_TRIES + 1, error=type(error).__name__
        ) from None


def _there(kind: str) -> float:
    """Return how much of a resource the cluster's machines have, busy or idle."""
    import ray

    found: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return found.get(kind, 0.0)


def _of_a_worker(runtime: Runtime) -> Runtime:
    """Return a worker's settings: here it shares this machine's threads; elsewhere it has those set, or one."""
    threads = runtime.threads or 1 if runtime.fan_out.address else runtime.cpu_threads // runtime.fan_out.workers
    return runtime.model_copy(update={"threads": max(1, threads)})


def bare(step: Step) -> Step:
    """Return the step without its plan, for another process."""
    return replace(step, inputs={})
