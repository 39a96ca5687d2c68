"""Wrong labels put in on purpose: pure functions on row numbers."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Int

from noisyir.errors import DataError

_ROUNDS = 30

Judge = Callable[[Int[np.ndarray, " draw"], Int[np.ndarray, " draw"]], Bool[np.ndarray, " draw"]]


def choose_pairs(pairs: int, rate: float, rng: np.random.Generator) -> Int[np.ndarray, " noisy"]:
    """Ascending row numbers of exactly round(rate * pairs) pairs, drawn without replacement.

    Source: Zeng et al. (NPC), EMNLP 2022, section 4.1: a share of the training queries, chosen at random.
    """
    return np.sort(rng.choice(pairs, size=round(rate * pairs), replace=False))


def draw_mismatches(
    query: Int[np.ndarray, " noisy"],
    pool: int,
    known: Int[np.ndarray, "known 2"],
    rng: np.random.Generator,
    *,
    is_relevant: Judge,
) -> Int[np.ndarray, " noisy"]:
    """For each chosen pair a document number below `pool`, uniform over those that are wrong for its query.

    query: query number of each chosen pair.  known: (query, document) numbers of relevant documents.
    is_relevant(rows, documents): whether, beyond `known`, a document is relevant to the query of that row of `query`.
    One query never gets the same document twice.  DataError when a query has no wrong document left.
    Source: Zeng et al. (NPC), EMNLP 2022, section 4.1, "a random document"; the exclusions are ours.
    """
    taken = np.sort(known[:, 0].astype(np.int64) * pool + known[:, 1])
    drawn = np.full(len(query), -1, np.int64)
    missing = np.arange(len(query))
    for _ in range(_ROUNDS):  # rejection keeps the draw uniform; nearly all rows are done after two rounds
        documents = rng.integers(pool, size=len(missing))
        keys = query[missing] * pool + documents
        fits = np.zeros(len(missing), bool)
        fits[np.unique(keys, return_index=True)[1]] = True
        fits &= ~is_among(keys, taken)
        fits[fits] = ~is_relevant(missing[fits], documents[fits])
        drawn[missing[fits]] = documents[fits]
        taken = np.sort(np.concatenate([taken, keys[fits]]))
        missing = missing[~fits]
        if not len(missing):
            return drawn
    for row in missing:
        drawn[row] = _draw_from_rest(int(row), query, pool, taken, rng, is_relevant)
        taken = np.append(taken, query[row] * pool + drawn[row])
    return drawn


def is_among(values: Int[np.ndarray, " value"], ascending: Int[np.ndarray, " member"]) -> Bool[np.ndarray, " value"]:
    """Which of the values occur in a sorted array.  np.isin hashes, which is 50 times slower on such keys."""
    if not len(ascending):
        return np.zeros(len(values), bool)
    nearest = ascending[np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)]
    same: Bool[np.ndarray, " value"] = nearest == values
    return same


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
        raise DataError(
            f"a query has no wrong document left among the {pool} that the training pairs have: lower noise.rate"
        )
    return int(rng.choice(rest))
