"""Ranking measures of pooled documents: some are judged, the others have a chance to be relevant.

A document of a pool has a belief: 1 or 0 if a person judged it, else a chance.  Once all are judged, a measure here is
the usual one with the pool's relevant documents as all there are; a query without any counts 0.
"""

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int

Array = np.ndarray
Belief = Float[Array, "*query document"]
Heads = Int[Array, "*query system rank"]


class PooledMeasure(NamedTuple):
    """A measure of the first `depth` ranks."""

    kind: Literal["nDCG", "RR", "R", "P"]
    depth: int

    def __str__(self) -> str:
        """As ir-measures writes it."""
        return f"{self.kind}@{self.depth}"

    def values(self, belief: Belief, heads: Heads) -> Float[Array, "*query system"]:
        """Each system's value, documents taken as independent.

        With beliefs y in rank order, d_r = 1 / log2(r + 1), and R the sum of y over the pool:
        P: sum y_r / k.  RR: sum y_r / r prod_(i < r) (1 - y_i).  R: sum y_r / (1 + R - y_r).
        nDCG: sum y_r d_r / I(1 + R - y_r), where I(n) is the sum of the first min(n, k) d, linear between whole n.
        P and RR are expectations; in R and nDCG the rest of R is replaced by its mean.
        """
        heads = heads[..., : self.depth]
        found = np.take_along_axis(belief[..., None, :], np.maximum(heads, 0), axis=-1)
        found = np.where(heads >= 0, found, 0.0)
        ranks = np.arange(1, heads.shape[-1] + 1)
        if self.kind == "P":
            return np.asarray(found.sum(axis=-1) / self.depth)
        if self.kind == "RR":
            missed = np.roll(np.cumprod(1 - found, axis=-1), 1, axis=-1)
            missed[..., 0] = 1.0
            return np.asarray((found * missed / ranks).sum(axis=-1))
        relevant = 1 + belief.sum(axis=-1)[..., None, None] - found
        if self.kind == "R":
            return np.asarray((found / relevant).sum(axis=-1))
        discounts = 1 / np.log2(1 + np.arange(1, self.depth + 1))
        ideal = np.interp(relevant, np.arange(self.depth + 1), np.concatenate([[0.0], np.cumsum(discounts)]))
        return np.asarray((found * discounts[: len(ranks)] / ideal).sum(axis=-1))
