"""A training stage in several processes: each runs the same stage, and the first one writes."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, NoReturn, TypeAlias

from pydantic import ValidationError

from noisyir.base.errors import ConfigError
from noisyir.base.settings import Params
from noisyir.engine.build_stage import Result
from noisyir.engine.keys import key_of
from noisyir.engine.meta import Ref
from noisyir.engine.observe import Relay
from noisyir.engine.plan import resolved
from noisyir.engine.processes import Tell, run_together
from noisyir.engine.remote.parallel import PortableJob
from noisyir.engine.remote.torchrun import Launched, launched
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Inputs, Job, Observer, Output, PlannedInputs, Stage, Step

Run = Callable[[Job[Any]], None]
Opened: TypeAlias = tuple[Step, Inputs]
_TWO_VERSIONS = "this worker and the sender have other versions of noisyir; bring both to one"


def in_processes(run: Run, when: Callable[[Any], bool] = lambda params: True) -> Run:
    """Run a stage in `runtime.processes` processes if `when` its settings say that it trains.

    It must write only after all training: the other processes end at its first output.
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
    """Results of the first process's job."""

    notes: dict[str, Any]
    written: dict[str, int | None]


class _PartOverError(Exception):
    """Not a fault: this process has nothing to write."""


class _Follower(Job[Any]):
    """A job that leaves its results to another process."""

    def writer(self, name: str) -> NoReturn:
        """End this process's part."""
        raise _PartOverError

    new_folder = writer


class SerializedStep(Params):
    """A step and its inputs as JSON; inputs that earlier steps make on the spot are named by those steps.

    Labelled inputs are a list, because their order matters and a database may sort an object's names.
    """

    name: str
    stage: str
    params: dict[str, Any]
    seed: int | None
    inputs: dict[str, str | Ref | Output | tuple[tuple[str, Ref | Output], ...]]
    key: str

    @classmethod
    def of(cls, step: Step, inputs: PlannedInputs) -> "SerializedStep":
        """Serialise a step with these inputs."""
        listed = {name: tuple(value.items()) if isinstance(value, Mapping) else value for name, value in inputs.items()}
        params = step.params.model_dump(mode="json")
        return cls(name=step.name, stage=step.stage.name, params=params, seed=step.seed, inputs=listed, key=step.key)

    def open(self, stage_named: Callable[[str], Stage], made: Mapping[str, Result] = MappingProxyType({})) -> Opened:
        """Rebuild the step from this machine's stages, and its inputs, some from the results `made` here before.

        Raises:
            ConfigError: If settings or key differ from the sender's.
        """
        stage = stage_named(self.stage)
        try:
            params = stage.params.parse(self.params)
        except ValidationError as error:
            wrong = ".".join(map(str, error.errors()[0]["loc"]))
            raise ConfigError(
                "training.bad_setting", name=self.name, setting=wrong, two_versions=_TWO_VERSIONS
            ) from error
        listed = {name: dict(value) if isinstance(value, tuple) else value for name, value in self.inputs.items()}
        inputs = resolved(listed, made)
        key = key_of(stage, params, self.seed, inputs)
        if key != self.key:
            raise ConfigError(
                "training.other_key", name=self.name, key=key[:12], sent=self.key[:12], two_versions=_TWO_VERSIONS
            )
        return Step(self.name, stage, params, self.seed, listed, key), inputs


class Call(Params):
    """The first machine's message to the others: the step to train now, with its store and runtime."""

    step: SerializedStep
    store: str
    runtime: Runtime


@dataclass(frozen=True)
class ProcessPart:
    """The processes that one machine starts: `here` of `size`, ranked from `first_rank` on.

    meeting: Rendezvous file, or rendezvous name with several machines.
    """

    first_rank: int
    here: int
    size: int
    meeting: Path | str


def take_part(job: PortableJob, part: ProcessPart, hear: Tell) -> None:
    """Run the stage in this machine's processes; messages of the first process arrive at `hear`."""
    run_together(_work, part.here, (job, part), hear)


def _share(job: Job[Any]) -> None:
    def hear(message: Any) -> None:
        if isinstance(message, _Made):
            job.notes.update(message.notes)
            job.written.update(message.written)
        else:
            kind, values = message
            getattr(job, kind)(*values)

    count = job.runtime.processes
    if (begun := launched()) and begun.several_machines:
        take_part(PortableJob.of(job), _called(begun, job), hear)
    else:
        with TemporaryDirectory(prefix="noisyir-") as folder:
            take_part(PortableJob.of(job), ProcessPart(0, count, count, Path(folder, "meeting")), hear)
    job.note("processes", count)


def _called(begun: Launched, job: Job[Any]) -> ProcessPart:
    """Call the other machines to their parts and return the first machine's."""
    runtime = job.runtime
    if runtime.processes != begun.size or runtime.steps_at_once > 1:
        raise ConfigError("training.torchrun_sets_processes", size=begun.size)
    step = SerializedStep.of(job.step, job.inputs)
    meeting = begun.call(Call(step=step, store=job.store.url, runtime=runtime).model_dump_json())
    return ProcessPart(0, begun.here, begun.size, meeting)


def _work(local_rank: int, tell: Tell, portable: PortableJob, part: ProcessPart) -> None:
    """Run the stage as one of several processes; only the first one's results are kept."""
    from noisyir.training.distributed import World, device_of, joined

    common = portable.runtime
    here = World(part.first_rank + local_rank, part.size)
    threads = max(1, common.cpu_threads // part.here)
    own = {"device": device_of(local_rank, part.here, common.device), "threads": threads, "processes": 1}
    runtime = common.model_copy(update=own)
    kind, observer = (Job, Relay(tell)) if here.leads else (_Follower, Observer())
    job = portable.open(runtime, observer, kind)
    with joined(here, runtime.device, part.meeting, common.peer_seconds), suppress(_PartOverError):
        job.step.stage.run(job)
    if here.leads:
        tell(_Made(job.notes, job.written))
