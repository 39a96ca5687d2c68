"""Noise put in on purpose, a file each: which training pairs become wrong, and which documents they get.

No tables: what counts as relevant, and so is never given as a wrong document, is decided by the stage corrupt.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from jaxtyping import Bool, Int
from pydantic import Field

from noisyir.data.draws import choose_pairs
from noisyir.errors import DataError
from noisyir.settings import Fraction
from noisyir.variants import Variant

if TYPE_CHECKING:
    from noisyir.retrieval.vectors import Vectors

Judge = Callable[[Int[np.ndarray, " draw"], Int[np.ndarray, " draw"]], Bool[np.ndarray, " draw"]]


@dataclass(frozen=True)
class ChosenPairs:
    """The pairs that become wrong, and the pool that their wrong documents come from: those of the training pairs.

    query, document: query number and true document number of each chosen pair; documents are numbers below len(texts).
    known: (query, document) numbers of relevant documents.
    is_relevant(rows, documents): whether, beyond `known`, a document is relevant to the query of that row of `query`.
    texts: of the pool's documents; vectors: theirs, read when called.
    """

    query: Int[np.ndarray, " noisy"]
    document: Int[np.ndarray, " noisy"]
    known: Int[np.ndarray, "known 2"]
    is_relevant: Judge
    texts: list[str]
    vectors: "Callable[[], Vectors]"


class Noise(Variant):
    """Wrong labels put in on purpose, with the truth kept apart for scoring.

    needs_vectors: whether it looks at the documents' vectors.
    """

    home: ClassVar[str] = __name__
    group: ClassVar[str | None] = "noisyir.noise"
    default: ClassVar[str | None] = "uniform"
    renamed: ClassVar[Mapping[str, str]] = {"mechanism": "kind"}
    needs_vectors: ClassVar[bool] = False

    rate: Fraction = Field(0.0, description="share of training queries whose document is replaced")

    def choose(self, source: Int[np.ndarray, " pair"], rng: np.random.Generator) -> Int[np.ndarray, " noisy"]:
        """Ascending row numbers of exactly round(rate * pairs) of the training pairs.

        source: a number for where each pair came from, from 0; -1 where the data does not say.
        """
        return choose_pairs(len(source), self.rate, rng)

    def replace(self, chosen: ChosenPairs, rng: np.random.Generator) -> Int[np.ndarray, " noisy"]:
        """The number of a wrong document for each chosen pair; one query never gets the same document twice."""
        raise NotImplementedError


def nothing_left(pool: int) -> DataError:
    """What is raised where all the pool is relevant to a query."""
    return DataError(
        f"a query has no wrong document left among the {pool} that the training pairs have: lower noise.rate"
    )
