"""Documents with the highest sums of term weights, compiled by numba, which importing this module needs."""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

Array = npt.NDArray[Any]
Best = tuple[Array, Array]

_LOOKED_FOR = 512  # additions that cost as much as finding one of the best under one term, measured
_ROUNDED = 1.0001  # sums of float32 in another order are equal up to this factor


@njit(cache=True, nogil=True)
def best_documents(
    starts: Array, documents: Array, weights: Array, most: Array, count: int, terms: Array, offsets: Array, top_k: int
) -> tuple[Array, Array, Array]:
    """Return each query's number of documents, at most `top_k`; all documents, best first; and their scores.

    Equal scores are in the order of documents.  Term t has `documents[starts[t]:starts[t + 1]]`, ascending, of
    `count`, with weights of 0 to `most[t]`.  Query i has `terms[offsets[i]:offsets[i + 1]]`, with weights added in
    that order.  If it pays, heavy terms are read first, and the others not at all once they cannot bring in another
    document. Source: Turtle and Flood, Information Processing & Management, 1995 (MaxScore).
    """
    queries, done = len(offsets) - 1, 0
    counts, rows = np.zeros(queries, np.int64), np.empty(queries * top_k, np.int64)
    found, sums = np.empty(queries * top_k, np.float32), np.zeros(count, np.float32)
    every, touched = np.arange(count), np.empty(count, np.int64)
    for query in range(queries):
        own = terms[offsets[query] : offsets[query + 1]]
        best, scores, held = rows[done : done + top_k], found[done : done + top_k], 0
        pays = count + (starts[own + 1] - starts[own]).sum() > _LOOKED_FOR * top_k * len(own)
        if pays:
            order, heaviest = np.empty(len(own), np.int64), np.empty(len(own), np.float32)
            for place, term in enumerate(own):
                _insert(order, heaviest, place, term, np.float32(most[term]))
            seen, rest, least = _sum_up_heavy(starts, documents, weights, most, order, (best, scores), sums, touched)
        else:
            seen, rest, least = 0, 0.0, 0.0
            _sum_up(starts, documents, weights, own, sums)
        for row in touched[:seen] if pays else every:
            score, sums[row] = sums[row], 0
            if score > 0 and (score + rest) * _ROUNDED >= least:
                score = _look_up(starts, documents, weights, own, row) if pays else score
                held = _insert(best, scores, held, row, score)
                least = max(least, scores[top_k - 1]) if held == top_k else least
        counts[query] = held
        done += held
    return counts, rows[:done], found[:done]


@njit(cache=True, nogil=True)
def _sum_up(starts: Array, documents: Array, weights: Array, terms: Array, sums: Array) -> None:
    """Add the weights of all terms to the documents' sums."""
    for term in terms:
        for place in range(starts[term], starts[term + 1]):
            sums[documents[place]] += weights[place]


@njit(cache=True, nogil=True)
def _sum_up_heavy(
    starts: Array, documents: Array, weights: Array, most: Array, terms: Array, best: Best, sums: Array, touched: Array
) -> tuple[int, float, float]:
    """Return how many documents got a sum, how much unread terms may add, and the sum of the last of `best`.

    Reading stops when a document without a sum cannot be among the best, which is checked before a term with more
    documents than got a sum, if half of the rest has been read since the last check.
    """
    rest, seen, least, enough = most[terms].sum(), 0, 0.0, len(best[0])
    looked = rest
    for term in terms:
        if starts[term + 1] - starts[term] > seen >= enough and rest < looked / 2:
            looked = rest
            for place, row in enumerate(touched[:seen]):
                _insert(best[0], best[1], min(place, enough), row, sums[row])
            least = best[1][-1]
            if least > rest * _ROUNDED:
                break
        rest -= most[term]
        for place in range(starts[term], starts[term + 1]):
            row = documents[place]
            if sums[row] == 0 < weights[place]:
                touched[seen] = row
                seen += 1
            sums[row] += weights[place]
    return seen, rest, least


@njit(cache=True, nogil=True)
def _look_up(starts: Array, documents: Array, weights: Array, terms: Array, row: int) -> np.float32:
    """Sum the terms' weights in one document, in their order."""
    score = np.float32(0)
    for term in terms:
        place, end = starts[term], starts[term + 1]
        while place < end:
            middle = (place + end) // 2
            place, end = (middle + 1, end) if documents[middle] < row else (place, middle)
        if place < starts[term + 1] and documents[place] == row:
            score += weights[place]
    return score


@njit(cache=True, nogil=True)
def _insert(rows: Array, scores: Array, held: int, row: int, score: np.float32) -> int:
    """Insert a document into the best `held` ones; return their new number."""
    last = len(rows) - 1
    if held > last and (score < scores[last] or (score == scores[last] and row > rows[last])):
        return held
    place = min(held, last)
    while place > 0 and (scores[place - 1] < score or (scores[place - 1] == score and rows[place - 1] > row)):
        rows[place], scores[place] = rows[place - 1], scores[place - 1]
        place -= 1
    rows[place], scores[place] = row, score
    return min(held, last) + 1
