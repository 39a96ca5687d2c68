"""A ranker that the pipeline trains: RocketQA's denoised hard negatives (Qu et al., NAACL 2021)."""

from typing import Literal

from pydantic import Field

from noisyir.mining.judges import Judge
from noisyir.settings import Fraction


class RelevanceJudge(Judge):
    """Candidates that a ranker finds relevant (RocketQA's denoised hard negatives)."""

    max_relevance: Fraction = Field(0.1, description="probability of being relevant above which a candidate is dropped")


class RankerJudge(RelevanceJudge):
    """By the ranker of a method that trains one."""

    kind: Literal["ranker"] = "ranker"
