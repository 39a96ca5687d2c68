"""What a step's work is counted from: its settings, the size of the data, and the models behind it."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from noisyir.costs.nodes import Node, Sizes, ancestor
from noisyir.costs.shapes import TRAINING, Shape, encoder_shape, retriever_shape
from noisyir.models.settings import InitModelParams

FLOAT = 4  # bytes
TEXT = 5  # bytes of text a token stands for, as English has it
ROW = 40  # bytes of a row of ids and a score, as it is stored
_LENGTH = 128  # tokens of a document, where neither data nor model tell


@dataclass(frozen=True)
class Work:
    """What one step does.

    rows: what a person counts of it, in `unit`; amount: what its time is in proportion to;
    flops: of models and matrix products, at the texts' mean lengths;
    vectors: bytes of vectors or index; ram, disk: bytes it holds at once, and leaves in the store.
    """

    rows: float
    unit: str
    amount: float
    flops: float = 0.0
    vectors: float = 0.0
    ram: float = 0.0
    disk: float = 0.0


@dataclass(frozen=True)
class Scene:
    """A node with the data and the models that stand behind it."""

    node: Node
    sizes: Sizes

    @property
    def params(self) -> Any:
        """The stage's settings."""
        return self.node.params

    @cached_property
    def model(self) -> InitModelParams:
        """The settings of the retriever."""
        found = ancestor(self.node, "init_model")
        return found.params if found and isinstance(found.params, InitModelParams) else InitModelParams()

    @cached_property
    def tower(self) -> Shape:
        """The shape of one of the retriever's towers."""
        return retriever_shape(self.model)

    @cached_property
    def ranker(self) -> Any:
        """The settings of the ranker."""
        found = ancestor(self.node, "init_ranker")
        return found.params if found else None

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

    def read(self, queries: float, passages: float) -> tuple[float, float]:
        """(amount, flops) of the retriever reading texts: at full length, and at the mean one."""
        if not self.tower.layers:
            return queries + passages, 0.0
        longest, mean = (self.model.query_max_len, self.model.passage_max_len), self._mean()
        amount, flops = (
            self.tower.forward(queries, of_query) + self.tower.forward(passages, of_passage)
            for of_query, of_passage in (longest, mean)
        )
        return amount, flops

    def judge(self, pairs: float, weights: str | None, layers: int | None, max_len: int) -> tuple[float, float]:
        """(amount, flops) of a cross-encoder reading pairs."""
        shape, mean = encoder_shape(weights, layers), min(max_len, sum(self._mean()))
        return shape.forward(pairs, max_len), shape.forward(pairs, mean)

    def rank(self, pairs: float) -> tuple[float, float]:
        """(amount, flops) of the ranker reading pairs."""
        return self.judge(pairs, self.ranker.weights, self.ranker.layers, self.ranker.max_len)

    def _mean(self) -> tuple[int, int]:
        model, sizes = self.model, self.sizes
        return (
            min(model.query_max_len, sizes.query_tokens or model.query_max_len),
            min(model.passage_max_len, sizes.document_tokens or model.passage_max_len),
        )

    @property
    def again(self) -> int:
        """Forward passes' worth of a training step: checkpointing computes activations twice."""
        return TRAINING + (1 if self.params.gradient_checkpointing else 0)

    @property
    def vector(self) -> int:
        """Bytes of one vector."""
        return self.tower.hidden * FLOAT
