"""Corruptions that give a query another document, a class each; no text changes."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int
from pydantic import Field, PositiveInt

from noisyir.base.errors import DataError
from noisyir.base.settings import Fraction
from noisyir.corruption.kinds import (
    ChosenPairs,
    Corruption,
    Judge,
    Mismatches,
    PairsToCorrupt,
    Spoilt,
    in_turn,
    nothing_left,
)
from noisyir.data.draws import is_among

if TYPE_CHECKING:
    from noisyir.retrieval.numpy_bm25 import NumpyBm25


_ROUNDS = 30  # of rejection, before the rest is drawn from a list
_DEPTH = 4  # neighbours looked up for each one wanted, as some turn out relevant
_TRIES = 30  # draws before a source's documents are listed; nearly every pair is done after two
_DIGITS = 10  # of ids in the index: numbers of equal length, so that both sort alike


class AnyDocument(Corruption, kind="uniform"):
    """Training pairs with any training pair's document."""

    def replace(self, chosen: ChosenPairs, rng: np.random.Generator) -> Int[np.ndarray, " noisy"]:
        """Draw uniformly over the wrong documents for the query."""
        return draw_mismatches(chosen, rng)


def draw_mismatches(chosen: ChosenPairs, rng: np.random.Generator) -> Int[np.ndarray, " noisy"]:
    """Draw a document for each pair, uniform over the pool's wrong ones for its query, never one twice.

    Raises a DataError about a query without a wrong document.
    Source: Zhang et al. (NPC), Findings of EMNLP 2023, section 4.1, "a random document"; the exclusions are ours.
    """
    pool, query = len(chosen.texts), chosen.query.astype(np.int64)  # query * pool overflows 32 bits
    taken = np.sort(chosen.known[:, 0].astype(np.int64) * pool + chosen.known[:, 1])
    drawn = np.full(len(query), -1, np.int64)
    missing = np.arange(len(query))
    for _ in range(_ROUNDS):  # rejection keeps the draw uniform; nearly all rows are done after two rounds
        documents = rng.integers(pool, size=len(missing))
        keys = query[missing] * pool + documents
        fits = np.zeros(len(missing), bool)
        fits[np.unique(keys, return_index=True)[1]] = True
        fits &= ~is_among(keys, taken)
        fits[fits] = ~chosen.is_relevant(missing[fits], documents[fits])
        drawn[missing[fits]] = documents[fits]
        taken = np.sort(np.concatenate([taken, keys[fits]]))
        missing = missing[~fits]
        if not len(missing):
            return drawn
    for row in missing:
        drawn[row] = _draw_from_rest(int(row), query, pool, taken, rng, chosen.is_relevant)
        taken = np.append(taken, query[row] * pool + drawn[row])
    return drawn


def _draw_from_rest(
    row: int,
    query: Int[np.ndarray, " noisy"],
    pool: int,
    taken: Int[np.ndarray, " taken"],
    rng: np.random.Generator,
    judge: Judge,
) -> int:
    """Draw uniformly from a list of the rest, for queries to which most of the pool is relevant."""
    rest = np.setdiff1d(query[row] * pool + np.arange(pool), taken) - query[row] * pool
    rest = rest[~judge(np.full(len(rest), row), rest)]
    if not len(rest):
        raise nothing_left(pool)
    return int(rng.choice(rest))


class Neighbour(Corruption, kind="neighbour"):
    """Training pairs with a document near their own."""

    needs_vectors: ClassVar[bool] = True
    neighbours: PositiveInt = Field(10, description="drawn among this many nearest documents")

    def replace(self, chosen: ChosenPairs, rng: np.random.Generator) -> Int[np.ndarray, " noisy"]:
        """Draw for each pair uniformly from the `neighbours` nearest documents that are wrong for it.

        Near is a great inner product; exclusions are those in `draw_mismatches`, and the own document.  If fewer
        wrong documents exist, it draws among them.
        """
        document, vectors, mismatches = chosen.document, chosen.vectors(), Mismatches(chosen)
        distinct, place = np.unique(document, return_inverse=True)
        ranked = nearest(vectors, distinct, min(_DEPTH * self.neighbours, len(vectors)))
        drawn = np.empty(len(document), np.int64)
        for row in range(len(document)):
            near = _outwards(ranked[place[row]], vectors, int(document[row]), self.neighbours)
            wrong = mismatches.first(row, near, self.neighbours)
            if not wrong:
                raise nothing_left(len(vectors))
            drawn[row] = mismatches.draw(row, wrong, self.neighbours, rng)
        return drawn


