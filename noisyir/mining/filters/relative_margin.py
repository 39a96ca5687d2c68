"""Candidates that score almost as the positive, by a share: PercPos."""

from typing import Literal

import numpy as np
from pydantic import Field

from noisyir.mining.candidates import Candidates, Mask, Scores
from noisyir.mining.filters import Filter


def below_share(score: Scores, positive_score: Scores, margin: float) -> Mask:
    """s- <= s+ - margin |s+|.  Their names: relative_margin; TopK-PercPos, whose 95 % is a margin of 0.05.

    NV-Retriever writes s- <= 0.95 s+, which for s+ < 0 would keep what scores above the positive.
    """
    positive = positive_score.astype(np.float64)
    return score <= positive - margin * np.abs(positive)


class RelativeMargin(Filter):
    """Candidates that score almost as the positive, by a share: PercPos."""

    kind: Literal["relative_margin"] = "relative_margin"
    margin: float = Field(description="drop what scores above positive - this * |positive|; 0.05 is PercPos 95 %")

    def keeps(self, candidates: Candidates) -> Mask:
        """Which candidates stay."""
        return below_share(candidates.score, candidates.positive_score, self.margin)
