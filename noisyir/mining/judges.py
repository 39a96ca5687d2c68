"""Judges, one class each: they decide which candidates are relevant, so that these are not drawn as negatives.

Only their settings and equations are here; the stage that runs a judge is the one with these settings.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from jaxtyping import Float
from pydantic import BeforeValidator, Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from noisyir.base.settings import Fraction
from noisyir.base.variants import Variant, by_kind
from noisyir.mining.candidates import Mask, Rows, Scores
from noisyir.models.settings import ClassifierWeights, PairTokens
from noisyir.training.settings import CcrParams, TrainDprParams


class Judge(Variant):
    """A model that excludes candidates from drawing."""

    home: ClassVar[str] = __name__
    group: ClassVar[str | None] = "noisyir.judges"


Judges = Annotated[Mapping[str, Judge], BeforeValidator(by_kind)]
"""Settings of judges by kind, where they are not the defaults; `mine.judges` names the ones in use."""


class RelevanceJudge(Judge):
    """Excludes candidates that a ranker finds relevant (RocketQA's denoised hard negatives)."""

    max_relevance: Fraction = Field(0.1, description="probability of being relevant above which a candidate is dropped")


class RankerJudge(RelevanceJudge, kind="ranker"):
    """Judges with the ranker of a method that trains one."""


class CrossEncoderJudge(RelevanceJudge, kind="cross_encoder"):
    """Excludes candidates that an already trained cross-encoder finds relevant."""

    weights: ClassifierWeights = None
    max_len: PairTokens = 256


class SieveJudge(Judge, TrainDprParams, kind="sieve"):
    """The passage sieve (Wang et al., AAAI 2024, Algorithm 1): training with the robust loss, then cosine verdicts.

    A candidate remains if its loss is at least the mean loss of its query's pool, the positive included. The loss is
    lse - s, and lse is shared by the pool, so a candidate remains if its score is at most the pool's mean score;
    neither softmax nor temperature matters.

    The preset determines unset values: the papers' values, or one of the authors' two code branches.
    """

    preset: Literal["paper", "code_main", "code_ar2"] = Field(
        "paper", description="beta 0.5, or the effective values of the published code"
    )
    epochs: PositiveInt = Field(1, description="passes over the training queries")
    batch_size: PositiveInt = Field(16, description="queries a step")
    learning_rate: PositiveFloat = Field(
        1e-7, description="the peak, after warm-up; at the printed 1e-7 the verdicts are the mining model's own"
    )
    warmup_ratio: Fraction = Field(0.2, description="share of steps over which the rate rises from 0")
    weight_decay: Annotated[float, Field(ge=0.0)] = Field(0.01, description="AdamW's, decoupled")
    betas: tuple[Fraction, Fraction] = Field((0.8, 0.9), description="AdamW's decay of its moving averages")
    clip_norm: PositiveFloat | None = Field(None, description="largest gradient norm of a step; null: any")
    scale: PositiveFloat = Field(1.0, description="multiplies similarities before the softmax")
    hard_negatives: PositiveInt = Field(5, description="candidates a query in each batch, drawn at random")
    pool: Literal["batch", "own"] = Field("own", description="what competes with a query's positive")
    dev_queries: NonNegativeInt = Field(0, description="dev queries ranked after each epoch, at most; 0: none")
    pool_size: PositiveInt | None = Field(
        30, description="candidates of a query that are judged, drawn at random; the others are not drawn; null: all"
    )

    @model_validator(mode="after")
    def _beta_of_the_preset(self) -> Self:
        if "beta" not in self.ccr.model_fields_set:
            pool = self.hard_negatives + 1  # the code subtracts beta * CCR from each entry of the pool
            beta = {"paper": 0.5, "code_main": 0.1 * pool, "code_ar2": 1.0 * pool}[self.preset]
            # as a default: it is not among the fields that were set, so that a variant's preset can still decide
            filled = CcrParams.model_construct(
                _fields_set=self.ccr.model_fields_set, **{**dict(self.ccr), "beta": beta}
            )
            object.__setattr__(self, "ccr", filled)
        return self


def pool_means(score: Scores, query: Rows, positive_score: Float[np.ndarray, " query"]) -> Scores:
    """Mean score of each candidate's pool: all candidates of its query, and the positive.

    Summed in float64 and rounded to float32 like the scores, so in a pool of equal scores it equals that score.
    """
    count = len(positive_score)
    total = np.bincount(query, score, count) + positive_score
    mean = (total / (np.bincount(query, minlength=count) + 1)).astype(np.float32)
    bound: Scores = mean[query]
    return bound


def stays(score: Scores, bound: Scores) -> Mask:
    """Score <= bound, equivalent to Algorithm 1's loss >= mean loss: ties remain, and so do pools of only duplicates.

    The published code uses a strict comparison, which removes such a pool entirely.
    """
    return score <= bound


def sieve_out_rate(keep: Mask) -> float:
    """Share of candidates removed; 0 if there are none."""
    return 1.0 - float(keep.mean()) if len(keep) else 0.0
