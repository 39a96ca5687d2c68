"""Pairs against all documents by vectors and words: better-fitting documents, and the fit of each null's documents."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from jaxtyping import Float, Float32, Int

from noisyir.detection.lexical import WordOverlap, bm25_share
from noisyir.detection.null import Positions, distinct, leading
from noisyir.detection.settings import NULLS, Null
from noisyir.engine.prefetch import prefetched

Array = np.ndarray

_CELLS = 2**23  # (pair, document) cells processed together
_FEWEST = 512  # minimum pairs per block, however many documents there are
_EXACT = 50_000  # vectors up to which search is exact
_COMPARED = 4  # beyond that, exact comparisons per requested document
_TEXTS = 20_000  # maximum queries searched for a document's neighbours
_ROUNDING = 1e-6  # relative: closer fits are ties
_COLUMNS = ("own", "rank", "others", "fits", "bm25", "best")
Documents = Int[Array, "pair some"]
Value = Callable[[Documents], Float[Array, "pair some"]]
NEAREST = 10  # neighbours that CSLS averages over, as in its source
_VECTORS_AT_ONCE = 2**16


@dataclass(frozen=True)
class SearchSizes:
    """Sizes of the search.

    Attributes:
        depth: Nearest documents by vectors; with some by words, the pool of the best others.
        keep: Best others kept.
        neighbours: Documents of the nulls near and lexical.
        draws: Documents of the null source.
    """

    depth: int
    keep: int
    neighbours: int
    draws: int


@dataclass(frozen=True)
class PairFits:
    """Each pair's fit of its own document, of the best others, best first, and of each null's documents.

    Attributes:
        rank: As in `Competitors`, among the documents examined.
        others: Best other documents; -1 if there are no more.
        nulls: Fits of each null's documents; NaN for none.
        bm25: BM25 of the pair's own document.
        best: Highest BM25 of all documents.
    """

    own: Float32[Array, " pair"]
    rank: Int[Array, " pair"]
    others: Int[Array, "pair keep"]
    fits: Float32[Array, "pair keep"]
    nulls: Mapping[Null, Float32[Array, "pair draw"]]
    bm25: Float32[Array, " pair"]
    best: Float32[Array, " pair"]


@dataclass(frozen=True)
class FeatureBlock:
    """Some pairs, with the features of their queries against all documents.

    Attributes:
        texts: The distinct queries.
        place: Each pair's row of its query in the attributes below.
        words: Terms of all texts and documents.
        worded: Documents of the highest BM25, best first.
        hits: The nearest documents; -1 for documents that pairs name.
        ranked: The nearest documents, named by pairs or not.
        near_text: Each document's mean similarity to its nearest queries; None if not requested.
    """

    pairs: Int[Array, " pair"]
    texts: Int[Array, " text"]
    place: Int[Array, " pair"]
    queries: Float32[Array, "text dim"]
    documents: Float32[Array, "document dim"]
    words: WordOverlap
    worded: Int[Array, "text hit"]
    best: Float32[Array, " text"]
    hits: Int[Array, "text hit"]
    similarities: Float32[Array, "text hit"]
    ranked: Int[Array, "text hit"]
    near_text: Float32[Array, " document"] | None = None

    def cosines(self, documents: Documents) -> Float32[Array, "pair some"]:
        """Similarity of each pair's query to these documents."""
        found = np.empty(documents.shape, np.float32)
        step = max(1, _VECTORS_AT_ONCE // max(1, documents.shape[1]))
        for start in range(0, len(documents), step):
            rows = slice(start, start + step)
            asked = self.queries[self.place[rows]]
            found[rows] = np.matmul(self.documents[documents[rows]], asked[:, :, None])[:, :, 0]
        return found

    def shares(self, documents: Documents) -> Float32[Array, "pair some"]:
        """`bm25_share` of these documents."""
        return bm25_share(self.words.bm25(self.texts[self.place], documents), self.best[self.place])

    def nearness(self) -> Float32[Array, " pair"]:
        """Each query's mean similarity to the nearest documents that no pair names for it; 0 if there are none."""
        there = self.hits >= 0
        there &= np.cumsum(there, axis=1) <= NEAREST
        mean = np.where(there, self.similarities, 0.0).sum(axis=1) / np.maximum(there.sum(axis=1), 1)
        nearness: Float32[Array, " pair"] = mean[self.place].astype(np.float32)
        return nearness


@dataclass(frozen=True)
class Searcher:
    """Search over all documents, some pairs at a time.

    A pair costs the documents that share a word with its query and those near it, without a dense pass over all.

    Attributes:
        static: Whether blocks include the inputs of a static fit.
    """

    positions: Positions
    words: WordOverlap
    queries: Float32[Array, "text dim"]
    documents: Float32[Array, "document dim"]
    sought: SearchSizes
    static: bool

    @cached_property
    def index(self) -> Any:
        """Inner-product index of the documents."""
        return vector_index(self.documents)

    @cached_property
    def near_text(self) -> Float32[Array, " document"] | None:
        """Each document's mean similarity to its ten nearest queries, out of at most 20,000; None if not static."""
        if not self.static:
            return None
        asked = self.queries[np.linspace(0, len(self.queries) - 1, min(_TEXTS, len(self.queries))).astype(np.int64)]
        found = vector_index(asked).search(self.documents, min(NEAREST, len(asked)))[0]
        mean: Float32[Array, " document"] = found.mean(axis=1)
        return mean

    def beside(self, documents: Int[Array, " pair"]) -> Int[Array, "pair hit"]:
        """The nearest documents of each document, each searched once; all -1 for a document -1."""
        asked = np.unique(documents[documents >= 0])
        new = asked[self._beside[asked, 0] == 0]
        if len(new):
            self._beside[new] = self.index.search(self.documents[new], self._beside.shape[1])[1] + 1
        return np.where((documents >= 0)[:, None], self._beside[np.maximum(documents, 0)] - 1, -1)

    @cached_property
    def _beside(self) -> Int[Array, "document hit"]:
        """One plus the rows of each document's nearest documents; 0 if not yet searched: no memory page is held."""
        reach = min(self.sought.neighbours + 1 + self.positions.most_known, len(self.documents))
        return np.zeros((len(self.documents), reach), np.int32)

    def block(self, pairs: Int[Array, " pair"]) -> FeatureBlock:
        """Compute the features of these pairs' queries against all documents."""
        texts, place = np.unique(self.positions.text[pairs], return_inverse=True)
        reach = min(self.sought.depth + self.positions.most_known, len(self.documents))
        worded, scores = self.words.best(texts, self.sought.neighbours + 1 + self.positions.most_known)
        similarities, ranked = self.index.search(self.queries[texts], reach)
        return FeatureBlock(
            pairs=pairs, texts=texts, place=place, queries=self.queries[texts], documents=self.documents,
            words=self.words, worded=worded, best=scores[:, 0], hits=self.positions.unnamed(texts, ranked),
            similarities=similarities, ranked=ranked, near_text=self.near_text,
        )  # fmt: skip

    def blocks(self, pairs: Int[Array, " pair"]) -> Iterator[FeatureBlock]:
        """Yield blocks of these pairs, small enough to bound memory."""
        return map(self.block, self._cut(pairs))

    def parts(self) -> list[Int[Array, " pair"]]:
        """Yield the numbers of all pairs in blocks; pairs of one query text are consecutive."""
        return self._cut(np.argsort(self.positions.text, kind="stable"))

    def _cut(self, pairs: Int[Array, " pair"]) -> list[Int[Array, " pair"]]:
        step = max(_FEWEST, _CELLS // max(1, len(self.documents)))
        return [pairs[start : start + step] for start in range(0, len(pairs), step)]


class Fit(Protocol):
    """A single number for how well documents fit the queries of some pairs: higher is better."""

    def of(self, block: FeatureBlock) -> Value:
        """Return the function from documents to their fit, for the pairs of a block."""


def search(
    searcher: Searcher,
    fit: Fit,
    random: Int[Array, "pair draw"],
    sought: SearchSizes,
    rng: Callable[[int], np.random.Generator],
    progress: Callable[[int, int], None],
) -> PairFits:
    """Find the best others of every pair, and the fit of documents drawn from every null.

    Args:
        random: Documents drawn for each pair; -1 for none.
        rng: Returns the generator of a block's number.
    """
    import faiss

    columns, done, threads = dict[str, Array](), 0, torch.get_num_threads()

    def looked_at(pairs: Int[Array, " pair"]) -> _LookedAt:
        block = searcher.block(pairs)
        value = fit.of(block)
        return _LookedAt(block, value, _others(searcher.positions, value, block, sought))

    def with_nulls(numbered: tuple[int, tuple[_LookedAt, Documents]]) -> tuple[Array, PairFits]:
        number, (found, near) = numbered
        drawn = {"random": random[found.block.pairs], **_drawn(searcher, found, near, sought, rng(number))}
        nulls = {null: _fits(found.value, rows, np.nan) for null, rows in drawn.items()}
        return found.block.pairs, replace(found.fits, nulls=nulls)

    with ThreadPoolExecutor(
        threads, initializer=faiss.omp_set_num_threads, initargs=(1,)
    ) as pool:  # numpy releases the GIL
        found = prefetched(pool, looked_at, searcher.parts(), threads)
        beside = ((of, searcher.beside(of.fits.others[:, 0])) for of in found)  # in block order because it caches
        for pairs, part in prefetched(pool, with_nulls, enumerate(beside), threads):
            for name, values in [*((name, getattr(part, name)) for name in _COLUMNS), *part.nulls.items()]:
                room = columns.setdefault(name, np.empty((len(random), *values.shape[1:]), values.dtype))
                room[pairs] = values
            done += len(pairs)
            progress(done, len(random))
    return PairFits(nulls={null: columns.pop(null) for null in NULLS if null in columns}, **columns)


class _LookedAt(NamedTuple):
    """A block, the fit of documents to its pairs, and the results that do not involve the nulls."""

    block: FeatureBlock
    value: Value
    fits: PairFits


def _others(positions: Positions, value: Value, block: FeatureBlock, sought: SearchSizes) -> PairFits:
    """Each pair's own document and best others, without nulls."""
    text, own = positions.text[block.pairs], positions.own[block.pairs]
    looked_at = np.concatenate([block.ranked[block.place], block.worded[block.place]], axis=1)
    looked_at = positions.unnamed(text, looked_at, positions.itself)
    candidates = distinct(looked_at)
    fits = _fits(value, candidates, -np.inf)
    mine = value(own[:, None])[:, 0]
    ahead = (fits >= (mine - _ROUNDING * np.maximum(1.0, np.abs(mine)))[:, None]).sum(axis=1)
    others, theirs = _best(positions.unnamed(text, candidates), fits, sought.keep)
    return PairFits(
        own=mine.astype(np.float32),
        rank=np.where((looked_at == own[:, None]).any(axis=1), np.maximum(ahead, 1), 0),
        others=others,
        fits=theirs,
        nulls={},
        bm25=block.words.bm25(text, own[:, None])[:, 0],
        best=block.best[block.place],
    )


def _drawn(
    searcher: Searcher, found: _LookedAt, near: Documents, sought: SearchSizes, rng: np.random.Generator
) -> dict[Null, Documents]:
    """Draw null documents around the best other one, excluding it and all documents named by pairs."""
    positions, block, best = searcher.positions, found.block, found.fits.others[:, 0]
    drawn: dict[Null, Array] = {"near": near, "lexical": block.worded[block.place]}
    if (positions.source >= 0).any():
        drawn["source"] = positions.of_source(best, sought.draws, rng)
    counts, text = {"source": sought.draws}, positions.text[block.pairs]
    return {
        null: leading(
            np.where(rows == best[:, None], -1, positions.unnamed(text, rows)), counts.get(null, sought.neighbours)
        )
        for null, rows in drawn.items()
    }


def _fits(fit_of: Callable[[Array], Array], documents: Array, absent: float) -> Float32[Array, "pair some"]:
    return np.where(documents >= 0, fit_of(np.maximum(documents, 0)), absent).astype(np.float32)


def _best(documents: Array, fits: Array, keep: int) -> tuple[Array, Array]:
    """Best-fitting documents and their fit; -1 and 0 if there are fewer, or if a document is -1."""
    fits = np.where(documents >= 0, fits, -np.inf)
    order = np.argsort(-fits, axis=1, kind="stable")[:, :keep]
    documents, fits = np.take_along_axis(documents, order, axis=1), np.take_along_axis(fits, order, axis=1)
    return np.where(np.isfinite(fits), documents, -1), np.where(np.isfinite(fits), fits, 0.0).astype(np.float32)


def vector_index(vectors: Float32[Array, "row dim"]) -> Any:
    """Build an inner-product index: exact up to 50,000 vectors; beyond, it searches a sixteenth of 4 sqrt(n) cells.

    In those cells, 4-bit codes for two coordinates each preselect four times the requested number, which are then
    compared exactly.

    Source: André et al., VLDB 2015 (scan of quantised products in registers), as implemented in FAISS.
    """
    import faiss

    size, dim = vectors.shape
    if size <= _EXACT:
        index: Any = faiss.IndexFlatIP(dim)
    else:
        cells, parts = int(4 * np.sqrt(size)), dim if dim % 2 else dim // 2
        index = faiss.index_factory(dim, f"IVF{cells},PQ{parts}x4fs,RFlat", faiss.METRIC_INNER_PRODUCT)
        index.k_factor = _COMPARED
        faiss.extract_index_ivf(faiss.downcast_index(index.base_index)).nprobe = max(1, cells // 16)
        index.train(vectors[:: max(1, size // (cells * 40))])
    index.add(vectors)
    return index
