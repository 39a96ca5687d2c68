"""Pairs against all documents, by vectors and words together: what fits better, and how documents of each null fit."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float32, Int

from noisyir.detection.fit import NEAREST, Block, Fit
from noisyir.detection.lexical import Words
from noisyir.detection.null import Null
from noisyir.detection.positions import Positions, best_places, distinct, leading

Array = np.ndarray

_CELLS = 2**23  # of (query, document) at once: 32 MiB in each of a few arrays
_EXACT = 50_000  # vectors up to which all are compared
_TEXTS = 20_000  # at most so many queries stand for all as a document's neighbours
_ROUNDING = 1e-6  # relative: fits so close are a tie


@dataclass(frozen=True)
class Sought:
    """How much is looked for.

    depth: the nearest documents by vectors, beside some by words: among these are the best others.
    keep: best others kept.  neighbours: documents of the nulls near and lexical; draws: of the null source.
    """

    depth: int
    keep: int
    neighbours: int
    draws: int


@dataclass(frozen=True)
class Found:
    """Of each pair the fit of its own document, of the best others, best first, and of those of each null.

    rank: as in `Competitors`, among the documents looked at.  others: -1 where there are no more.
    nulls: NaN where there is no document.  bm25, best: of its own document, and of the best of all.
    """

    own: Float32[Array, " pair"]
    rank: Int[Array, " pair"]
    others: Int[Array, "pair keep"]
    fits: Float32[Array, "pair keep"]
    nulls: Mapping[Null, Float32[Array, "pair draw"]]
    bm25: Float32[Array, " pair"]
    best: Float32[Array, " pair"]


_COLUMNS = ("own", "rank", "others", "fits", "bm25", "best")


@dataclass(frozen=True)
class Searcher:
    """Looks at all documents for some pairs at a time.

    queries, documents: vectors of all texts and documents.  static: whether blocks tell what a static fit needs.
    """

    positions: Positions
    words: Words
    queries: Float32[Array, "text dim"]
    documents: Float32[Array, "document dim"]
    depth: int
    static: bool

    @cached_property
    def index(self) -> Any:
        """The documents, to be searched by inner product."""
        return vector_index(self.documents)

    @cached_property
    def near_text(self) -> Float32[Array, " document"] | None:
        """For each document its mean similarity to the ten nearest queries, of 20,000 at most."""
        if not self.static:
            return None
        asked = self.queries[np.linspace(0, len(self.queries) - 1, min(_TEXTS, len(self.queries))).astype(np.int64)]
        found = vector_index(asked).search(self.documents, min(NEAREST, len(asked)))[0]
        mean: Float32[Array, " document"] = found.mean(axis=1)
        return mean

    def block(self, pairs: Int[Array, " pair"]) -> Block:
        """What is known of these pairs' queries and all documents."""
        texts, place = np.unique(self.positions.text[pairs], return_inverse=True)
        reach = min(self.depth + self.positions.most_known, len(self.documents))
        similarities, ranked = self.index.search(self.queries[texts], reach)
        return Block(
            pairs=pairs,
            texts=texts,
            place=place,
            queries=self.queries[texts],
            documents=self.documents,
            bm25=self.words.bm25(texts),
            overlap=self.words.overlap(texts) if self.static else None,
            hits=self.positions.unnamed(texts, ranked),
            similarities=similarities,
            ranked=ranked,
            near_text=self.near_text,
        )

    def blocks(self) -> Iterator[Block]:
        """All pairs, those of a query's text one after the other."""
        order = np.argsort(self.positions.text, kind="stable")
        step = max(16, _CELLS // max(1, len(self.documents)))
        for start in range(0, len(order), step):
            yield self.block(order[start : start + step])


def search(
    searcher: Searcher,
    fit: Fit,
    random: Int[Array, "pair draw"],
    sought: Sought,
    rng: Callable[[int], np.random.Generator],
    progress: Callable[[int, int], None],
) -> Found:
    """The best others of every pair, and the fit of documents drawn from every null.

    random: documents drawn for each pair, -1 where there is none; rng: a generator for a block's number.
    """
    parts: list[Found] = []
    order: list[Array] = []
    for number, block in enumerate(searcher.blocks()):
        parts.append(_look(searcher, fit.of(block), block, random[block.pairs], sought, rng(number)))
        order.append(block.pairs)
        progress(sum(map(len, order)), len(random))
    back = np.argsort(np.concatenate(order), kind="stable")
    columns = {name: np.concatenate([getattr(part, name) for part in parts])[back] for name in _COLUMNS}
    nulls = {null: np.concatenate([part.nulls[null] for part in parts])[back] for null in parts[0].nulls}
    return Found(**columns, nulls=nulls)


def _look(
    searcher: Searcher,
    fit_of: Callable[[Array], Array],
    block: Block,
    random: Int[Array, "pair draw"],
    sought: Sought,
    rng: np.random.Generator,
) -> Found:
    positions = searcher.positions
    text, own = positions.text[block.pairs], positions.own[block.pairs]
    worded = best_places(block.bm25, sought.neighbours + 1 + positions.most_known)[block.place]
    looked_at = np.concatenate([block.ranked[block.place], worded], axis=1)
    candidates = distinct(looked_at)
    fits = _fits(fit_of, candidates, -np.inf)
    mine = fit_of(own[:, None])[:, 0]
    ahead = (fits >= (mine - _ROUNDING * np.maximum(1.0, np.abs(mine)))[:, None]).sum(axis=1)
    others, theirs = _best(positions.unnamed(text, candidates), fits, sought.keep)
    drawn = _drawn(searcher, text, others[:, 0], worded, sought, rng)
    return Found(
        own=mine.astype(np.float32),
        rank=np.where((looked_at == own[:, None]).any(axis=1), ahead, 0),
        others=others,
        fits=theirs,
        nulls={null: _fits(fit_of, rows, np.nan) for null, rows in {"random": random, **drawn}.items()},
        bm25=block.bm25[block.place, own],
        best=block.bm25.max(axis=1)[block.place],
    )


def _drawn(
    searcher: Searcher,
    text: Int[Array, " pair"],
    best: Int[Array, " pair"],
    worded: Int[Array, "pair hit"],
    sought: Sought,
    rng: np.random.Generator,
) -> dict[Null, Int[Array, "pair draw"]]:
    """Documents of the nulls around the best other one, which is none of them, nor is what pairs name."""
    positions = searcher.positions
    drawn: dict[Null, Array] = {"near": _beside(searcher, best, sought.neighbours), "lexical": worded}
    if (positions.source >= 0).any():
        drawn["source"] = positions.of_source(best, sought.draws, rng)
    counts = {"source": sought.draws}
    return {
        null: leading(
            np.where(rows == best[:, None], -1, positions.unnamed(text, rows)), counts.get(null, sought.neighbours)
        )
        for null, rows in drawn.items()
    }


def _beside(searcher: Searcher, documents: Int[Array, " pair"], neighbours: int) -> Int[Array, "pair hit"]:
    """The documents nearest to each; all -1 for a document -1."""
    wanted, place = np.unique(documents, return_inverse=True)
    reach = min(neighbours + 1 + searcher.positions.most_known, len(searcher.documents))
    found = searcher.index.search(searcher.documents[np.maximum(wanted, 0)], reach)[1][place]
    return np.where((documents >= 0)[:, None], found, -1)


def _fits(fit_of: Callable[[Array], Array], documents: Array, absent: float) -> Float32[Array, "pair some"]:
    return np.where(documents >= 0, fit_of(np.maximum(documents, 0)), absent).astype(np.float32)


def _best(documents: Array, fits: Array, keep: int) -> tuple[Array, Array]:
    """The best-fitting documents and their fit; -1 and 0 where there are fewer, as where a document is -1."""
    fits = np.where(documents >= 0, fits, -np.inf)
    order = np.argsort(-fits, axis=1, kind="stable")[:, :keep]
    documents, fits = np.take_along_axis(documents, order, axis=1), np.take_along_axis(fits, order, axis=1)
    return np.where(np.isfinite(fits), documents, -1), np.where(np.isfinite(fits), fits, 0.0).astype(np.float32)


def vector_index(vectors: Float32[Array, "row dim"]) -> Any:
    """An index by inner product: exact up to 50,000 vectors, beyond that over a sixteenth of 4 sqrt(n) cells."""
    import faiss

    size, dim = vectors.shape
    if size <= _EXACT:
        index: Any = faiss.IndexFlatIP(dim)
    else:
        cells = int(4 * np.sqrt(size))
        index = faiss.index_factory(dim, f"IVF{cells},Flat", faiss.METRIC_INNER_PRODUCT)
        index.nprobe = max(1, cells // 16)
        index.train(vectors[:: max(1, size // (cells * 40))])
    index.add(vectors)
    return index
