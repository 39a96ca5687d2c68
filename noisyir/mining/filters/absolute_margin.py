"""Candidates that score almost as the positive, by a difference."""

from typing import Literal

import numpy as np
from pydantic import Field

from noisyir.mining.candidates import Candidates, Mask, Scores
from noisyir.mining.filters import Filter


def below_margin(score: Scores, positive_score: Scores, margin: float) -> Mask:
    """s- <= s+ - margin.  Their names: absolute_margin; TopK-MarginPos."""
    return score.astype(np.float64) + margin <= positive_score


class AbsoluteMargin(Filter):
    """Candidates that score almost as the positive, by a difference."""

    kind: Literal["absolute_margin"] = "absolute_margin"
    margin: float = Field(description="drop what scores above positive - this (TopK-MarginPos)")

    def keeps(self, candidates: Candidates) -> Mask:
        """Which candidates stay."""
        return below_margin(candidates.score, candidates.positive_score, self.margin)
