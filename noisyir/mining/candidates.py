"""Candidates as flat arrays: one row per query and document that may become its negative."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np
from jaxtyping import Bool, Float, Int

Rows = Int[np.ndarray, " candidate"]
Scores = Float[np.ndarray, " candidate"]
LogWeights = Float[np.ndarray, " candidate"]
Mask = Bool[np.ndarray, " candidate"]


@dataclass(frozen=True)
class Candidates:
    """Candidate negatives in any order; no computation depends on it.

    Scores are inner products of one model's vectors; without such vectors, scores and norms are NaN.

    Attributes:
        query: Query numbers in the order of the ids, which breaks ties.
        document: Document numbers, likewise.
        rank: Rank in the run, from 1.
        score: s(q, d-).
        positive_score: s(q, d+).
        positive_similarity: s(d+, d-).
    """

    query: Rows
    document: Rows
    rank: Rows
    score: Scores
    positive_score: Scores
    positive_similarity: Scores
    query_norm: Scores
    positive_norm: Scores
    norm: Scores

    def __len__(self) -> int:
        return len(self.query)

    def take(self, kept: Mask | Rows | slice) -> Self:
        """Select candidates by a mask or by positions, in their order."""
        return type(self)(*(getattr(self, field.name)[kept] for field in fields(self)))

    def blocks(self, size: int) -> Iterator[tuple[int, Self]]:
        """Yield blocks of about `size` rows sorted by query: the position of the first row, and the rows.

        A query is never split, and query numbers restart from 0 in each block.
        """
        if len(self):
            cuts = np.unique(np.searchsorted(self.query, self.query[::size]))
            for start, stop in zip(cuts.tolist(), [*cuts[1:].tolist(), len(self)], strict=True):
                some = self.take(slice(start, stop))
                yield start, replace(some, query=some.query - some.query[0])

    def cosines(self) -> tuple[Scores, Scores, Scores]:
        """cos(q, d-), cos(q, d+) and cos(d+, d-); 0 if a vector is zero."""
        return (
            _cosine(self.score, self.query_norm * self.norm),
            _cosine(self.positive_score, self.query_norm * self.positive_norm),
            _cosine(self.positive_similarity, self.positive_norm * self.norm),
        )


def gap(score: Scores, positive_score: Scores) -> Scores:
    """s- - s+ in double precision."""
    difference: Scores = score.astype(np.float64) - positive_score
    return difference


def dot_rows(
    left: Float[np.ndarray, "m dim"], left_rows: Rows, right: Float[np.ndarray, "n dim"], right_rows: Rows, block: int
) -> Float[np.ndarray, " candidate"]:
    """Inner products of left[left_rows[i]] and right[right_rows[i]], `block` of them at a time.

    Each is summed separately, so the result does not depend on the other rows of the block.
    """
    products = np.empty(len(left_rows), np.float32)
    for start in range(0, len(left_rows), block):
        some = slice(start, start + block)
        products[some] = np.einsum("cd,cd->c", left[left_rows[some]], right[right_rows[some]])
    return products


def _cosine(product: Scores, norms: Scores) -> Scores:
    cosine: Scores = np.clip(np.divide(product, norms, out=np.zeros_like(product), where=norms > 0), -1.0, 1.0)
    return cosine
