"""A stage is declared once; Python, the command line and Prefect all run that declaration through `run_stage`."""

import logging
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import pyarrow as pa

from noisyir.engine.builds import Meta, Ref
from noisyir.engine.devices import own_device
from noisyir.engine.observe import Observer, Silent
from noisyir.engine.runtime import Runtime
from noisyir.engine.store import Store
from noisyir.engine.tables import TableWriter, batches_in, read_parts, stream_parts
from noisyir.errors import DataError, MissingPackageError, StoreError
from noisyir.schemas.artifact import Artifact, Read
from noisyir.settings import Params

if TYPE_CHECKING:
    import numpy as np

    from noisyir.engine.plan import Step

log = logging.getLogger("noisyir")

Pool = Literal["driver", "cpu", "gpu"]
P = TypeVar("P", bound=Params)
Inputs = Mapping[str, str | Ref | Mapping[str, Ref]]
T = TypeVar("T")
Piecewise = Callable[["Job[Any]", Sequence[T]], Iterator[Any]]
Spread = Callable[["Job[Any]", Piecewise[Any], Sequence[Any]], Iterator[Any]]


@dataclass(frozen=True)
class Stage:
    """What a stage is called, reads, writes and does.  Bump `version` when its results change.

    stream: what its random numbers are drawn under, where that is not its name: a renamed stage draws as before.
    seeded: whether it makes random choices; the experiment's seed enters the key of such a stage only.
    raw: inputs from outside the store, by name: what digests their content for the key; None where there is none.
    pool: where the stage belongs when there are several kinds of workers: `driver` for what takes seconds.
    spreads: whether it hands its work out by `Job.spread`, and does little itself where an engine takes it.
    ready: raises what would make the stage fail later for want of something on this machine; cheap.
    """

    name: str
    version: int
    params: type[Params]
    reads: Mapping[str, Read]
    writes: Mapping[str, Artifact]
    run: Callable[["Job[Any]"], None]
    stream: str = ""
    seeded: bool = False
    raw: Mapping[str, Callable[[Any], str | None]] = field(default_factory=dict)
    pool: Pool = "cpu"
    spreads: bool = False
    ready: Callable[[Any], None] | None = None

    def digests(self, params: Params) -> dict[str, str]:
        """What stands for the raw inputs as they are now.  NoisyirError where one is missing or of another kind."""
        found = {name: digest(params) for name, digest in self.raw.items()}
        return {name: value for name, value in found.items() if value is not None}


