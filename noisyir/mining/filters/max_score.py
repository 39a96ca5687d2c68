"""Candidates that score above a bound."""

from typing import Literal

import numpy as np
from pydantic import Field

from noisyir.mining.candidates import Candidates, Mask, Scores
from noisyir.mining.filters import Filter


def below(score: Scores, max_score: float) -> Mask:
    """s- <= max_score.  Their names: max_score; TopK-Abs."""
    return score <= np.float64(max_score)


class MaxScore(Filter):
    """Candidates that score above a bound."""

    kind: Literal["max_score"] = "max_score"
    bound: float = Field(description="drop what scores above this (TopK-Abs)")

    def keeps(self, candidates: Candidates) -> Mask:
        """Which candidates stay."""
        return below(candidates.score, self.bound)