def nearest(
    vectors: Float[np.ndarray, "pool dim"], of: Int[np.ndarray, " document"], depth: int
) -> Int[np.ndarray, "document depth"]:
    """Return the documents with the greatest inner product with each of these, best first; exact, by FAISS.

    A document may be its own neighbour.  Equal products are in the order of numbers, but FAISS chooses at the cut.
    """
    import faiss

    products, numbers = faiss.knn(vectors[of], vectors, depth, metric=faiss.METRIC_INNER_PRODUCT)
    best_first: Int[np.ndarray, "document depth"] = np.take_along_axis(
        numbers, np.lexsort((numbers, -products)), axis=1
    )
    return best_first


def _outwards(
    ranked: Int[np.ndarray, " depth"], vectors: Float[np.ndarray, "pool dim"], document: int, size: int
) -> Iterator[Int[np.ndarray, " block"]]:
    """Yield the whole pool from the nearest document outwards, in blocks, searching beyond `ranked` on demand."""
    yield from np.split(ranked, range(size, len(ranked), size))
    if len(ranked) < len(vectors):
        everything = nearest(vectors, np.array([document]), len(vectors))[0]
        rest = everything[~np.isin(everything, ranked)]
        yield from np.split(rest, range(size, len(rest), size))


class SameSource(Corruption, kind="same_source"):
    """Training pairs that have a source, with another document of that source."""

    def spoil(self, given: PairsToCorrupt) -> Spoilt:
        """Give each pair a uniform draw of the documents that pairs of its source have and that are wrong for it.

        Pairs without such a document are skipped.
        Source: ours, after a frequent fault in collected pairs: the right page, the wrong passage of it.
        """
        if not (given.source >= 0).any():
            raise DataError("corruption.no_sources", noise=self.kind)
        shelf = np.unique(np.stack([given.source, given.document], axis=1), axis=0)
        starts = np.searchsorted(shelf[:, 0], np.arange(shelf[-1, 0] + 2))
        mismatches, rng = Mismatches(given), given.rng("documents")

        def other_of_source(row: int) -> int | None:
            source = given.source[row]
            if source < 0:
                return None
            there = shelf[starts[source] : starts[source + 1], 1]
            for number in rng.integers(len(there), size=_TRIES):  # a source may hold the whole data
                if wrong := mismatches.first(row, [there[number : number + 1]], 1):
                    return mismatches.draw(row, wrong, 1, rng)
            wrong = mismatches.first(row, [there], len(there))
            return mismatches.draw(row, wrong, len(wrong), rng) if wrong else None

        need = "a source with another document, which is wrong for the query"
        found = in_turn(self, len(given.query), given.rng("pairs"), other_of_source, need)
        return Spoilt(np.array(list(found), np.int64), np.array(list(found.values()), np.int64))


class Confusable(Corruption, kind="confusable"):
    """Training pairs with a document that BM25 ranks high for their query."""

    needs_queries: ClassVar[bool] = True
    depth: PositiveInt = Field(10, description="drawn among this many best wrong documents by BM25")

    def spoil(self, given: PairsToCorrupt) -> Spoilt:
        """Give each pair a uniform draw of the `depth` wrong documents that BM25 ranks highest.

        BM25 has Anserini's defaults, over the training pairs' documents; pairs without such a document are skipped.
        Source: the negatives of Karpukhin et al. (DPR), EMNLP 2020, section 3.2, taken as positives.
        """
        bm25 = _index(given.texts, given.work)
        questions, mismatches, rng = given.questions(), Mismatches(given), given.rng("documents")

        def high_in_rank(row: int) -> int | None:
            wrong = mismatches.first(row, best_first(bm25, questions[row], self.depth), self.depth)
            return mismatches.draw(row, wrong, self.depth, rng) if wrong else None

        need = "a query that shares a word with a document that is wrong for it"
        found = in_turn(self, len(given.query), given.rng("pairs"), high_in_rank, need)
        return Spoilt(np.array(list(found), np.int64), np.array(list(found.values()), np.int64))


def _index(texts: list[str], work: Path) -> "NumpyBm25":
    from noisyir.retrieval.numpy_bm25 import NumpyBm25, build
    from noisyir.retrieval.settings import Bm25Params

    names = [f"{number:0{_DIGITS}d}" for number in range(len(texts))]
    columns = {"doc_id": names, "title": [""] * len(texts), "text": texts}
    pool = pa.table(columns, pa.schema([(name, pa.string()) for name in columns]))
    params = Bm25Params()
    with TemporaryDirectory(dir=work) as folder:
        build(pool.to_batches(), Path(folder) / "pool")
        return NumpyBm25(Path(folder) / "pool", k1=params.k1, b=params.b)