@dataclass
class Job(Generic[P]):
    """One execution of a stage: its settings, its declared inputs, and where its results go.

    written: rows by output, None where it is no table.  spreader: the engine's way to do work in other processes.
    """

    step: "Step"
    params: P
    inputs: Inputs
    store: Store
    runtime: Runtime
    observer: Observer
    staging: Path
    work: Path
    spreader: Spread | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    written: dict[str, int | None] = field(default_factory=dict)

    # Inputs -------------------------------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        """Whether an optional input was given."""
        return name in self.inputs

    def table(self, name: str) -> pa.Table:
        """The declared columns of an input, whole."""
        return self._read(self._ref(name), self.step.stage.reads[name].columns)

    def tables(self, name: str) -> dict[str, pa.Table]:
        """The declared columns of every table of a labelled input, in the pipeline's order."""
        columns = self.step.stage.reads[name].columns
        return {label: self._read(ref, columns) for label, ref in self.refs(name).items()}

    def batches(self, name: str, rows: int = 65536, skip: int = 0) -> Iterator[pa.RecordBatch]:
        """The declared columns of an input as a stream, but for `skip` batches: memory does not grow with the table."""
        columns = self.step.stage.reads[name].columns
        return stream_parts(self.store.fs, self.store.parts(self._ref(name)), columns, rows, skip)

    def batches_in(self, name: str, rows: int) -> int:
        """How many batches that stream has, without reading it."""
        return batches_in(self.store.fs, self.store.parts(self._ref(name)), rows)

    def rows(self, name: str) -> int:
        """How many rows an input table has, without reading it."""
        return self.store.contents(self._ref(name)).rows or 0

    def folder(self, name: str) -> Path:
        """A local folder with the files of an input such as an index or a model; read only."""
        return self.store.folder(self._ref(name))

    def refs(self, name: str) -> dict[str, Ref]:
        """The references behind a labelled input."""
        value = self.inputs.get(name, {})
        assert isinstance(value, Mapping)
        return dict(value)

    def _ref(self, name: str) -> Ref:
        value = self.inputs[name]
        assert isinstance(value, Ref)
        return value

    def _read(self, ref: Ref, columns: tuple[str, ...]) -> pa.Table:
        return read_parts(self.store.fs, self.store.parts(ref), columns)

    # In several processes -----------------------------------------------------------------------------------

    def spread(self, function: Piecewise[T], items: Sequence[T]) -> Iterator[Any]:
        """What `function(job, some items)` yields for all of them: in one call here, or in several by the engine.

        function: a module's, which leaves its results as files in `work` and yields no more than facts.
        """
        return self.spreader(self, function, items) if self.spreader else function(self, items)

    def portable(self) -> "PortableJob":
        """What another process needs to make this job anew."""
        bare = replace(self.step, inputs={})  # what is planned does not travel; what is resolved does
        return PortableJob(bare, self.inputs, self.store.url, self.store.home, self.runtime, self.staging, self.work)

    # Results ------------------------------------------------------------------------------------------------

    def writer(self, name: str) -> TableWriter:
        """A context manager that writes an output table part by part."""
        return _CountingWriter(self, name)

    def write(self, name: str, table: pa.Table) -> None:
        """Write an output table whole."""
        with self.writer(name) as out:
            out.append(table)

    def new_folder(self, name: str) -> Path:
        """An empty folder that becomes the output `name`, for artifacts that are files and not a table."""
        path = self.staging / name
        path.mkdir()
        self.written[name] = None
        return path

    def note(self, name: str, value: Any) -> None:
        """Keep a fact (JSON) about this build in its meta: counts, versions, decisions."""
        self.notes[name] = value

    # While working ------------------------------------------------------------------------------------------

    def rng(self, *purpose: str | int) -> "np.random.Generator":
        """A generator that depends on the seed, the stage and `purpose`, and on nothing else."""
        import hashlib

        import numpy as np

        if self.step.seed is None:
            raise AssertionError(f"stage {self.step.stage.name} draws random numbers but is not declared seeded")
        text = "/".join(map(str, (self.step.seed, self.step.stage.stream or self.step.stage.name, *purpose)))
        return np.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest()[:16]))

    def progress(self, done: int, total: int | None, unit: str) -> None:
        """Tell the observer how far the stage is."""
        self.observer.progress(self.step, done, total, unit)

    def metric(self, name: str, value: float, at: int) -> None:
        """Tell the observer a value measured at training step `at`."""
        self.observer.metric(self.step, name, value, at)

    @property
    def outputs(self) -> dict[str, tuple[int, int | None]]:
        """(schema version, rows) of every output; AssertionError when the stage forgot one."""
        writes = self.step.stage.writes
        assert set(self.written) == set(writes), (
            f"{self.step.stage.name} wrote {set(self.written)}, declared {set(writes)}"
        )
        return {name: (artifact.version, self.written[name]) for name, artifact in writes.items()}


@dataclass(frozen=True)
class PortableJob:
    """A job on its way to another process, which sees the same store and home."""

    step: "Step"
    inputs: Inputs
    url: str
    home: Path
    runtime: Runtime
    staging: Path
    work: Path

    def open(self, runtime: Runtime, observer: Observer, kind: type[Job[Any]] = Job) -> Job[Any]:
        """The job, with the settings of the machine that it has come to."""
        store = Store(self.url, home=self.home)
        return kind(self.step, self.step.params, self.inputs, store, runtime, observer, self.staging, self.work)


