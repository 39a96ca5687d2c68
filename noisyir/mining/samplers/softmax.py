"""Chances in proportion to exp(score / temperature)."""

from typing import Literal

import numpy as np
from pydantic import Field, PositiveFloat

from noisyir.mining.candidates import Candidates, LogWeights
from noisyir.mining.samplers import Sampler


class Softmax(Sampler):
    """Chances in proportion to exp(score / temperature)."""

    kind: Literal["softmax"] = "softmax"
    temperature: PositiveFloat = Field(1.0, description="1 suits dot products, 0.05 cosine")

    def weights(self, candidates: Candidates) -> LogWeights:
        """exp(s- / T).

        Source: "TopK sampling" of TriSampler, section 5.3, which weighs by raw scores; those may be negative.
        """
        return candidates.score.astype(np.float64) / self.temperature
