"""Fit of documents to queries by cosine and shared words, for a static model and for a transformer."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
from jaxtyping import Float, Float32, Int

from noisyir.detection.hybrid import Array, Documents, FeatureBlock, Value

_SHRINK = 0.05  # share of the spread over all queries added to each query's own, which 19 draws estimate roughly


@dataclass(frozen=True)
class TransformerFit:
    """2 z(cosine) + z(BM25 share), with z by mean and standard deviation of the observed pairs.

    The cosine counts double: on several data sets with wrong pairs marked by people it orders pairs better than words
    do, and the sum better than either; weights learnt against made-up pairs did worse.
    """

    cosine: tuple[float, float]
    share: tuple[float, float]

    @classmethod
    def observed(cls, blocks: Iterable[FeatureBlock], own: Int[Array, " pair"]) -> Self:
        """Standardise on the pairs of some blocks.

        Args:
            own: Document of every pair.
        """
        cosines, shares = zip(
            *((of.cosines(at), of.shares(at)) for of in blocks for at in [own[of.pairs, None]]), strict=True
        )
        return cls(_moments(np.concatenate(cosines)), _moments(np.concatenate(shares)))

    def of(self, block: FeatureBlock) -> Value:
        """Evaluate the fit on a block; see the class."""
        return lambda documents: combined_fit(self.z_cosine(block.cosines(documents)), self.z_share(block, documents))

    def z_cosine(self, cosines: Float32[Array, "*some"]) -> Float[Array, "*some"]:
        """Standardise cosines."""
        z: Float[Array, "*some"] = (cosines - self.cosine[0]) / self.cosine[1]
        return z

    def z_share(self, block: FeatureBlock, documents: Documents) -> Float[Array, "pair some"]:
        """Standardise BM25 shares."""
        z: Float[Array, "pair some"] = (block.shares(documents) - self.share[0]) / self.share[1]
        return z


def combined_fit(z_cosine: Float[Array, "*some"], z_share: Float[Array, "*some"]) -> Float[Array, "*some"]:
    """2 z(cosine) + z(BM25 share)."""
    fit: Float[Array, "*some"] = 2 * z_cosine + z_share
    return fit


@dataclass(frozen=True)
class StaticFit:
    """Sum of cosine, CSLS and IDF overlap, each standardised by random documents for the same query.

    Under a static model, similarity to arbitrary documents varies widely between queries, so each query sets its own
    scale.

    Attributes:
        random: (pair, draw) random documents of every pair, -1 for none. They must not be a null's, which would then be
            measured on a scale that they set.
        spread: Spread of each measure over all queries' draws.
    """

    random: Documents
    spread: Float[Array, " measure"]

    @classmethod
    def observed(cls, blocks: Iterable[FeatureBlock], random: Documents) -> Self:
        """Set the spread from the draws of some blocks' pairs.

        Args:
            random: Random documents of all pairs.
        """
        found = [_measures(of)(np.maximum(at, 0))[at >= 0] for of in blocks for at in [random[of.pairs]]]
        drawn = np.concatenate(found)
        return cls(random, drawn.std(axis=0) if len(drawn) else np.ones(3))

    def of(self, block: FeatureBlock) -> Value:
        """Evaluate the fit on a block; see the class."""
        measures, random = _measures(block), self.random[block.pairs]
        draws = np.where((random >= 0)[:, :, None], measures(np.maximum(random, 0)), np.nan)
        return lambda documents: own_standardised(measures(documents), draws, self.spread)


def own_standardised(
    values: Float[Array, "pair some measure"],
    draws: Float[Array, "pair draw measure"],
    spread: Float[Array, " measure"],
) -> Float[Array, "pair some"]:
    """Sum (value - mean of the pair's draws) / (their standard deviation + .05 `spread`) over the measures.

    Args:
        draws: NaN if a pair has fewer; a pair without any has mean 0 and standard deviation 0.
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
    """Twice the cosine minus the mean similarities of query and document to their ten nearest: hubs count less.

    Source: Conneau et al., ICLR 2018, section 2.3 (cross-domain similarity local scaling).
    """
    scaled: Float[Array, "pair some"] = 2 * cosine - of_query[:, None] - of_document
    return scaled


def _measures(block: FeatureBlock) -> Callable[[Documents], Float[Array, "pair some measure"]]:
    near_text = block.near_text
    assert near_text is not None, "a static fit needs both sides' neighbours"
    nearness = block.nearness()

    def found(documents: Documents) -> Float[Array, "pair some measure"]:
        cosine = block.cosines(documents)
        scaled = csls(cosine, nearness, near_text[documents])
        return np.stack([cosine, scaled, block.words.overlap(block.texts[block.place], documents)], axis=2)

    return found


def _moments(values: Array) -> tuple[float, float]:
    """Mean and standard deviation; 1 for the latter if all values are equal."""
    deviation = float(values.std())
    return float(values.mean()), deviation if deviation > 0 else 1.0
