"""Weighing and drawing negatives, a block of queries at a time: all that lies between candidates and negatives."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from noisyir.mining.candidates import Candidates
from noisyir.mining.draw import draw, shares
from noisyir.mining.settings import MineParams

_CANDIDATES_AT_ONCE = 65536  # their arrays fit into a processor's cache


@dataclass(frozen=True)
class Negatives:
    """The negatives, by query and then by draw.

    rows: their positions among the candidates; draw: the number of each draw of its query, from 0;
    weight: the chance of being the first draw by the sampler's own weights; by: how many each tier gave, by its name.
    """

    rows: Int[np.ndarray, " drawn"]
    draw: Int[np.ndarray, " drawn"]
    weight: Float[np.ndarray, " drawn"]
    by: dict[str, int]


def negatives(
    candidates: Candidates, params: MineParams, rng: np.random.Generator, transitional: np.random.Generator
) -> Negatives:
    """Draw from candidates that are in the order of their ids; `transitional` is for TriSampler's first stage."""
    rows, number, weight = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0)]
    sampler, per_query = params.sampler, params.per_query
    by = dict.fromkeys(sampler.with_fallbacks(candidates.take(slice(0)), per_query, transitional), 0)
    for start, block in candidates.blocks(_CANDIDATES_AT_ONCE):
        weights = sampler.with_fallbacks(block, per_query, transitional)
        drawn = draw(weights.values(), block.query, block.document, per_query, rng)
        rows.append(start + drawn.rows)
        number.append(drawn.draw)
        weight.append(shares(weights[sampler.kind], block.query)[drawn.rows])
        for name, count in zip(by, np.bincount(drawn.tier, minlength=len(by)).tolist(), strict=True):
            by[name] += count
    return Negatives(np.concatenate(rows), np.concatenate(number), np.concatenate(weight), by)