class _CountingWriter(TableWriter):
    def __init__(self, job: Job[Any], name: str) -> None:
        super().__init__(job.step.stage.writes[name], job.staging / name, job.step.stage.name)
        self._job, self._name = job, name

    def close(self) -> None:
        super().close()
        self._job.written[self._name] = self.rows


@dataclass(frozen=True)
class Result:
    """What `run_stage` did: the build that now stands for the step, and whether it was there already."""

    meta: Meta
    cached: bool


def run_stage(
    step: "Step",
    inputs: Inputs,
    *,
    store: Store,
    runtime: Runtime,
    observer: Observer | None = None,
    refresh: bool = False,
    spread: Spread | None = None,
) -> Result:
    """Check, read, call, check, publish: the one way in which a stage runs.

    A build of the step's key from inputs with the same digests is a hit, unless `refresh`.  Two runs of one key
    build once: the second waits.  Whatever the stage raises, the store stays as it was; `work` is kept for a retry.
    spread: how an engine takes over what a stage spreads.
    """
    observer = observer or Silent()
    if not refresh and (result := reuse(step, inputs, store, observer)):
        return result
    at_gpu = step.stage.pool == "gpu" and not (step.stage.spreads and spread)
    with store.lock(step.stage.name, step.key) as waited:
        if (not refresh or waited) and (result := reuse(step, inputs, store, observer)):
            return result
        observer.started(step)
        try:
            with own_device(runtime, store.home) if at_gpu else nullcontext(runtime) as machine:
                meta = _build(step, inputs, store, machine, observer, spread)
        except BaseException as error:
            observer.failed(step, error)
            raise
        observer.finished(step, meta, cached=False)
        return Result(meta, cached=False)


def reuse(step: "Step", inputs: Inputs, store: Store, observer: Observer) -> Result | None:
    """The build of the step's key from inputs with the same digests, where there is one."""
    if found := store.find(step.stage.name, step.key, recorded(inputs)):
        observer.finished(step, found, cached=True)
        return Result(found, cached=True)
    return None


def _build(
    step: "Step", inputs: Inputs, store: Store, runtime: Runtime, observer: Observer, spread: Spread | None
) -> Meta:
    from noisyir.engine.provenance import git_commit, package_versions

    _check_raw(step, inputs)
    began = time.monotonic()
    stage, from_inputs = step.stage, recorded(inputs)
    staging = store.staging(stage.name, step.key)
    work = store.work(stage.name, step.key, from_inputs)
    job = Job(step, step.params, inputs, store, runtime, observer, staging, work, spread)
    try:
        stage.run(job)
        meta = store.publish(
            staging,
            stage=stage.name,
            version=stage.version,
            key=step.key,
            params=step.params.model_dump(mode="json"),
            seed=step.seed,
            inputs=from_inputs,
            artifacts=job.outputs,
            seconds=round(time.monotonic() - began, 3),
            notes=job.notes,
            git_commit=git_commit(),
            packages=package_versions(),
        )
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            f"stage {step.name} needs the package {error.name}: pip install 'noisyir[all]'"
        ) from error
    except OSError as error:
        raise StoreError(f"stage {step.name} could not read or write: {error}") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    shutil.rmtree(work, ignore_errors=True)
    return meta


def _check_raw(step: "Step", inputs: Inputs) -> None:
    """DataError when raw inputs are not those in the key: changed since it was made, or others on this machine."""
    found = step.stage.digests(step.params)
    if wrong := [name for name in step.stage.raw if found.get(name) != inputs.get(name)]:
        raise DataError(
            f"{step.name}: the raw input {' and '.join(wrong)} is not what this run was planned with: it has changed "
            "since, or this machine has another; run it again"
        )


def recorded(inputs: Inputs) -> dict[str, Any]:
    """Inputs as a build's meta records them."""

    def plain(value: str | Ref | Mapping[str, Ref]) -> Any:
        if isinstance(value, Ref):
            return asdict(value)
        return value if isinstance(value, str) else {label: asdict(ref) for label, ref in value.items()}

    return {name: plain(value) for name, value in inputs.items()}
