"""Candidates as flat arrays: one row for a query and a document that may become its negative."""

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
    """Rows in any order; nothing that is computed of them depends on it.

    query, document: numbers in the order of the ids, by which ties are broken; rank: in the run, from 1.
    score s(q, d-), positive_score s(q, d+), positive_similarity s(d+, d-): inner products of one model's vectors.
    query_norm, positive_norm, norm: the lengths of q, d+ and d-.
    Without a model's vectors, scores and norms are NaN.
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
        """The candidates that a mask keeps, or those at these positions, in their order."""
        return type(self)(*(getattr(self, field.name)[kept] for field in fields(self)))

    def blocks(self, size: int) -> Iterator[tuple[int, Self]]:
        """Rows that are in the order of their queries, some `size` at a time: the first's position, and these rows.

        Queries are whole, and numbered anew from 0 on.
        """
        if len(self):
            cuts = np.unique(np.searchsorted(self.query, self.query[::size]))
            for start, stop in zip(cuts.tolist(), [*cuts[1:].tolist(), len(self)], strict=True):
                some = self.take(slice(start, stop))
                yield start, replace(some, query=some.query - some.query[0])

    def cosines(self) -> tuple[Scores, Scores, Scores]:
        """cos(q, d-), cos(q, d+) and cos(d+, d-); 0 where a vector is zero."""
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

    Each is summed by itself, so it does not depend on which others are in its block.
    """
    products = np.empty(len(left_rows), np.float32)
    for start in range(0, len(left_rows), block):
        some = slice(start, start + block)
        products[some] = np.einsum("cd,cd->c", left[left_rows[some]], right[right_rows[some]])
    return products


def _cosine(product: Scores, norms: Scores) -> Scores:
    cosine: Scores = np.clip(np.divide(product, norms, out=np.zeros_like(product), where=norms > 0), -1.0, 1.0)
    return cosine
