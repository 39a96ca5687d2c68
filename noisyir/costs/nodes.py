"""Steps of a plan and builds in the store, looked at alike: settings, what they were made from, and known sizes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow.compute as pc
from pydantic import ValidationError

from noisyir.data.settings import ExpectedParams
from noisyir.engine.builds import Meta, Ref
from noisyir.engine.plan import Forecast
from noisyir.engine.stage import Output, Stage, Step
from noisyir.engine.store import Store
from noisyir.engine.tables import read_parts
from noisyir.settings import Params


class Node(Protocol):
    """One call of a stage, planned or done."""

    @property
    def stage(self) -> str:
        """The stage's name."""

    @property
    def params(self) -> Params:
        """The stage's settings."""

    def made_from(self) -> Iterator[tuple[str, "Node"]]:
        """(name of an input, the node that wrote it) of every input from the store."""

    def sizes(self) -> "Sizes | None":
        """Of ingest: what it read; None where nobody knows yet, and of every other stage."""


@dataclass(frozen=True)
class Sizes:
    """How large the data is: documents, queries by split, and training pairs.  Lengths are in tokens; None: unknown."""

    documents: int
    queries: Mapping[str, int]
    pairs: int
    document_tokens: int | None = None
    query_tokens: int | None = None
    declared: bool = False


def upstream(node: Node, name: str) -> Node | None:
    """The node that wrote one of a node's inputs."""
    return next((found for label, found in node.made_from() if label == name), None)


def ancestor(node: Node, stage: str) -> Node | None:
    """The nearest node of a stage among all that a node was made from, itself included."""
    seen: set[int] = set()
    row = [node]
    while row:
        if found := next((one for one in row if one.stage == stage), None):
            return found
        fresh = {id(one): one for each in row for _, one in each.made_from() if id(one) not in seen}
        seen.update(fresh)
        row = list(fresh.values())
    return None


@dataclass(eq=False)
class Planned:
    """A step of a plan; `nodes` holds those before it, by name."""

    entry: Forecast
    nodes: Mapping[str, "Planned"]
    store: Store
    expected: ExpectedParams

    @property
    def step(self) -> Step:
        """The step itself."""
        return self.entry.step

    @property
    def stage(self) -> str:
        """The stage's name."""
        return self.step.stage.name

    @property
    def params(self) -> Params:
        """The stage's settings."""
        return self.step.params

    def made_from(self) -> Iterator[tuple[str, Node]]:
        """As `Node` has it."""
        for name, value in self.step.inputs.items():
            outputs = [value] if isinstance(value, Output) else [] if isinstance(value, str | Ref) else value.values()
            yield from ((name, self.nodes[output.step]) for output in outputs)

    def sizes(self) -> Sizes | None:
        """As `Node` has it: what was read if it was, else what the experiment expects."""
        if self.stage != "ingest":
            return None
        if self.entry.meta is not None:
            return counted(self.store, self.entry.meta, self.expected)
        return declared(self.expected)


@dataclass(eq=False)
class Built:
    """A build in the store."""

    meta: Meta
    params: Params
    builds: "Builds"

    @property
    def stage(self) -> str:
        """The stage's name."""
        return self.meta.stage

    def made_from(self) -> Iterator[tuple[str, Node]]:
        """As `Node` has it; what is not in the store any more, or of older settings, is passed by."""
        for name, ref in self.meta.input_refs():
            if found := self.builds.get((ref.stage, ref.key, ref.build)):
                yield name.partition(".")[0], found

    def sizes(self) -> Sizes | None:
        """As `Node` has it."""
        return self.builds.sizes(self.meta) if self.stage == "ingest" else None


@dataclass
class Builds:
    """Every build of the store whose stage is among `stages`, by stage, key and build."""

    store: Store
    stages: Mapping[str, Stage]
    _nodes: dict[tuple[str, str, str], Built] = field(default_factory=dict)
    _sizes: dict[str, Sizes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for meta in self.store.all_builds():
            stage = self.stages.get(meta.stage)
            if stage is None or stage.version != meta.version:
                continue
            try:
                params = stage.params.parse(dict(meta.params))
            except ValidationError:
                continue  # written when the stage had other settings
            self._nodes[meta.stage, meta.key, meta.build] = Built(meta, params, self)

    def __iter__(self) -> Iterator[Built]:
        return iter(self._nodes.values())

    def get(self, name: tuple[str, str, str]) -> Built | None:
        """A build by stage, key and build."""
        return self._nodes.get(name)

    def sizes(self, ingest: Meta) -> Sizes:
        """What a build of ingest read; counted once."""
        if ingest.build not in self._sizes:
            self._sizes[ingest.build] = counted(self.store, ingest, ExpectedParams())
        return self._sizes[ingest.build]


def counted(store: Store, ingest: Meta, expected: ExpectedParams) -> Sizes:
    """What a build of ingest wrote; lengths of texts are not counted, but taken as expected."""
    splits = {
        name: pc.value_counts(read_parts(store.fs, store.parts(ingest.ref(name)), ["split"])["split"]).to_pylist()
        for name in ("queries", "pairs")
    }
    queries, pairs = ({row["values"]: row["counts"] for row in rows} for rows in splits.values())
    documents = ingest.artifacts["corpus"].rows or 0
    return Sizes(documents, queries, pairs.get("train", 0), expected.document_tokens, expected.query_tokens)


def declared(expected: ExpectedParams) -> Sizes | None:
    """The sizes that an experiment expects; None where it does not say."""
    if expected.documents is None or expected.train_queries is None:
        return None
    queries = {"train": expected.train_queries, "dev": expected.dev_queries, "test": expected.test_queries}
    pairs = expected.train_pairs or expected.train_queries
    tokens = expected.document_tokens, expected.query_tokens
    return Sizes(expected.documents, queries, pairs, *tokens, declared=True)
