"""Settings of measuring and comparing."""

import re
from typing import Literal, Self

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from noisyir.base.settings import Fraction, Params, Split
from noisyir.detection.settings import NpcDetectParams

OWN = "own"
"""The kind of noise of a set into which none is put."""


class ScoreParams(Params):
    """Measures of one run."""

    measures: tuple[str, ...] = Field(("nDCG@10", "RR@10", "R@100"), description="ir-measures' names")
    splits: tuple[Split, ...] = Field(("test",), description="the splits scored")
    answer_ranks: tuple[PositiveInt, ...] = Field((), description="k of answer-match R@k; needs answers")
    ignore_same_id: bool = Field(False, description="drop a hit with the query's id as document id (BEIR's rule)")

    @model_validator(mode="after")
    def _something_can_be_measured(self) -> Self:
        """Refuse no measures, and cut-offs below 1, at which trec_eval exits the process."""
        if not self.measures and not self.answer_ranks:
            raise ValueError("score.measures: name at least one, such as nDCG@10, or set score.answer_ranks")
        for name in self.measures:
            if (found := re.search(r"@\s*(-?\d+)", name)) and int(found[1]) < 1:
                raise ValueError(f"score.measures: {name!r} has a cut-off below 1: write 1 or more, such as nDCG@10")
        return self


class CompareParams(Params):
    """Comparison of systems."""

    confidence: Fraction = Field(0.95, description="of the intervals")
    baseline: str | None = Field(None, description="the system that every other is compared with; null: the first")


class RecommendParams(Params):
    """The best system of a run."""

    confidence: Fraction = Field(0.95, description="of the intervals that a trained model must pass")


class PromoteParams(Params):
    """When a registered model becomes the champion."""

    measure: str | None = Field(None, description="the measure; null: nDCG@10, of readers the first F1")
    split: Literal["promotion", "dev"] = Field(
        "promotion", description="the queries it is measured on; dev says less, because training may have stopped by it"
    )
    min_gain: NonNegativeFloat = Field(0.01, description="the mean gain must be above this, in the measure's own unit")
    min_seeds: PositiveInt = Field(
        3, description="seeds that both recipes must have been measured with; below 2 the error rate is not kept"
    )
    error_rate: float = Field(
        0.025,
        gt=0.0,
        lt=0.5,
        description="chance at most of ever promoting a model that is no better, by these queries",
    )


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
    passes: dict[str, float] = Field(
        {}, description="times that a method's trainings read a pair's passages; the pipeline says"
    )
    given: tuple[str, ...] = Field((), description="rows that others computed, perhaps not of all; the pipeline says")
    confidence: Fraction = Field(0.95, description="of the intervals")
    alpha: Fraction = Field(0.05, description="largest Holm-corrected p-value that is called significant")


class ScoreNegativesParams(Params):
    """Shares of false negatives among candidates and mined negatives."""

    min_relevance: PositiveInt | None = Field(
        None, description="least judgement that counts as relevant; null: data.min_relevance"
    )
    unjudged: Literal["irrelevant", "unknown"] = Field(
        "irrelevant", description="what no judgement names; unknown: left out of every count"
    )


class ScoreLossGroupsParams(Params):
    """Losses of false, hard and in-batch negatives under one model."""

    queries: PositiveInt = Field(2000, description="training queries looked at, drawn at random, at most")
    in_batch: NonNegativeInt = Field(64, description="passages of other queries in each query's pool, at most")
    scale: PositiveFloat = Field(20.0, description="multiplies similarities before the softmax, as in training")


class LossSectionParams(Params):
    """Pictures of the losses that pairs were flagged by."""

    detection: dict[str, NpcDetectParams] = Field(
        {}, description="settings of each method's detections; the pipeline says"
    )
    shown: PositiveInt = Field(4, description="detections of a method that are drawn, at most")


class ScoreDetectionParams(Params):
    """Scoring of detection: nothing to set."""
