"""Any pair gets any wrong document (Zhang et al., NPC, Findings of EMNLP 2023)."""

from typing import Literal

import numpy as np
from jaxtyping import Int

from noisyir.data.corruptions import ChosenPairs, Judge, Noise, nothing_left
from noisyir.data.draws import is_among

_ROUNDS = 30


class Uniform(Noise):
    """Any training pairs, each with any training pair's document."""

    kind: Literal["uniform"] = "uniform"

    def replace(self, chosen: ChosenPairs, rng: np.random.Generator) -> Int[np.ndarray, " noisy"]:
        """Uniform over what is wrong for the query."""
        return draw_mismatches(chosen, rng)


def draw_mismatches(chosen: ChosenPairs, rng: np.random.Generator) -> Int[np.ndarray, " noisy"]:
    """For each chosen pair the number of a document of the pool, uniform over those that are wrong for its query.

    One query never gets the same document twice.  DataError when a query has no wrong document left.
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
    """A uniform draw by listing what is left: for queries to which most of the pool is relevant."""
    rest = np.setdiff1d(query[row] * pool + np.arange(pool), taken) - query[row] * pool
    rest = rest[~judge(np.full(len(rest), row), rest)]
    if not len(rest):
        raise nothing_left(pool)
    return int(rng.choice(rest))
