"""Exact shares drawn of pairs and documents, and look-up of numbers, for noise and hiding."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Int


def choose_pairs(pairs: int, rate: float, rng: np.random.Generator) -> Int[np.ndarray, " noisy"]:
    """Draw row numbers, ascending, of exactly round(rate * pairs) pairs without replacement.

    Source: Zhang et al. (NPC), Findings of EMNLP 2023, section 4.1: a random share of the training queries.
    """
    return np.sort(rng.choice(pairs, size=round(rate * pairs), replace=False))


def is_among(values: Int[np.ndarray, " value"], ascending: Int[np.ndarray, " member"]) -> Bool[np.ndarray, " value"]:
    """Whether each value occurs in a sorted array; np.isin hashes, which is 50 times slower on such keys."""
    if not len(ascending):
        return np.zeros(len(values), bool)
    closest = ascending[np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)]
    same: Bool[np.ndarray, " value"] = closest == values
    return same


def positions(ids: pa.ChunkedArray, among: pa.Array | pa.ChunkedArray) -> Int[np.ndarray, " id"]:
    """The place of each id among others, which hold all of them."""
    found: Int[np.ndarray, " id"] = pc.index_in(ids, value_set=among).to_numpy()
    return found
