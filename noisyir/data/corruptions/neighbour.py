"""The hard kind of wrong pair: the document is close to the right one."""

from collections.abc import Iterator
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float, Int
from pydantic import Field, PositiveInt

from noisyir.data.corruptions import ChosenPairs, Mismatches, Noise, nothing_left

_DEPTH = 4  # neighbours looked up for each one asked for, as some turn out relevant


class Neighbour(Noise):
    """Any training pairs, each with a document near its own."""

    kind: Literal["neighbour"] = "neighbour"
    needs_vectors: ClassVar[bool] = True
    neighbours: PositiveInt = Field(10, description="drawn among this many nearest documents")

    def replace(self, chosen: ChosenPairs, rng: np.random.Generator) -> Int[np.ndarray, " noisy"]:
        """For each pair a document number, uniform over the `neighbours` nearest its own that are wrong for it.

        Near is a great inner product.  What is never drawn: as in `draw_mismatches`, and the own document.
        Where fewer wrong documents exist it draws among those; DataError when a query has none left.
        """
        document, vectors, mismatches = chosen.document, chosen.vectors(), Mismatches(chosen)
        distinct, place = np.unique(document, return_inverse=True)
        ranked = nearest(vectors, distinct, min(_DEPTH * self.neighbours, len(vectors)))
        drawn = np.empty(len(document), np.int64)
        for row in range(len(document)):
            near = _outwards(ranked[place[row]], vectors, int(document[row]), self.neighbours)
            wrong = mismatches.first(row, near, self.neighbours)
            if not wrong:
                raise nothing_left(len(vectors))
            drawn[row] = mismatches.draw(row, wrong, self.neighbours, rng)
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
