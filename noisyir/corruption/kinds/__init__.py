"""Deliberate corruption, a file a family: which training pairs become wrong, and which documents they get.

No tables here: the stage corrupt decides relevance, and so which documents are never wrong.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np
from jaxtyping import Bool, Int
from pydantic import Field

from noisyir.base.errors import DataError
from noisyir.base.settings import Fraction
from noisyir.base.variants import Variant
from noisyir.data.draws import choose_pairs

if TYPE_CHECKING:
    from noisyir.retrieval.texts import Vectors

T = TypeVar("T")
Judge = Callable[[Int[np.ndarray, " draw"], Int[np.ndarray, " draw"]], Bool[np.ndarray, " draw"]]


@dataclass(frozen=True)
class ChosenPairs:
    """The pairs that become wrong, and the pool of their wrong documents, which the training pairs name.

    query, document: Query number and true document number of each pair; documents index `texts`.
    known: (query, document) numbers of relevant documents.
    is_relevant: Whether a document is relevant, beyond `known`, to the query of a row.
    texts, vectors: The pool's; vectors are read when called.
    """

    query: Int[np.ndarray, " noisy"]
    document: Int[np.ndarray, " noisy"]
    known: Int[np.ndarray, "known 2"]
    is_relevant: Judge
    texts: list[str]
    vectors: "Callable[[], Vectors]"


@dataclass(frozen=True)
class PairsToCorrupt(ChosenPairs):
    """All training pairs, by row, with further knowledge, which functions read when called.

    source: Number of each pair's source, from 0; -1 if unknown.
    holds_answer(row, text): Whether a text answers the pair's query; never if the data has no answers.
    is_there(text): Whether the collection has a document with these words, however spaced.
    """

    source: Int[np.ndarray, " pair"]
    questions: Callable[[], list[str]]
    holds_answer: Callable[[int, str], bool]
    is_there: Callable[[str], bool]
    rng: Callable[[str], np.random.Generator]
    work: Path

    def of(self, rows: Int[np.ndarray, " noisy"]) -> ChosenPairs:
        """Select these pairs."""
        return ChosenPairs(
            query=self.query[rows],
            document=self.document[rows],
            known=self.known,
            is_relevant=lambda some, documents: self.is_relevant(rows[some], documents),
            texts=self.texts,
            vectors=self.vectors,
        )


@dataclass(frozen=True)
class Spoilt:
    """The corrupted training pairs: rows, ascending, with the numbers of their wrong documents.

    texts: New wrong documents' texts, if they are made of the right ones; then `documents` is empty.
    leaving: Right documents that leave the collection if nothing else needs them; None if the kind removes none.
    """

    rows: Int[np.ndarray, " noisy"]
    documents: Int[np.ndarray, " noisy"] = field(default_factory=lambda: np.empty(0, np.int64))
    texts: Sequence[str] = ()
    leaving: Int[np.ndarray, " leaving"] | None = None


class Corruption(Variant):
    """Wrong labels put in on purpose, with the truth kept apart for scoring.

    needs_vectors, needs_queries: Whether it reads the documents' vectors, the queries' texts.
    changes_corpus: Whether the collection changes; otherwise one result serves all seeds.
    """

    home: ClassVar[str] = __name__
    group: ClassVar[str | None] = "noisyir.corruptions"
    default: ClassVar[str | None] = "uniform"
    renamed: ClassVar[Mapping[str, str]] = {"mechanism": "kind"}
    needs_vectors: ClassVar[bool] = False
    needs_queries: ClassVar[bool] = False
    changes_corpus: ClassVar[bool] = False

    rate: Fraction = Field(0.0, description="share of training queries that get another document")

    def spoil(self, given: PairsToCorrupt) -> Spoilt:
        """Corrupt exactly round(rate * pairs) pairs: `choose` takes them, `replace` draws their documents.

        A kind that chooses pairs by their texts or documents overrides this.
        """
        rows = self.choose(given.source, given.rng("pairs"))
        return Spoilt(rows, self.replace(given.of(rows), given.rng("documents")))

    def choose(self, source: Int[np.ndarray, " pair"], rng: np.random.Generator) -> Int[np.ndarray, " noisy"]:
        """Draw ascending rows of exactly round(rate * pairs) pairs, given each pair's source number or -1."""
        return choose_pairs(len(source), self.rate, rng)

    def replace(self, chosen: ChosenPairs, rng: np.random.Generator) -> Int[np.ndarray, " noisy"]:
        """Draw a wrong document for each chosen pair; one query never gets the same document twice."""
        raise NotImplementedError


def nothing_left(pool: int) -> DataError:
    """Return the error about a query to which the whole pool is relevant."""
    return DataError("corruption.no_wrong_document", pool=pool)


class Mismatches:
    """Documents that are wrong for a pair and not yet drawn for its query."""

    def __init__(self, chosen: ChosenPairs) -> None:
        self._chosen, self._pool = chosen, len(chosen.texts)
        self._query = chosen.query.astype(np.int64)  # query * pool overflows 32 bits
        known = chosen.known
        self._taken = set((known[:, 0].astype(np.int64) * self._pool + known[:, 1]).tolist())
        self._taken.update((self._query * self._pool + chosen.document).tolist())

    def first(self, row: int, blocks: Iterable[Int[np.ndarray, " block"]], wanted: int) -> list[int]:
        """Return at least `wanted` wrong documents of these blocks for the row's pair, if there are as many."""
        wrong: list[int] = []
        for block in blocks:
            keys = (self._query[row] * self._pool + block).tolist()
            free = block[[key not in self._taken for key in keys]]
            wrong += free[~self._chosen.is_relevant(np.full(len(free), row), free)].tolist()
            if len(wrong) >= wanted:
                break
        return wrong

    def draw(self, row: int, wrong: list[int], depth: int, rng: np.random.Generator) -> int:
        """Draw one of the first `depth` wrong documents, which its query does not get again."""
        drawn = wrong[rng.integers(min(len(wrong), depth))]
        self._taken.add(int(self._query[row] * self._pool + drawn))
        return drawn


def in_turn(
    noise: Corruption, pairs: int, rng: np.random.Generator, spoilt: Callable[[int], T | None], need: str
) -> dict[int, T]:
    """Spoil exactly round(rate * pairs) pairs: in random order, the first for which `spoilt` gives something.

    The pairs, by ascending row, are a uniform draw of the spoilable ones.

    Raises:
        DataError: If they are too few; names the `need` and the highest possible rate.
    """
    wanted, found = round(noise.rate * pairs), dict[int, T]()
    for row in rng.permutation(pairs).tolist():
        if len(found) == wanted:
            break
        if (made := spoilt(row)) is not None:
            found[row] = made
    if len(found) < wanted:
        highest = np.floor(1e4 * len(found) / pairs) / 1e4
        raise DataError(
            "corruption.rate_too_high",
            rate=noise.rate,
            noise=noise.kind,
            need=need,
            able=len(found),
            pairs=pairs,
            highest=highest,
        )
    return dict(sorted(found.items()))
