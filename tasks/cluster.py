"""A Dask or Ray cluster that takes work as Prefect tasks: one that is there, or one started here for the run."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import copy_context
from typing import Any

from prefect import Task, task
from prefect.cache_policies import NO_CACHE
from prefect.futures import PrefectFuture
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.task_runners import TaskRunner

from noisyir.engine.devices import own_device
from noisyir.engine.observe import Silent
from noisyir.engine.runtime import FanOut, Runtime
from noisyir.engine.stage import Job, Piecewise, PortableJob
from noisyir.errors import ConfigError
from noisyir.stages.retrieval.encode import release_gpu
from tasks.log_context import current_facts, log_context

PIECES_A_WORKER = 4  # of a spread stage: more and smaller ones even out, fewer load the model less often


class Cluster:
    """Where tasks go, from any thread; a context manager.  It is joined, or started, with the first task."""

    def __init__(self, runtime: Runtime) -> None:
        self.fan_out: FanOut = runtime.fan_out
        self.runtime = _of_a_worker(runtime)
        self._open = ExitStack()
        self._owner = ThreadPoolExecutor(1)  # which outlives the steps' threads: Ray ends with the one that began it
        self._flow = copy_context()  # of the flow run: that of a task run does not travel, for its task does not
        self._runner: TaskRunner[Any] | None = None

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *error: Any) -> None:
        with self._owner as owner:
            owner.submit(self._open.close).result()

    def submit(self, work: Task[..., Any], pool: str, **parameters: Any) -> PrefectFuture[Any]:
        """Send a task; its results and parameters travel, so they are small."""
        return self._owner.submit(self._flow.run, self._send, work, pool, parameters).result()

    def _send(self, work: Task[..., Any], pool: str, parameters: dict[str, Any]) -> PrefectFuture[Any]:
        if self._runner is None:
            self._runner = _STARTS[self.fan_out.engine](self.fan_out, self._open)
        with _server_is_named(), self._a_gpu(pool):
            sent: PrefectFuture[Any] = self._runner.submit(work, parameters)
        return sent

    def spread(self, job: Job[Any], function: Piecewise[Any], items: Sequence[Any]) -> Iterator[Any]:
        """What `noisyir.engine.stage.Job.spread` does on the cluster: a task for some consecutive items each."""
        _check_shared(job)
        size = max(1, -(-len(items) // (PIECES_A_WORKER * self.fan_out.workers)))
        portable, futures = job.portable(), []
        for first in range(0, len(items), size):
            piece = _piece(portable, function, items[first : first + size], self.runtime)
            name = f"{job.step.name}[{first}:{min(first + size, len(items))}]"
            sent = task(name=name, task_run_name=name, cache_policy=NO_CACHE, persist_result=False)(piece)
            futures.append(self.submit(sent, job.step.stage.pool))
        try:
            for future in futures:
                yield from future.result()
        except Exception:
            for future in futures:
                future.wait()  # nothing goes on behind the stage's back; who interrupts or cancels it does not wait
            raise

    def _a_gpu(self, pool: str) -> AbstractContextManager[Any]:
        """Ray shows a task no more GPUs than it asks for."""
        if self.fan_out.engine != "ray" or pool != "gpu":
            return nullcontext()
        import ray
        from prefect_ray.context import remote_options

        resources: Mapping[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        return remote_options(num_gpus=1) if resources.get("GPU") else nullcontext()


def _piece(
    portable: PortableJob, function: Piecewise[Any], items: Sequence[Any], runtime: Runtime
) -> Callable[[], list[Any]]:
    facts = current_facts()

    def encode_some() -> list[Any]:
        with log_context(**facts), own_device(runtime, portable.home) as machine:
            try:
                return list(function(portable.open(machine, Silent()), items))
            finally:
                release_gpu()

    return encode_some


def _of_a_worker(runtime: Runtime) -> Runtime:
    """The workers of a cluster on this machine share its threads."""
    if runtime.fan_out.address:
        return runtime
    return runtime.model_copy(update={"threads": max(1, runtime.cpu_threads // runtime.fan_out.workers)})


def _check_shared(job: Job[Any]) -> None:
    if not job.store.is_local:
        raise ConfigError(
            f"shards of {job.step.name} meet in the store's folder, and {job.store.url} is none: set "
            "runtime.fan_out.engine=none, or a store in a folder that all workers share"
        )


@contextmanager
def _server_is_named() -> Iterator[None]:
    """Have workers talk to the server that Prefect embeds in this process, where no other is set."""
    if PREFECT_API_URL.value():
        yield
        return
    from prefect.server.api.server import SubprocessASGIServer  # slow to import, and workers import this module

    with temporary_settings({PREFECT_API_URL: SubprocessASGIServer().api_url}):
        yield


def _start_dask(fan_out: FanOut, opened: ExitStack) -> TaskRunner[Any]:
    try:
        import dask
        from prefect_dask.task_runners import DaskTaskRunner
    except ModuleNotFoundError as error:
        raise _missing("dask", error) from error

    logging.getLogger("distributed").setLevel(logging.WARNING)
    local = {
        "n_workers": fan_out.workers,
        "threads_per_worker": 1,
        "memory_limit": 0,  # the machine's is the limit, as without Dask
        "dashboard_address": "127.0.0.1:0",
    }
    given: Mapping[str, Any] = {"address": fan_out.address} if fan_out.address else {"cluster_kwargs": local}
    opened.enter_context(dask.config.set({"distributed.worker.daemon": False}))  # stages begin processes of their own
    dask_runner = opened.enter_context(DaskTaskRunner(**given))
    assert dask_runner.client  # the cluster starts
    runner: TaskRunner[Any] = dask_runner
    return runner


def _start_ray(fan_out: FanOut, opened: ExitStack) -> TaskRunner[Any]:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if not fan_out.address:  # a cluster of this machine alone listens on loopback; ray reads this while it is imported
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        from prefect_ray.task_runners import RayTaskRunner
    except ModuleNotFoundError as error:
        raise _missing("ray", error) from error

    local = {
        "num_cpus": fan_out.workers,
        "include_dashboard": False,
        "log_to_driver": False,
        "configure_logging": False,
    }
    runner: TaskRunner[Any] = opened.enter_context(RayTaskRunner(fan_out.address, {} if fan_out.address else local))
    return runner


def _missing(engine: str, error: ModuleNotFoundError) -> ConfigError:
    return ConfigError(
        f"runtime.fan_out.engine={engine} needs the package {error.name}: pip install 'noisyir[{engine}]', or set none"
    )


_STARTS: Mapping[str, Callable[[FanOut, ExitStack], TaskRunner[Any]]] = {"dask": _start_dask, "ray": _start_ray}
