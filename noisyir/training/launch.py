"""How a training stage runs in several processes: the same stage in each, of which the first one writes."""

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
    """Results of the first process's job."""

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


Opened: TypeAlias = tuple[Step, Inputs]


class SerializedStep(Params):
    """A step with its inputs, as JSON; those that are made on the way there, by steps before it, are named by these.

    Labelled inputs are a list, for the order of labels has a meaning, and a database may sort the names of an object.
    """

    name: str
    stage: str
    params: dict[str, Any]
    seed: int | None
    inputs: dict[str, str | Ref | Output | tuple[tuple[str, Ref | Output], ...]]
    key: str

    @classmethod
    def of(cls, step: Step, inputs: PlannedInputs) -> "SerializedStep":
        """The step with these inputs."""
        listed = {name: tuple(value.items()) if isinstance(value, Mapping) else value for name, value in inputs.items()}
        params = step.params.model_dump(mode="json")
        return cls(name=step.name, stage=step.stage.name, params=params, seed=step.seed, inputs=listed, key=step.key)

    def open(self, stage_named: Callable[[str], Stage], made: Mapping[str, Result] = MappingProxyType({})) -> Opened:
        """The step, by this machine's stages, and its inputs, some of them from what was `made` here before.

        ConfigError where that is not what was sent.
        """
        stage = stage_named(self.stage)
        try:
            params = stage.params.parse(self.params)
        except ValidationError as error:
            wrong = ".".join(map(str, error.errors()[0]["loc"]))
            raise ConfigError(
                "training.bad_setting", name=self.name, wrong=wrong, two_versions=_TWO_VERSIONS
            ) from error
        listed = {name: dict(value) if isinstance(value, tuple) else value for name, value in self.inputs.items()}
        inputs = resolved(listed, made)
        key = key_of(stage, params, self.seed, inputs)
        if key != self.key:
            raise ConfigError(
                "training.key_sender", name=self.name, key=key[:12], key_2=self.key[:12], two_versions=_TWO_VERSIONS
            )
        return Step(self.name, stage, params, self.seed, {}, key), inputs


class Call(Params):
    """The first machine's word to the others: the step that is trained now, with the settings of the machine."""

    step: SerializedStep
    store: str
    runtime: Runtime


@dataclass(frozen=True)
class ProcessPart:
    """The processes that one machine begins.

    first_rank: of the first of them; here: how many; size: how many there are on all machines.  meeting: the file at
    which they find each other, or its name where there are several machines.
    """

    first_rank: int
    here: int
    size: int
    meeting: Path | str


def take_part(job: PortableJob, part: ProcessPart, hear: Tell) -> None:
    """Run the stage in this machine's processes; what the first of all tells arrives at `hear`."""
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
    """The first machine's part, once the others have been called to theirs.  ConfigError where they cannot come."""
    runtime = job.runtime
    if runtime.processes != begun.size or runtime.steps_at_once > 1:
        raise ConfigError("training.torchrun_began_processes_several", size=begun.size)
    step = SerializedStep.of(job.step, job.inputs)
    meeting = begun.call(Call(step=step, store=job.store.url, runtime=runtime).model_dump_json())
    return ProcessPart(0, begun.here, begun.size, meeting)


def _work(local_rank: int, tell: Tell, portable: PortableJob, part: ProcessPart) -> None:
    """Run the stage as one of several, which find each other at the meeting; only the first one's results are kept."""
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


_TWO_VERSIONS = "this worker and the sender have other versions of noisyir; bring both to one"
