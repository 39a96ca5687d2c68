"""Which pairs a slow model reads where it cannot read all, and what stands for its scores of the others."""

import numpy as np
from jaxtyping import Bool, Float, Int

Array = np.ndarray

_AT_RANDOM = 10  # one of so many of the pairs that are read is drawn at random


def reading_order(scores: Float[Array, " pair"], rate: float, rng: np.random.Generator) -> Int[Array, " pair"]:
    """All pairs in the order in which they should be read: the doubtful first, every tenth place drawn at random.

    Doubtful is whose rank by the cheap score is near that of the cut, above which a share `rate` of the pairs lies.
    The order depends on cheap scores and chance alone, so that among pairs of one cheap score those that are read are
    a random choice: what is learnt of the others from them (`imputed`) is not bent by which were chosen.
    """
    size = len(scores)
    rank = np.empty(size)
    rank[np.argsort(scores, kind="stable")] = np.arange(size)
    doubtful = np.argsort(np.abs(rank - (1 - rate) * size), kind="stable")
    place = np.empty(size)
    place[doubtful] = np.arange(size) * (1 + 1 / (_AT_RANDOM - 1))  # leaves every tenth place free
    drawn = rng.permutation(size)
    place[drawn] = np.minimum(place[drawn], np.arange(size) * float(_AT_RANDOM))
    return np.argsort(place, kind="stable")


def within(
    order: Int[Array, " pair"],
    query: Int[Array, " pair"],
    document: Int[Array, " pair"],
    query_tokens: Int[Array, " query"],
    document_tokens: Int[Array, " document"],
    tokens: int,
) -> Bool[Array, " pair"]:
    """Whether each pair is read: the first of `order` whose texts have no more than so many tokens together.

    A text that several pairs have is read once.
    """
    taken = np.zeros(len(order), np.int64)
    for side, lengths in ((query[order], query_tokens), (document[order], document_tokens)):
        used, first = np.unique(side, return_index=True)
        taken[first] += lengths[used]
    read = np.zeros(len(order), bool)
    read[order[np.cumsum(taken) <= tokens]] = True
    return read


def imputed(
    known: Float[Array, " pair"], cheap: Float[Array, " pair"], read: Bool[Array, " pair"]
) -> Float[Array, " pair"]:
    """`known` where a pair was read; elsewhere what is expected of it by the cheap score, with which it never falls.

    known: of pairs that were not read it may hold anything.  By isotonic regression over the pairs that were read: a
    choice of pairs that depends on the regressor alone needs no correction (missing at random: Rubin, Biometrika 1976),
    as long as the shape of the regression is not presumed; and the relation is no straight line where pairs of both
    kinds are mixed.  Expectations spread less than values do, and many are equal.
    """
    from scipy.optimize import isotonic_regression

    if read.all() or not read.any():
        return known
    rows = np.flatnonzero(read)
    rows = rows[np.argsort(cheap[rows], kind="stable")]
    expected = isotonic_regression(known[rows]).x
    return np.where(read, known, np.interp(cheap, cheap[rows], expected))