def best_first(bm25: "NumpyBm25", question: str, size: int) -> Iterator[Int[np.ndarray, " block"]]:
    """Yield blocks of documents that share a word with the question, best first, equal ones by number."""
    if (scores := bm25.scores(question)) is None:
        return
    left = np.flatnonzero(scores)
    while len(left):  # sorting them all would take longer than scoring them
        least = np.partition(scores[left], -size)[-size] if len(left) > size else 0.0
        best = left[scores[left] >= least]
        yield best[np.argsort(-scores[best], kind="stable")]
        left, size = left[scores[left] < least], 4 * size


class Absent(Corruption, kind="absent"):
    """Documents that leave the collection while all their training pairs get another one."""

    changes_corpus: ClassVar[bool] = True

    def spoil(self, given: PairsToCorrupt) -> Spoilt:
        """Corrupt exactly round(rate * pairs) pairs, document by document in random order.

        The last document may keep some pairs, and then stays.  Wrong documents are uniform over those left.
        """
        rows, leaving = self._by_document(given)

        def is_no_wrong_document(
            some: Int[np.ndarray, " draw"], drawn: Int[np.ndarray, " draw"]
        ) -> Bool[np.ndarray, " draw"]:
            relevant: Bool[np.ndarray, " draw"] = leaving[drawn] | given.is_relevant(rows[some], drawn)
            return relevant

        chosen = replace(given.of(rows), is_relevant=is_no_wrong_document)
        drawn = draw_mismatches(chosen, given.rng("documents"))
        return Spoilt(rows, drawn, leaving=np.flatnonzero(leaving))

    def _by_document(self, given: PairsToCorrupt) -> tuple[Int[np.ndarray, " noisy"], Bool[np.ndarray, " pool"]]:
        """Return the pairs' rows, and the documents without other pairs."""
        rng, document, pool = given.rng("pairs"), given.document, len(given.texts)
        place = rng.permutation(pool)
        rows = np.lexsort((rng.random(len(document)), place[document]))[: round(self.rate * len(document))]
        left = np.bincount(document, minlength=pool) - np.bincount(document[rows], minlength=pool)
        leaving = np.zeros(pool, bool)
        leaving[document[rows]] = True
        return np.sort(rows), leaving & (left == 0)


class Group(Corruption, kind="group"):
    """Pairs of some sources, with any training pair's document."""

    group_rate: Fraction = Field(0.8, description="the share replaced within the noisy groups")

    def choose(self, source: Int[np.ndarray, " pair"], rng: np.random.Generator) -> Int[np.ndarray, " noisy"]:
        """Draw ascending rows of exactly round(rate * pairs) pairs, all of randomly drawn sources.

        Each drawn source has the share `group_rate` of its pairs chosen, the last one the rest.

        Raises:
            DataError: If no pair has a source, or all sources hold too few pairs.
        """
        wanted = round(self.rate * len(source))
        sizes = np.bincount(source[source >= 0])
        if wanted and not len(sizes):
            raise DataError("corruption.no_sources", noise=self.kind)
        order = rng.permutation(len(sizes))
        upto = np.cumsum(sizes[order])  # pairs of this source and those before it
        reached = np.rint(self.group_rate * upto).astype(np.int64)
        if wanted and reached[-1] < wanted:
            highest = np.floor(1e4 * reached[-1] / len(source)) / 1e4
            raise DataError(
                "corruption.rate_too_high_for_groups",
                rate=self.rate,
                group_rate=self.group_rate,
                sourced=sizes.sum(),
                pairs=len(source),
                highest=highest,
            )
        quotas = np.diff(np.minimum(reached, wanted), prepend=0)
        chosen = [
            rng.choice(np.flatnonzero(source == number), size=quota, replace=False)
            for number, quota in zip(order, quotas, strict=True)
            if quota
        ]
        return np.sort(np.concatenate([np.empty(0, np.int64), *chosen]))

    def replace(self, chosen: ChosenPairs, rng: np.random.Generator) -> Int[np.ndarray, " noisy"]:
        """Draw uniformly over the wrong documents for the query."""
        return draw_mismatches(chosen, rng)
