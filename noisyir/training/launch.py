"""How a training stage runs in several processes: the same stage in each, of which the first one writes."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

from noisyir.engine.observe import Relay, Silent
from noisyir.engine.processes import Tell, run_together
from noisyir.engine.stage import Job, PortableJob

Run = Callable[[Job[Any]], None]


def in_processes(run: Run, when: Callable[[Any], bool] = lambda params: True) -> Run:
    """A stage that runs in `runtime.processes` processes, where its settings are such that it trains.

    It must write when all training is over: at the first output, the part of all processes but the first ends.
    """

    @wraps(run)
    def shared(job: Job[Any]) -> None:
        if job.runtime.processes == 1 or not when(job.params):
            run(job)
        else:
            _share(job)

    return shared


@dataclass(frozen=True)
class _Made:
    """What the first process's job made."""

    notes: dict[str, Any]
    written: dict[str, int | None]


class _PartOverError(Exception):
    """Not a fault: this process has nothing to write."""


class _Follower(Job[Any]):
    """A job whose results are those of another process."""

    def writer(self, name: str) -> NoReturn:
        """Leave it to the first process."""
        raise _PartOverError

    new_folder = writer


def _share(job: Job[Any]) -> None:
    def hear(message: Any) -> None:
        if isinstance(message, _Made):
            job.notes.update(message.notes)
            job.written.update(message.written)
        else:
            kind, values = message
            getattr(job, kind)(*values)

    with TemporaryDirectory(prefix="noisyir-") as folder:
        run_together(_work, job.runtime.processes, (job.portable(), Path(folder, "meeting")), hear)
    job.note("processes", job.runtime.processes)


def _work(rank: int, tell: Tell, portable: PortableJob, meeting: Path) -> None:
    """Run the stage as one of several, which find each other by a file; only the first one's results are kept."""
    from noisyir.training.distributed import World, device_of, joined

    common = portable.runtime
    here = World(rank, common.processes)
    threads = max(1, common.cpu_threads // here.size)
    own = {"device": device_of(here, common.device), "threads": threads, "processes": 1}
    runtime = common.model_copy(update=own)
    kind, observer = (Job, Relay(tell)) if here.leads else (_Follower, Silent())
    job = portable.open(runtime, observer, kind)
    with joined(here, runtime.device, meeting, common.peer_seconds), suppress(_PartOverError):
        job.step.stage.run(job)
    if here.leads:
        tell(_Made(job.notes, job.written))
