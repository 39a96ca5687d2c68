"""Settings of measuring and reporting."""

import math
from typing import Any, Literal, Self

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt, model_validator

from noisyir.config.base import Fraction, Params, Split


class ScoreParams(Params):
    """Measures of one run."""

    measures: tuple[str, ...] = Field(("nDCG@10", "RR@10", "R@100"), description="ir-measures' names")
    splits: tuple[Split, ...] = Field(("test",), description="the splits scored")
    answer_ranks: tuple[PositiveInt, ...] = Field((), description="k of answer-match R@k; needs answers")
    ignore_same_id: bool = Field(False, description="drop a hit whose document id is the query's id (BEIR's rule)")


class CompareParams(Params):
    """Systems side by side."""

    confidence: Fraction = Field(0.95, description="of the bootstrap intervals")
    resamples: PositiveInt = Field(10000, description="bootstrap resamples of the queries")
    baseline: str | None = Field(None, description="the system that every other is compared with; null: the first")


class PromoteParams(Params):
    """When a registered model becomes the champion."""

    measure: str | None = Field(None, description="what is compared; null: nDCG@10, of readers the first F1")
    split: Split | None = Field(None, description="the split that it was measured on; null: test, else dev")
    min_gain: NonNegativeFloat = Field(0.01, description="the mean gain must be above this, in the measure's own unit")
    confidence: Fraction = Field(
        0.95,
        description="of the bootstrap interval, which must lie above zero; the p-value is within its tail",
    )
    resamples: PositiveInt = Field(10000, description="of the queries for the interval, of signs for the p-value")
    min_seeds: NonNegativeInt = Field(
        0, description="seeds of the same settings that must be known; from 2 on, the seed spread always counts"
    )

    @property
    def error_rate(self) -> float:
        """The chance at most of promoting one of two models that are equally good."""
        return (1 - self.confidence) / 2

    @model_validator(mode="after")
    def _enough_resamples(self) -> Self:
        if (needed := math.ceil(round(1 / self.error_rate, 6)) - 1) > self.resamples:
            raise ValueError(f"resamples: confidence={self.confidence:g} takes at least {needed:,} for its p-value")
        return self


class NoiseTableParams(Params):
    """The noise bench's table."""

    title: str = Field("", description="the page's heading; a general one if empty")
    conditions: Literal["noise", "labels"] = Field(
        "noise", description="what methods are compared under: noise put in, or passages labelled; the pipeline says"
    )
    baseline: str = Field("dpr", description="the method that every other is compared with")
    reference: str | None = Field(
        "oracle", description="a method that all are compared with, too, if it is trained; null: none"
    )
    confidence: Fraction = Field(0.95, description="of the bootstrap intervals")
    resamples: PositiveInt = Field(10000, description="bootstrap resamples of the queries")
    alpha: Fraction = Field(0.05, description="largest Holm-corrected p-value that is called significant")


class PublishedParams(Params):
    """A number from a paper, to stand beside ours."""

    system: str = Field(description="ours that it stands beside: a method, bm25, or METHOD_reranked")
    split: Split = Field("test", description="the split that it was measured on")
    measure: str = Field(description="as score names it: AnswerMatch@20 is the papers' R@20 of open questions")
    value: float = Field(description="in the measure's own unit: 0.86 for 86.0 %")
    source: str = Field(description="where it stands, and what differs")


class ReportParams(Params):
    """The page that shows the result."""

    title: str = Field("", description="the page's heading; the experiment's name if empty")
    alpha: Fraction = Field(0.05, description="largest Holm-corrected p-value of a win or a regression")
    min_gain: NonNegativeFloat = Field(0.01, description="least gain of a win, in the measure's own unit")
    examples: NonNegativeInt = Field(5, description="example pairs, wins and losses shown")
    settings: dict[str, Any] = Field(
        {}, description="the experiment's, filled in by the pipeline: to make the page again"
    )
    published: tuple[PublishedParams, ...] = Field((), description="the experiment's, filled in by the pipeline")
