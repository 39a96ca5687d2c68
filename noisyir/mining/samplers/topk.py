"""The best ranked first."""

from typing import ClassVar, Literal

from noisyir.mining.candidates import Candidates, LogWeights, Rows
from noisyir.mining.samplers import Sampler

_LARGER_THAN_NOISE = 1e3  # Gumbel noise -ln(E) of a double E > 0 lies between -7 and 745


def topk(rank: Rows) -> LogWeights:
    """The better ranked always comes first: the limit of exp(-rank / T) as T goes to 0.

    Source: TopNS of TriSampler, section 4.4; `sampling_strategy="top"` of sentence-transformers.
    """
    return -_LARGER_THAN_NOISE * rank


class TopK(Sampler):
    """The best ranked first."""

    kind: Literal["topk"] = "topk"
    needs_scores: ClassVar[bool] = False

    def weights(self, candidates: Candidates) -> LogWeights:
        """By rank."""
        return topk(candidates.rank)
