"""Candidates that score above a bound."""

from typing import Literal

import numpy as np
from pydantic import Field

from noisyir.mining.candidates import Candidates, Mask
from noisyir.mining.filters import Filter


class MaxScore(Filter):
    """Candidates that score above a bound."""

    kind: Literal["max_score"] = "max_score"
    bound: float = Field(description="drop what scores above this (TopK-Abs)")

    def keeps(self, candidates: Candidates) -> Mask:
        """s- <= bound."""
        return candidates.score <= np.float64(self.bound)
