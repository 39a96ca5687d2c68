"""Chances in proportion to exp(-|score - positive| / temperature)."""

from typing import Literal

import numpy as np
from pydantic import Field, PositiveFloat

from noisyir.mining.candidates import Candidates, LogWeights, gap
from noisyir.mining.samplers import Sampler


class Debiased(Sampler):
    """Chances in proportion to exp(-|score - positive| / temperature)."""

    kind: Literal["debiased"] = "debiased"
    temperature: PositiveFloat = Field(1.0, description="1 suits dot products, 0.05 cosine")

    def weights(self, candidates: Candidates) -> LogWeights:
        """exp(-|s- - s+| / T).

        Source: TriSampler, section 5.3, names a "debiased" sampler that "reduces the impact of the positive's score"
        and gives no formula.  This one is our reading; it is not SimANS, which the paper lists beside it.
        """
        weights: LogWeights = -np.abs(gap(candidates.score, candidates.positive_score)) / self.temperature
        return weights
