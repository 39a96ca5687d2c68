"""A stage is declared once; Python, the command line and Prefect run that declaration through `run_stage`."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

import pyarrow as pa

from noisyir.base.artifact import Artifact, Read
from noisyir.base.settings import Params
from noisyir.engine.meta import Meta, Ref
from noisyir.engine.remote.fetched import located
from noisyir.engine.remote.shards import Made, Shards
from noisyir.engine.runtime import Runtime
from noisyir.engine.store import Store
from noisyir.engine.tables import TableWriter, batches_in

if TYPE_CHECKING:
    import numpy as np


Pool = Literal["driver", "cpu", "gpu"]
P = TypeVar("P", bound=Params)
Inputs = Mapping[str, str | Ref | Mapping[str, Ref]]
T = TypeVar("T")
Piecewise = Callable[["Job[Any]", Sequence[T]], Iterator[pa.Table]]
Spread = Callable[["Job[Any]", Piecewise[Any], Mapping[str, Any]], Iterator[Made]]


class SplitCounts(NamedTuple):
    """Numbers of queries in each split, and of training pairs."""

    queries: Mapping[str, int]
    training_pairs: int


@dataclass(frozen=True)
class Stage:
    """A stage: its name, its inputs and outputs, and its work.  Raise `version` when its results change.

    Attributes:
        optional_writes: Extra outputs, written if `when(params)`; older builds without them stay valid.
        stream: Name that its random numbers are drawn under, if not its own: a renamed stage draws as before.
        seeded: Whether it makes random choices; only then the experiment's seed enters the key.
        raw: Functions that digest inputs from outside the store for the key, by name; None if there is none.
        pool: Kind of worker for the stage; `driver` if it takes seconds.
        spreads: Whether it hands its work to `Job.spread` and does little itself.
        ready: Raises if something on this machine is missing that the stage needs later; cheap.
        fits: Raises if something in the data is missing that the stage needs; called once the data was read.
        story: Sentences on a build's treatment of wrong labels, for the page of a model made from it.
        learners: Its learners on texts of full length, from its settings and its start models' settings by input; a dry
            run makes them take a step without memory.
    """

    name: str
    version: int
    params: type[Params]
    reads: Mapping[str, Read]
    writes: Mapping[str, Artifact]
    run: Callable[["Job[Any]"], None]
    optional_writes: Mapping[str, Artifact] = field(default_factory=dict)
    when: Callable[[Any], bool] = bool
    stream: str = ""
    seeded: bool = False
    raw: Mapping[str, Callable[[Any], str | None]] = field(default_factory=dict)
    pool: Pool = "cpu"
    spreads: bool = False
    ready: Callable[[Any], None] | None = None
    fits: Callable[[Any, SplitCounts], None] | None = None
    story: Callable[[Meta, Store], Iterable[str]] | None = None
    learners: Callable[[Any, Mapping[str, Any]], Sequence[Any]] | None = None

    def outputs(self, params: Params) -> dict[str, Artifact]:
        """Return all that a call with these settings writes."""
        return {**self.writes, **(self.optional_writes if self.optional_writes and self.when(params) else {})}

    def digests(self, params: Params) -> dict[str, str]:
        """Return digests of the raw inputs as they are now."""
        found = {name: digest(located(params)) for name, digest in self.raw.items()}
        return {name: value for name, value in found.items() if value is not None}

    def check_ready(self, params: Params) -> None:
        """Call `ready`, if there is one."""
        if self.ready:
            self.ready(located(params))


@dataclass(frozen=True)
class Output:
    """An artifact that a step will have written; its key is known before it exists."""

    step: str
    stage: str
    key: str
    artifact: str


Outputs = Mapping[str, Output]
PlannedInputs = Mapping[str, str | Ref | Output | Mapping[str, Ref | Output]]


@dataclass(frozen=True)
class Step:
    """One call of a stage in a plan; its name is the stage's, with `@label` if a plan calls the stage repeatedly."""

    name: str
    stage: Stage
    params: Params
    seed: int | None
    inputs: PlannedInputs
    key: str

    def outputs_needed(self) -> Iterator[Output]:
        """Return the outputs of earlier steps that this step reads."""
        for value in self.inputs.values():
            if isinstance(value, Output):
                yield value
            elif isinstance(value, Mapping):
                yield from (made for made in value.values() if isinstance(made, Output))


