"""How well documents fit queries, of several measures one number: the equations of the detector `ensemble`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from jaxtyping import Float, Float32, Int

from noisyir.detection.lexical import bm25_share

Array = np.ndarray
Documents = Int[Array, "pair some"]
Value = Callable[[Documents], Float[Array, "pair some"]]

NEAREST = 10  # neighbours that CSLS averages over, as in its source
_SHRINK = 0.05  # of the spread over all queries, added to each query's own: 19 draws tell it roughly
_VECTORS_AT_ONCE = 2**16


@dataclass(frozen=True)
class Block:
    """Some pairs, and what there is to say of their queries and all documents.

    pairs: their numbers; texts: the different queries; place: of each pair its query's row in what follows.
    queries, documents: vectors; bm25: of all documents; overlap: None where it is not asked for.
    hits, similarities: the nearest documents; -1 for those that pairs name.  ranked: with those.
    near_text: for each document its mean similarity to the queries nearest to it; None where it is not asked for.
    """

    pairs: Int[Array, " pair"]
    texts: Int[Array, " text"]
    place: Int[Array, " pair"]
    queries: Float32[Array, "text dim"]
    documents: Float32[Array, "document dim"]
    bm25: Float32[Array, "text document"]
    overlap: Float32[Array, "text document"] | None
    hits: Int[Array, "text hit"]
    similarities: Float32[Array, "text hit"]
    ranked: Int[Array, "text hit"]
    near_text: Float32[Array, " document"] | None = None

    def cosines(self, documents: Documents) -> Float32[Array, "pair some"]:
        """Similarity of each pair's query with these documents."""
        found = np.empty(documents.shape, np.float32)
        step = max(1, _VECTORS_AT_ONCE // max(1, documents.shape[1]))
        for start in range(0, len(documents), step):
            rows = slice(start, start + step)
            asked = self.queries[self.place[rows]]
            found[rows] = np.matmul(self.documents[documents[rows]], asked[:, :, None])[:, :, 0]
        return found

    def shares(self, documents: Documents) -> Float32[Array, "pair some"]:
        """`bm25_share` of these documents."""
        best = self.bm25.max(axis=1)[self.place]
        return bm25_share(self.bm25[self.place[:, None], documents], best)

    def nearness(self) -> Float32[Array, " pair"]:
        """Mean similarity of each pair's query to the nearest documents that no pair names for it; 0 without any."""
        there = self.hits >= 0
        there &= np.cumsum(there, axis=1) <= NEAREST
        mean = np.where(there, self.similarities, 0.0).sum(axis=1) / np.maximum(there.sum(axis=1), 1)
        nearness: Float32[Array, " pair"] = mean[self.place].astype(np.float32)
        return nearness


class Fit(Protocol):
    """One number for how well documents fit the queries of some pairs: higher is better."""

    def of(self, block: Block) -> Value:
        """For the pairs of a block the function from documents to their fit."""


@dataclass(frozen=True)
class TransformerFit:
    """2 z(cosine) + z(BM25 share): z by mean and standard deviation of the observed pairs.

    The cosine weighs double: over several data sets whose wrong pairs people have marked, it orders pairs better than
    words do, and both together better than either; weights learnt against made-up pairs did worse.
    """

    cosine: tuple[float, float]
    share: tuple[float, float]

    @classmethod
    def observed(cls, block: Block, own: Int[Array, " pair"]) -> Self:
        """Standardised on the pairs of a block with their own documents."""
        return cls(*(_moments(values(own[:, None])) for values in (block.cosines, block.shares)))

    def of(self, block: Block) -> Value:
        """See the class."""
        return lambda documents: combined_fit(self.z_cosine(block.cosines(documents)), self.z_share(block, documents))

    def z_cosine(self, cosines: Float32[Array, "*some"]) -> Float[Array, "*some"]:
        """Standardised cosines."""
        z: Float[Array, "*some"] = (cosines - self.cosine[0]) / self.cosine[1]
        return z

    def z_share(self, block: Block, documents: Documents) -> Float[Array, "pair some"]:
        """Standardised shares of BM25."""
        z: Float[Array, "pair some"] = (block.shares(documents) - self.share[0]) / self.share[1]
        return z


def combined_fit(z_cosine: Float[Array, "*some"], z_share: Float[Array, "*some"]) -> Float[Array, "*some"]:
    """2 z(cosine) + z(BM25 share)."""
    fit: Float[Array, "*some"] = 2 * z_cosine + z_share
    return fit


@dataclass(frozen=True)
class StaticFit:
    """Cosine, CSLS and IDF overlap, each standardised by the same query with documents drawn at random, added up.

    How similar a query is to documents of any kind differs much between queries under a static model; so each query
    is its own measure.  random: (pair, draw) documents of every pair, -1 where there is none; not those of a null,
    which must not have made the scale that they are measured on.  spread: of each measure over all queries' draws.
    """

    random: Documents
    spread: Float[Array, " measure"]

    @classmethod
    def observed(cls, block: Block, random: Documents) -> Self:
        """With the spread over the draws of the block's pairs; random: of all pairs."""
        drawn = _measures(block)(np.maximum(random[block.pairs], 0))[random[block.pairs] >= 0]
        return cls(random, drawn.std(axis=0) if len(drawn) else np.ones(3))

    def of(self, block: Block) -> Value:
        """See the class."""
        measures, random = _measures(block), self.random[block.pairs]
        draws = np.where((random >= 0)[:, :, None], measures(np.maximum(random, 0)), np.nan)
        return lambda documents: own_standardised(measures(documents), draws, self.spread)


def own_standardised(
    values: Float[Array, "pair some measure"],
    draws: Float[Array, "pair draw measure"],
    spread: Float[Array, " measure"],
) -> Float[Array, "pair some"]:
    """Sum over the measures of (value - mean of the pair's draws) / (their standard deviation + .05 `spread`).

    draws: NaN where a pair has fewer; a pair without any has the mean 0 and no deviation.
    """
    there = np.isfinite(draws)
    count = np.maximum(there.sum(axis=1, keepdims=True), 1)
    held = np.where(there, draws, 0.0)
    mean = held.sum(axis=1, keepdims=True) / count
    deviation = np.sqrt((np.where(there, draws - mean, 0.0) ** 2).sum(axis=1, keepdims=True) / count)
    scale = deviation + _SHRINK * spread
    found: Float[Array, "pair some"] = ((values - mean) / np.where(scale > 0, scale, 1.0)).sum(axis=2)
    return found


def csls(
    cosine: Float[Array, "pair some"], of_query: Float[Array, " pair"], of_document: Float[Array, "pair some"]
) -> Float[Array, "pair some"]:
    """Twice the cosine less the mean similarity of query and of document to their ten nearest: hubs count less.

    Source: Conneau et al., ICLR 2018, section 2.3 (cross-domain similarity local scaling).
    """
    scaled: Float[Array, "pair some"] = 2 * cosine - of_query[:, None] - of_document
    return scaled


def _measures(block: Block) -> Callable[[Documents], Float[Array, "pair some measure"]]:
    near_text, overlap = block.near_text, block.overlap
    assert near_text is not None and overlap is not None, "a static fit needs both sides' neighbours and the overlap"
    nearness = block.nearness()

    def found(documents: Documents) -> Float[Array, "pair some measure"]:
        cosine = block.cosines(documents)
        scaled = csls(cosine, nearness, near_text[documents])
        return np.stack([cosine, scaled, overlap[block.place[:, None], documents]], axis=2)

    return found


def _moments(values: Array) -> tuple[float, float]:
    """Mean and standard deviation; 1 for the latter where all values are equal."""
    deviation = float(values.std())
    return float(values.mean()), deviation if deviation > 0 else 1.0
