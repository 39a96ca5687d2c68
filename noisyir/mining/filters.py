"""Filters, one class each: which candidates remain before sampling, and nothing else. They combine with `&`.

The equations are on flat arrays (one row per candidate). s- is the score of query and candidate, s+ of query and
positive, both from the given vectors. Candidates exactly on a bound remain.

Source: `mine_hard_negatives` of sentence-transformers 6; Moreira et al. (NV-Retriever), arXiv:2407.15831, section 3.2.
They agree if s+ >= 0. With several positives the former takes the one with the worst score: `mine.positive`.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar

import numpy as np
from pydantic import BeforeValidator, Field, NonNegativeFloat

from noisyir.base.variants import Variant, by_kind
from noisyir.mining.candidates import Candidates, Mask, Scores


class Filter(Variant):
    """A rule that excludes candidates from drawing, however likely."""

    home: ClassVar[str] = __name__
    group: ClassVar[str | None] = "noisyir.filters"

    def keeps(self, candidates: Candidates) -> Mask:
        """Return whether each candidate remains."""
        raise NotImplementedError


Filters = Annotated[Mapping[str, Filter], BeforeValidator(by_kind)]
"""Filters by kind; `{relative_margin: 0.05}` gives the one setting that a kind has to have, null switches it off."""


class AbsoluteMargin(Filter, kind="absolute_margin"):
    """Removes candidates that score almost like the positive, by a difference."""

    margin: float = Field(description="drop what scores above positive - this (TopK-MarginPos)")

    def keeps(self, candidates: Candidates) -> Mask:
        """s- <= s+ - margin."""
        return candidates.score.astype(np.float64) + self.margin <= candidates.positive_score


def below_share(score: Scores, positive_score: Scores, margin: float) -> Mask:
    """s- <= s+ - margin |s+|, known as relative_margin or TopK-PercPos; the latter's 95 % is a margin of 0.05.

    NV-Retriever writes s- <= 0.95 s+, which for s+ < 0 would keep candidates that score above the positive.
    """
    positive = positive_score.astype(np.float64)
    return score <= positive - margin * np.abs(positive)


class RelativeMargin(Filter, kind="relative_margin"):
    """Removes candidates that score almost like the positive, by a share: PercPos."""

    margin: float = Field(description="drop what scores above positive - this * |positive|; 0.05 is PercPos 95 %")

    def keeps(self, candidates: Candidates) -> Mask:
        """Return whether each candidate remains."""
        return below_share(candidates.score, candidates.positive_score, self.margin)


class MaxScore(Filter, kind="max_score"):
    """Removes candidates that score above a bound."""

    bound: float = Field(description="drop what scores above this (TopK-Abs)")

    def keeps(self, candidates: Candidates) -> Mask:
        """s- <= bound."""
        return candidates.score <= np.float64(self.bound)


class MaxPositiveCosine(Filter, kind="max_positive_cosine"):
    """Removes near-duplicates of the positive."""

    cosine: Annotated[float, Field(ge=-1.0, le=1.0)] = Field(
        description="drop candidates nearer to the positive than this cosine: a guard against near-duplicates"
    )

    def keeps(self, candidates: Candidates) -> Mask:
        """cos(d+, d-) <= cosine: a near-duplicate of a positive is most likely a positive, whatever its score. Ours."""
        _, _, to_positive = candidates.cosines()
        return to_positive <= np.float64(self.cosine)


def angle(candidates: Candidates) -> Scores:
    """|arccos cos(q, d+) - arccos cos(q, d-)| in degrees: not an angle of the triangle, but the difference of two.

    Source: TriSampler, Eq. 4, which bounds it by 60. If s- is near s+, as Eq. 5 requires, it is near 0.
    """
    to_candidate, to_positive, _ = candidates.cosines()
    degrees: Scores = np.degrees(np.abs(np.arccos(to_positive) - np.arccos(to_candidate)))
    return degrees


class MaxAngle(Filter, kind="max_angle"):
    """TriSampler's Eq. 4."""

    degrees: Annotated[float, Field(gt=0.0, le=180.0)] = Field(
        description="drop what TriSampler's Eq. 4 puts beyond; the paper's bound is 60"
    )

    def keeps(self, candidates: Candidates) -> Mask:
        """Return whether each candidate remains."""
        return angle(candidates) <= self.degrees


def distance(candidates: Candidates, weight: float) -> Scores:
    """cos(q, d+) - cos(q, d-) + weight (1 - cos(d+, d-)): 0 at the positive; smaller means more likely relevant.

    A candidate is relevant if it is as near to the query as the positive, or near to the positive; margins on s-
    capture only the first. The weight 1.5 was chosen on TREC DL 2019 (docs/reference/mining.md). Ours.
    """
    to_candidate, to_positive, between = candidates.cosines()
    apart: Scores = to_positive.astype(np.float64) - to_candidate + weight * (1.0 - between.astype(np.float64))
    return apart


class Triangle(Filter, kind="triangle"):
    """Removes candidates by two distances: how much farther from the query than the positive, and from the positive.

    Drops candidates below `margin` in s+ - s- + weight (1 - s(d+, d-)), a sum of cosines that is 0 at the positive.
    """

    margin: float = Field(description="the least distance of kept candidates")
    weight: NonNegativeFloat = Field(1.5, description="of the side between positive and candidate")

    def keeps(self, candidates: Candidates) -> Mask:
        """Return whether each candidate remains."""
        return distance(candidates, self.weight) >= self.margin
