"""The same chance for every candidate."""

from typing import ClassVar, Literal

import numpy as np

from noisyir.mining.candidates import Candidates, LogWeights
from noisyir.mining.samplers import Sampler


class Uniform(Sampler):
    """The same chance for every candidate."""

    kind: Literal["uniform"] = "uniform"
    needs_scores: ClassVar[bool] = False

    def weights(self, candidates: Candidates) -> LogWeights:
        """The same for all."""
        return np.zeros(len(candidates))
