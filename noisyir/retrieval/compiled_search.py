"""The best documents of each query by an inverted index, compiled by numba."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@cache
def compiled_search() -> Callable[..., tuple[Array, Array, Array]] | None:
    """`best_documents`, compiled; None without numba, or without a folder for what it compiles."""
    try:
        from numba import njit

        compiled: Callable[..., tuple[Array, Array, Array]] = njit(cache=True, nogil=True)(best_documents)
    except (ImportError, RuntimeError):
        return None
    return compiled


def best_documents(
    starts: Array, documents: Array, weights: Array, count: int, terms: Array, offsets: Array, top_k: int
) -> tuple[Array, Array, Array]:
    """How many documents each query has, at most `top_k`; all of them, best first; and their scores, float32.

    Equal scores are in the order of the documents.  Term t is in `documents[starts[t]:starts[t + 1]]`, of `count`, with
    `weights` beside them; query i has the terms `terms[offsets[i]:offsets[i + 1]]`, whose weights add up in that order.
    """
    queries, done = len(offsets) - 1, 0
    counts, rows = np.zeros(queries, np.int64), np.empty(queries * top_k, np.int64)
    found, scores = np.empty(queries * top_k, np.float32), np.empty(count, np.float32)
    for query in range(queries):
        scores[:] = 0
        for term in terms[offsets[query] : offsets[query + 1]]:
            for place in range(starts[term], starts[term + 1]):
                scores[documents[place]] += weights[place]
        held, least = 0, np.float32(0)  # how many were found, and what a score must exceed
        for row in range(count):
            score = scores[row]
            if score > least:
                held = min(held + 1, top_k)
                place = done + held - 1
                while place > done and found[place - 1] < score:
                    rows[place], found[place] = rows[place - 1], found[place - 1]
                    place -= 1
                rows[place], found[place] = row, score
                if held == top_k:
                    least = found[done + held - 1]
        counts[query] = held
        done += held
    return counts, rows[:done], found[:done]
