"""What the cost of a call is estimated from: the stage's settings, the size of the data, and the models behind it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from noisyir.costs.shapes import TRAINING, Shape, encoder_shape, retriever_shape
from noisyir.engine.stage import Stage
from noisyir.models.settings import InitModelParams, InitRankerParams, InitReaderParams
from noisyir.settings import Params

FLOAT = 4  # bytes
TEXT = 5  # bytes of text a token stands for, as English has it
ROW = 40  # bytes of a row of ids and a score, as it is stored
ID = 300  # bytes that a document's id takes in memory while it is read
_LENGTH = 128  # tokens of a document, where neither data nor model tell

S = TypeVar("S", bound=Params)


@dataclass(frozen=True)
class Sizes:
    """How large the data is: documents, queries by split, and training pairs.  Lengths are in tokens; None: unknown."""

    documents: int
    queries: Mapping[str, int]
    pairs: int
    document_tokens: int | None = None
    query_tokens: int | None = None
    declared: bool = False


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a stage, planned or done.

    inputs: (name of an input, the call that wrote it) of every input from the store.
    sizes: of the call that reads the raw data: what it reads; None where nobody knows yet, and of every other one.
    """

    stage: Stage
    params: Params
    inputs: list[tuple[str, "Call"]] = field(default_factory=list)
    sizes: Sizes | None = None

    def upstream(self, name: str) -> "Call | None":
        """The call that wrote one of the inputs."""
        return next((found for label, found in self.inputs if label == name), None)

    def lineage(self) -> "list[Call]":
        """Every call that this one was made from, itself included, the nearest first."""
        found = {id(self): self}
        row = [self]
        while row:
            fresh = {id(one): one for each in row for _, one in each.inputs if id(one) not in found}
            found |= fresh
            row = list(fresh.values())
        return list(found.values())

    def settings(self, kind: type[S]) -> S:
        """The nearest settings of a kind, such as those of the reader before training; its defaults without any."""
        return next((call.params for call in self.lineage() if isinstance(call.params, kind)), kind())


@dataclass(frozen=True)
class Workload:
    """A call with the data and the models that stand behind it."""

    call: Call
    sizes: Sizes

    @property
    def params(self) -> Any:
        """The stage's settings."""
        return self.call.params

    @cached_property
    def model(self) -> InitModelParams:
        """The settings of the retriever."""
        return self.call.settings(InitModelParams)

    @cached_property
    def tower(self) -> Shape:
        """The shape of one of the retriever's towers."""
        return retriever_shape(self.model)

    @cached_property
    def ranker(self) -> InitRankerParams:
        """The settings of the ranker."""
        return self.call.settings(InitRankerParams)

    @cached_property
    def reader(self) -> InitReaderParams:
        """The settings of the reader."""
        return self.call.settings(InitReaderParams)

    def queries(self, *splits: str) -> int:
        """Queries in these splits."""
        return sum(self.sizes.queries.get(split, 0) for split in splits)

    @property
    def training(self) -> int:
        """Training queries that have a pair."""
        return min(self.queries("train"), self.sizes.pairs)

    @property
    def length(self) -> float:
        """Tokens of a document."""
        return self.sizes.document_tokens or _LENGTH

    def texts(self, documents: float) -> float:
        """Bytes of so many documents' texts in memory, or of all there are."""
        return min(self.sizes.documents, documents) * self.length * TEXT

    @property
    def again(self) -> int:
        """Forward passes' worth of a training step: checkpointing computes activations twice."""
        return TRAINING + (1 if self.params.gradient_checkpointing else 0)

    def encode(self, queries: float, passages: float) -> tuple[float, float]:
        """(amount, flops) of the retriever reading texts: at full length, and at the mean one."""
        if not self.tower.layers:
            return queries + passages, 0.0
        longest = self.model.query_max_len, self.model.passage_max_len
        both = zip((queries, passages), longest, self._mean(*longest), strict=True)
        of_queries, of_passages = (self.tower.passes(*texts) for texts in both)
        return of_queries[0] + of_passages[0], of_queries[1] + of_passages[1]

    def judge(self, pairs: float, encoder: Any) -> tuple[float, float]:
        """(amount, flops) of a cross-encoder of these settings reading pairs."""
        mean = min(encoder.max_len, sum(self._mean(self.model.query_max_len, self.model.passage_max_len)))
        return encoder_shape(encoder.weights, getattr(encoder, "layers", None)).passes(pairs, encoder.max_len, mean)

    def read(self, windows: float) -> tuple[float, float]:
        """(amount, flops) of the reader reading windows."""
        reader = self.reader
        mean = min(reader.max_len, sum(self._mean(reader.question_max_len, reader.max_len)))
        return encoder_shape(reader.weights, reader.layers).passes(windows, reader.max_len, mean)

    def _mean(self, query: int, document: int) -> tuple[int, int]:
        """Mean tokens of a query and of a document, at most these."""
        return min(query, self.sizes.query_tokens or query), min(document, self.sizes.document_tokens or document)
