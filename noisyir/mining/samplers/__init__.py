"""Samplers, a file each: how likely each candidate is to be drawn; no drawing, which is in `mining/draw.py`.

The equations are on flat arrays (one row a candidate).  All give natural logarithms of weights, up to a
constant for each query; -inf: never.  Logarithms, as the weights themselves underflow: exp(-a gap^2) is 0 in double
precision from a gap of 28 on at a = 1.

s-: score of query and candidate; s+: of query and positive.
Sources: Yang et al. (TriSampler), arXiv:2402.11855; Zhou et al. (SimANS), arXiv:2210.11773.
"""

from typing import TYPE_CHECKING, ClassVar

from noisyir.variants import Variant

if TYPE_CHECKING:
    import numpy as np

    from noisyir.mining.candidates import Candidates, LogWeights


class Sampler(Variant):
    """What the chances of being drawn follow.

    needs_scores: whether it looks at a model's scores, and not at ranks alone.
    """

    home: ClassVar[str] = __name__
    group: ClassVar[str | None] = "noisyir.samplers"
    needs_scores: ClassVar[bool] = True

    def weights(self, candidates: "Candidates") -> "LogWeights":
        """The log-weight of each candidate, in nats."""
        raise NotImplementedError

    def with_fallbacks(
        self, candidates: "Candidates", per_query: int, rng: "np.random.Generator"
    ) -> "dict[str, LogWeights]":
        """Its log-weights under its name, and behind them, by name, what is drawn by where they leave too few."""
        return {self.kind: self.weights(candidates)}
