"""Both sides of a candidate: how much farther from the query than the positive it is, and how far from that."""

from typing import Literal

import numpy as np
from pydantic import Field, NonNegativeFloat

from noisyir.mining.candidates import Candidates, Mask, Scores
from noisyir.mining.filters import Filter


def distance(candidates: Candidates, weight: float) -> Scores:
    """cos(q, d+) - cos(q, d-) + weight (1 - cos(d+, d-)): 0 at the positive, the smaller the likelier relevant.

    A candidate is relevant if it is near the query as the positive is, or near the positive; margins on s- see the
    first alone.  The weight 1.5 was chosen on TREC DL 2019 (docs/mining.md).  Ours.
    """
    to_candidate, to_positive, between = candidates.cosines()
    apart: Scores = to_positive.astype(np.float64) - to_candidate + weight * (1.0 - between.astype(np.float64))
    return apart


class Triangle(Filter):
    """Both sides of a candidate: how much farther from the query than the positive it is, and how far from that.

    Drop what is nearer than `margin` in s+ - s- + weight (1 - s(d+, d-)), a sum of cosines that is 0 at the positive.
    """

    kind: Literal["triangle"] = "triangle"
    margin: float = Field(description="the least distance of what is kept")
    weight: NonNegativeFloat = Field(1.5, description="of the side between positive and candidate")

    def keeps(self, candidates: Candidates) -> Mask:
        """Which candidates stay."""
        return distance(candidates, self.weight) >= self.margin
