"""Corruption put in on purpose, a file each: which training pairs become wrong, and which documents they get.

No tables: what counts as relevant, and so is never given as a wrong document, is decided by the stage corrupt.
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


@dataclass(frozen=True)
class PairsToCorrupt(ChosenPairs):
    """All training pairs, by row, and what may be known of them; what is a function is read when called.

    source: a number for where each pair came from, from 0; -1 where the data does not say.
    questions: the text of each pair's query.
    holds_answer(row, text): whether a text holds an answer to that pair's query; never where the data has no answers.
    is_there(text): whether the collection has a document of these words, however they are spaced.
    rng: a generator for a purpose.  work: a folder for what has to lie somewhere meanwhile.
    """

    source: Int[np.ndarray, " pair"]
    questions: Callable[[], list[str]]
    holds_answer: Callable[[int, str], bool]
    is_there: Callable[[str], bool]
    rng: Callable[[str], np.random.Generator]
    work: Path

    def of(self, rows: Int[np.ndarray, " noisy"]) -> ChosenPairs:
        """These pairs alone."""
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
    """The corrupted training pairs.

    rows: of those that are wrong now, ascending; documents: the number of each one's wrong document.
    texts: where its wrong document is a new one, made of its own: the text of that; then `documents` is empty.
    leaving: numbers of right documents that leave the collection, where nothing else needs them; None where the kind
    takes none away.
    """

    rows: Int[np.ndarray, " noisy"]
    documents: Int[np.ndarray, " noisy"] = field(default_factory=lambda: np.empty(0, np.int64))
    texts: Sequence[str] = ()
    leaving: Int[np.ndarray, " leaving"] | None = None


class Corruption(Variant):
    """Wrong labels put in on purpose, with the truth kept apart for scoring.

    needs_vectors, needs_queries: whether it looks at the documents' vectors, at the queries' texts.
    changes_corpus: whether the collection is another one afterwards; else what is made of it serves all seeds.
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
        """Exactly round(rate * pairs) wrong pairs: those that `choose` takes, with the documents that `replace` draws.

        A kind that cannot choose pairs without a look at their texts or documents does both here.
        """
        rows = self.choose(given.source, given.rng("pairs"))
        return Spoilt(rows, self.replace(given.of(rows), given.rng("documents")))

    def choose(self, source: Int[np.ndarray, " pair"], rng: np.random.Generator) -> Int[np.ndarray, " noisy"]:
        """Ascending row numbers of exactly round(rate * pairs) of the training pairs.

        source: a number for where each pair came from, from 0; -1 where the data does not say.
        """
        return choose_pairs(len(source), self.rate, rng)

    def replace(self, chosen: ChosenPairs, rng: np.random.Generator) -> Int[np.ndarray, " noisy"]:
        """The number of a wrong document for each chosen pair; one query never gets the same document twice."""
        raise NotImplementedError


def nothing_left(pool: int) -> DataError:
    """The error where all the pool is relevant to a query."""
    return DataError("corruption.query_no_wrong_document", pool=pool)


class Mismatches:
    """Documents that are wrong for a pair and new to its query, while documents are being drawn."""

    def __init__(self, chosen: ChosenPairs) -> None:
        self._chosen, self._pool = chosen, len(chosen.texts)
        self._query = chosen.query.astype(np.int64)  # query * pool overflows 32 bits
        known = chosen.known
        self._taken = set((known[:, 0].astype(np.int64) * self._pool + known[:, 1]).tolist())
        self._taken.update((self._query * self._pool + chosen.document).tolist())

    def first(self, row: int, blocks: Iterable[Int[np.ndarray, " block"]], wanted: int) -> list[int]:
        """The first `wanted` wrong documents, or somewhat more, of these for the pair of this row; fewer if need be."""
        wrong: list[int] = []
        for block in blocks:
            free = block[[key not in self._taken for key in (self._query[row] * self._pool + block).tolist()]]
            wrong += free[~self._chosen.is_relevant(np.full(len(free), row), free)].tolist()
            if len(wrong) >= wanted:
                break
        return wrong

    def draw(self, row: int, wrong: list[int], depth: int, rng: np.random.Generator) -> int:
        """One of the first `depth` of these wrong documents, which its query does not get again."""
        drawn = wrong[rng.integers(min(len(wrong), depth))]
        self._taken.add(int(self._query[row] * self._pool + drawn))
        return drawn


def in_turn(
    noise: Corruption, pairs: int, rng: np.random.Generator, spoilt: Callable[[int], T | None], need: str
) -> dict[int, T]:
    """`spoilt(row)` of exactly round(rate * pairs) pairs, by ascending row: the first that it can spoil.

    They come in a random order, and the next one where it gives None, so that the pairs are a uniform draw of those
    that can be spoilt.  DataError, with what such a pair needs and the highest rate possible, when they are too few.
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
            "corruption.noise_rate_cannot_reached",
            rate=noise.rate,
            noise=noise.kind,
            need=need,
            n_found=len(found),
            pairs=pairs,
            highest=highest,
        )
    return dict(sorted(found.items()))
