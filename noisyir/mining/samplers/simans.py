"""SimANS (Zhou et al., EMNLP 2022): candidates that score about as the positive does."""

from typing import Literal

from pydantic import Field, PositiveFloat

from noisyir.mining.candidates import Candidates, LogWeights, gap
from noisyir.mining.samplers import Sampler


class Simans(Sampler):
    """SimANS: chances in proportion to exp(-a (score - positive - b)^2)."""

    kind: Literal["simans"] = "simans"
    a: PositiveFloat = Field(0.5, description="how sharp the peak is")
    b: float = Field(0.0, description="where the peak lies, relative to the positive's score")
    sign: Literal["paper", "code"] = Field("paper", description="peak at positive + b, or, as its code has it, - b")
    scale: PositiveFloat = Field(1.0, description="multiplies scores beforehand: 1 suits dot products, 20 cosine")

    def weights(self, candidates: Candidates) -> LogWeights:
        """exp(-a (s- - s+ - b)^2): peak at s+ + b.  sign="code": exp(-a (s- - s+ + b)^2), peak at s+ - b.

        scale: cosines differ by 2 at most, so without one all weights are nearly alike.
        Source: SimANS, section 4.1 (a = 0.5, b = 0 on inner products); its published code has the other sign of b.
        """
        shift = self.b if self.sign == "paper" else -self.b
        gaps = self.scale * gap(candidates.score, candidates.positive_score)
        return -self.a * (gaps - shift) ** 2
