"""Wrong labels put in on purpose, as pure functions on row numbers: which pairs, and which documents they get."""

from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Bool, Float, Int

from noisyir.errors import DataError

_ROUNDS = 30
_DEPTH = 4  # neighbours looked up for each one asked for, as some turn out relevant

Judge = Callable[[Int[np.ndarray, " draw"], Int[np.ndarray, " draw"]], Bool[np.ndarray, " draw"]]


def choose_pairs(pairs: int, rate: float, rng: np.random.Generator) -> Int[np.ndarray, " noisy"]:
    """Ascending row numbers of exactly round(rate * pairs) pairs, drawn without replacement.

    Source: Zhang et al. (NPC), Findings of EMNLP 2023, section 4.1: a share of the training queries, chosen at random.
    """
    return np.sort(rng.choice(pairs, size=round(rate * pairs), replace=False))


def choose_in_groups(
    group: Int[np.ndarray, " pair"], rate: float, group_rate: float, rng: np.random.Generator
) -> Int[np.ndarray, " noisy"]:
    """Ascending row numbers of exactly round(rate * pairs) pairs, all of them in groups drawn at random.

    group: group number of each pair, from 0; -1 for a pair without a group, which is never chosen.
    In each drawn group the share `group_rate` of the pairs is chosen, in the last one what is left to choose.
    DataError when no pair has a group, or when all the groups together hold too few pairs.
    """
    wanted = round(rate * len(group))
    sizes = np.bincount(group[group >= 0])
    if wanted and not len(sizes):
        raise DataError(
            "noise.mechanism=group needs pairs with a source, and no training pair has one; "
            "those of pydocs and squad do, beir takes metadata.source of corpus.jsonl, pairs a source column"
        )
    order = rng.permutation(len(sizes))
    reached = np.rint(group_rate * np.cumsum(sizes[order])).astype(np.int64)  # by this and the groups before it
    if wanted and reached[-1] < wanted:
        highest = np.floor(1e4 * reached[-1] / len(group)) / 1e4
        raise DataError(
            f"noise.rate={rate} cannot be reached at noise.group_rate={group_rate}: {sizes.sum()} of the {len(group)} "
            f"training pairs have a source, so the highest rate possible is {highest}"
        )
    quotas = np.diff(np.minimum(reached, wanted), prepend=0)
    chosen = [
        rng.choice(np.flatnonzero(group == number), size=quota, replace=False)
        for number, quota in zip(order, quotas, strict=True)
        if quota
    ]
    return np.sort(np.concatenate([np.empty(0, np.int64), *chosen]))


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
    Source: Zhang et al. (NPC), Findings of EMNLP 2023, section 4.1, "a random document"; the exclusions are ours.
    """
    query = query.astype(np.int64)  # query * pool overflows 32 bits
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


def draw_neighbours(
    query: Int[np.ndarray, " noisy"],
    document: Int[np.ndarray, " noisy"],
    vectors: Float[np.ndarray, "pool dim"],
    known: Int[np.ndarray, "known 2"],
    rng: np.random.Generator,
    *,
    neighbours: int,
    is_relevant: Judge,
) -> Int[np.ndarray, " noisy"]:
    """For each chosen pair a document number, uniform over the `neighbours` nearest its own that are wrong for it.

    query, document: query and true document number of each chosen pair.  vectors: of every document of the pool.
    Near is a great inner product.  known, is_relevant, and what is never drawn: as in `draw_mismatches`.
    Where fewer wrong documents exist it draws among those; DataError when a query has none left.
    """
    pool, query = len(vectors), query.astype(np.int64)  # query * pool overflows 32 bits
    distinct, place = np.unique(document, return_inverse=True)
    ranked = nearest(vectors, distinct, min(_DEPTH * neighbours, pool))
    taken = set((known[:, 0].astype(np.int64) * pool + known[:, 1]).tolist())
    taken.update((query * pool + document).tolist())
    drawn = np.empty(len(query), np.int64)
    for row in range(len(query)):
        wrong: list[int] = []
        for block in _outwards(ranked[place[row]], vectors, int(document[row]), neighbours):
            free = block[[key not in taken for key in (query[row] * pool + block).tolist()]]
            wrong += free[~is_relevant(np.full(len(free), row), free)].tolist()
            if len(wrong) >= neighbours:
                break
        if not wrong:
            raise _nothing_left(pool)
        drawn[row] = wrong[rng.integers(min(len(wrong), neighbours))]
        taken.add(int(query[row] * pool + drawn[row]))
    return drawn


def nearest(
    vectors: Float[np.ndarray, "pool dim"], of: Int[np.ndarray, " document"], depth: int
) -> Int[np.ndarray, "document depth"]:
    """Numbers of the documents with the greatest inner product with each of these, best first; exact, by FAISS.

    A document may be among its own neighbours.  Equal products are in the order of the numbers; where the cut at
    `depth` goes through equal ones, FAISS chooses among them.
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
    """The whole pool from the nearest document outwards, in blocks; beyond `ranked` it is searched for when asked."""
    yield from np.split(ranked, range(size, len(ranked), size))
    if len(ranked) < len(vectors):
        everything = nearest(vectors, np.array([document]), len(vectors))[0]
        rest = everything[~np.isin(everything, ranked)]
        yield from np.split(rest, range(size, len(rest), size))


def is_among(values: Int[np.ndarray, " value"], ascending: Int[np.ndarray, " member"]) -> Bool[np.ndarray, " value"]:
    """Which of the values occur in a sorted array.  np.isin hashes, which is 50 times slower on such keys."""
    if not len(ascending):
        return np.zeros(len(values), bool)
    closest = ascending[np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)]
    same: Bool[np.ndarray, " value"] = closest == values
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
        raise _nothing_left(pool)
    return int(rng.choice(rest))


def _nothing_left(pool: int) -> DataError:
    return DataError(
        f"a query has no wrong document left among the {pool} that the training pairs have: lower noise.rate"
    )
