"""Settings of RocketQA: training after the first step, and pairs that the cross-encoder makes."""

from typing import Literal

from pydantic import Field, PositiveInt

from noisyir.config.base import Fraction, Params


class PseudoLabelParams(Params):
    """Which candidates become further training pairs."""

    min_positive: Fraction = Field(0.9, description="probability of being relevant above which a candidate is paired")
    per_query: PositiveInt | None = Field(
        1, description="pairs made for a query, the likeliest first; null: any number"
    )


class AugmentParams(PseudoLabelParams):
    """RocketQA's data augmentation: training queries paired with what retriever and cross-encoder find for them."""

    queries: Literal["unlabelled", "all"] = Field(
        "unlabelled", description="those without a pair (data.unlabelled keeps them), or those with one, too"
    )

    def pairing(self) -> PseudoLabelParams:
        """The part that decides which candidates are paired."""
        return PseudoLabelParams(min_positive=self.min_positive, per_query=self.per_query)


class RocketqaParams(Params):
    """RocketQA (Qu et al., NAACL 2021): denoised hard negatives, and perhaps augmentation."""

    hard_negatives: PositiveInt = Field(1, description="mined negatives a query in each batch, after the first step")
    epochs: PositiveInt | None = Field(None, description="of each training after the first; null: train.epochs")
    ranker_rank_to: PositiveInt | None = Field(
        None, description="last rank at which the ranker's own negatives are drawn, uniformly; null: mine.rank_to"
    )
    augment: AugmentParams | None = Field(None, description="a third retriever, with pairs made; null: none")
