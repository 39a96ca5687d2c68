"""TriSampler's Eq. 4."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from noisyir.mining.candidates import Candidates, Mask, Scores
from noisyir.mining.filters import Filter


def angle(candidates: Candidates) -> Scores:
    """|arccos cos(q, d+) - arccos cos(q, d-)| in degrees: no angle of the triangle, but the difference of two.

    Source: TriSampler, Eq. 4, which bounds it by 60.  Where s- is near s+, as Eq. 5 wants it, it is near 0.
    """
    to_candidate, to_positive, _ = candidates.cosines()
    degrees: Scores = np.degrees(np.abs(np.arccos(to_positive) - np.arccos(to_candidate)))
    return degrees


class MaxAngle(Filter):
    """TriSampler's Eq. 4."""

    kind: Literal["max_angle"] = "max_angle"
    degrees: Annotated[float, Field(gt=0.0, le=180.0)] = Field(
        description="drop what TriSampler's Eq. 4 puts beyond; the paper's bound is 60"
    )

    def keeps(self, candidates: Candidates) -> Mask:
        """Which candidates stay."""
        return angle(candidates) <= self.degrees
