"""Candidates that score almost as the positive, by a difference."""

from typing import Literal

import numpy as np
from pydantic import Field

from noisyir.mining.candidates import Candidates, Mask
from noisyir.mining.filters import Filter


class AbsoluteMargin(Filter):
    """Candidates that score almost as the positive, by a difference."""

    kind: Literal["absolute_margin"] = "absolute_margin"
    margin: float = Field(description="drop what scores above positive - this (TopK-MarginPos)")

    def keeps(self, candidates: Candidates) -> Mask:
        """s- <= s+ - margin."""
        return candidates.score.astype(np.float64) + self.margin <= candidates.positive_score