class Observer:
    """Follows a run; a method that a class does not override does nothing."""

    def planned(self, steps: Sequence[Step]) -> None:
        """Receive the steps of a run, before the first begins."""

    def started(self, step: Step) -> None:
        """Receive a stage that begins to execute (cached stages do not)."""

    def progress(self, step: Step, done: int, total: int | None, unit: str) -> None:
        """Receive how many of `total` units are finished; total is None while unknown."""

    def metric(self, step: Step, name: str, value: float, at: int) -> None:
        """Receive a value measured inside a stage at training step `at`, such as the loss."""

    def finished(self, step: Step, meta: Meta, cached: bool) -> None:
        """Receive a stage with its artifacts in the store."""

    def said(self, step: Step, text: str) -> None:
        """Receive a text for people, of one line or several, such as who did which part of the work."""

    def failed(self, step: Step, error: BaseException) -> None:
        """Receive a stage that raised; the run ends."""


@dataclass
class Job(Generic[P]):
    """One execution of a stage: its settings, its declared inputs, and the places of its results.

    Attributes:
        written: Rows by output; None if it is no table.
        spreader: The engine's way to do work in other processes.
        builds: Whether this process makes the build, and not a part of another's.
    """

    step: Step
    params: P
    inputs: Inputs
    store: Store
    runtime: Runtime
    observer: Observer
    staging: Path
    work: Path
    spreader: Spread | None = None
    builds: bool = True
    notes: dict[str, Any] = field(default_factory=dict)
    written: dict[str, int | None] = field(default_factory=dict)
    _keep_again: float = 0.0

    def __post_init__(self) -> None:
        """Resolve settings that name fetched files that are missing on this machine."""
        with self.store.fetched.as_source():
            self.params = located(self.params)

    # Inputs -------------------------------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        """Return whether an optional input was given."""
        return name in self.inputs

    def table(self, name: str) -> pa.Table:
        """Return the declared columns of an input, whole."""
        return self._read(self.ref(name), self.step.stage.reads[name].columns)

    def tables(self, name: str) -> dict[str, pa.Table]:
        """Return the declared columns of every table of a labelled input, in the plan's order."""
        columns = self.step.stage.reads[name].columns
        return {label: self._read(ref, columns) for label, ref in self.refs(name).items()}

    def batches(self, name: str, rows: int = 65536, skip: int = 0) -> Iterator[pa.RecordBatch]:
        """Yield the declared columns of an input after the first `skip` batches, in constant memory."""
        columns = self.step.stage.reads[name].columns
        return self.store.builds.batches(self.ref(name), columns, rows, skip)

    def batches_in(self, name: str, rows: int) -> int:
        """Return the number of batches of an input, without reading it."""
        return batches_in(self.store.fs, self.store.builds.parts(self.ref(name)), rows)

    def rows(self, name: str) -> int:
        """Return the number of rows of an input, without reading it."""
        return self.store.builds.contents(self.ref(name)).rows or 0

    def folder(self, name: str, inside: str = "") -> Path:
        """Return a local, read-only folder with the files of an input such as an index or a model.

        Args:
            inside: Folder or file in it; only this is copied from a remote store.
        """
        return self.store.builds.folder(self.ref(name), inside)

    def refs(self, name: str) -> dict[str, Ref]:
        """Return the references behind a labelled input."""
        value = self.inputs.get(name, {})
        assert isinstance(value, Mapping)
        return dict(value)

    def ref(self, name: str) -> Ref:
        """Return the reference behind an input that is one artifact."""
        value = self.inputs[name]
        assert isinstance(value, Ref)
        return value

    def _read(self, ref: Ref, columns: tuple[str, ...]) -> pa.Table:
        return self.store.builds.table(ref, columns)

    # In several processes -----------------------------------------------------------------------------------

    def spread(
        self, function: Piecewise[T], items: Mapping[str, T], *, total: int | None = None, unit: str = "rows"
    ) -> Iterator[Path]:
        """Write the tables that `function(job, items)` yields, one an item, as Parquet parts in the order of `items`.

        Args:
            function: Function of a module, called here or by the engine in other processes and machines.
            items: Items by the name of their shard; shards that exist are not made again.
            total: Rows of all shards.
        """
        there = self.shards.there(items)
        done = sum(shard.rows for shard in there.values())
        left = {name: item for name, item in items.items() if name not in there}
        made = (self.spreader or made_here)(self, function, left) if left else iter(())
        for name in items:
            while name not in there:
                shard = next(made)
                there[shard.name] = shard
                done += shard.rows
                self.progress(done, total, unit)
            yield self.shards.fetch(there[name].file)

    @cached_property
    def shards(self) -> Shards:
        """Return the job's shards in the store."""
        return Shards(self.store, self.work, keeps=self.builds)

    # Results ------------------------------------------------------------------------------------------------

    @contextmanager
    def writer(self, name: str) -> Iterator[TableWriter]:
        """Return a context manager that writes an output table part by part."""
        stage = self.step.stage
        with TableWriter(stage.outputs(self.params)[name], self.staging / name, stage.name) as out:
            yield out
        self.written[name] = out.rows

    def write(self, name: str, table: pa.Table) -> None:
        """Write an output table as a whole."""
        with self.writer(name) as out:
            out.append(table)

    def new_folder(self, name: str) -> Path:
        """Return an empty folder that becomes the output `name`, for artifacts of files."""
        path = self.staging / name
        path.mkdir()
        self.written[name] = None
        return path

    def note(self, name: str, value: Any) -> None:
        """Record a fact (JSON) about this build in its meta: counts, versions, decisions."""
        self.notes[name] = value

    def keep(self, file: Path) -> None:
        """Let another machine continue from a file of `work` if the store is remote and this one is killed.

        For files that are rewritten often: it takes at most a tenth of the time between two calls.
        """
        if time.monotonic() >= self._keep_again:
            began = time.monotonic()
            self.store.work.keep(self.work, file)
            self._keep_again = time.monotonic() + 9 * (time.monotonic() - began)

    # While working ------------------------------------------------------------------------------------------

    def rng(self, *purpose: str | int) -> "np.random.Generator":
        """Return a generator that depends only on the seed, the stage and `purpose`."""
        import hashlib

        import numpy as np

        if self.step.seed is None:
            raise AssertionError(f"stage {self.step.stage.name} draws random numbers but is not declared seeded")
        text = "/".join(map(str, (self.step.seed, self.step.stage.stream or self.step.stage.name, *purpose)))
        return np.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest()[:16]))

    def progress(self, done: int, total: int | None, unit: str) -> None:
        """Tell the observer how far the stage is."""
        self.observer.progress(self.step, done, total, unit)

    def say(self, text: str) -> None:
        """Tell the observer a text for people."""
        self.observer.said(self.step, text)

    def metric(self, name: str, value: float, at: int) -> None:
        """Tell the observer a value measured at training step `at`."""
        self.observer.metric(self.step, name, value, at)

    @property
    def outputs(self) -> dict[str, tuple[int, int | None]]:
        """Return (schema version, rows) of every output.

        Raises:
            AssertionError: If the stage forgot one.
        """
        writes = self.step.stage.outputs(self.params)
        assert set(self.written) == set(writes), (
            f"{self.step.stage.name} wrote {set(self.written)}, declared {set(writes)}"
        )
        return {name: (artifact.version, self.written[name]) for name, artifact in writes.items()}


def made_here(job: Job[Any], function: Piecewise[Any], items: Mapping[str, Any]) -> Iterator[Made]:
    """Make these shards in this process."""
    return job.shards.save_each(items, function(job, list(items.values())))


def told(note: str, text: str, meta: Meta, store: Store) -> Iterator[str]:
    """Yield the text filled with a build's note, by the names of its entries or as one value, if the build has it."""
    if note in meta.notes:
        found = meta.notes[note]
        yield text.format(**found) if isinstance(found, Mapping) else text.format(found)
