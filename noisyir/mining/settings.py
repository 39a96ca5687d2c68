"""Settings of hard negatives: candidates, their judges and filters, samplers, and pseudo-labels."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from noisyir.base.settings import Fraction, Params, ReadWhen
from noisyir.mining.filters import Filters
from noisyir.mining.judges import Judge
from noisyir.mining.samplers import Sampler, Uniform

EVERY = 1_000_000  # no query has as many
Positive = Literal["best", "worst"]
_BY_THE_PLAN = ReadWhen("model", ())  # by no stage: negatives of another model differ already


class GivenRunParams(Params):
    """Settings of a run of the data's own negatives: the ranks of the other run that follow them."""

    rank_from: PositiveInt = Field(1, description="first rank of the other run")
    rank_to: PositiveInt = Field(100, description="last rank of the other run")


class PositiveVectorsParams(Params):
    """Settings of the positives' vectors, by which candidates near a positive are found."""

    positive: Positive = Field("best", description="of a query's several positives, the one that is searched with")


class EvidenceParams(Params):
    """Settings of evidence: documents that hold an answer and so become positives (DistDR)."""

    per_query: PositiveInt = Field(1, description="documents a query, the best ranked that hold an answer")


class RetrievedParams(Params):
    """Settings of candidates: the retrieved documents that may be drawn at all."""

    rank_from: PositiveInt = Field(1, description="first rank of the run that may be drawn")
    rank_to: PositiveInt = Field(100, description="last rank of the run that may be drawn")
    positive: Positive = Field(
        "best", description="of a query's several positives, the one that negatives are compared with, by its score"
    )
    held_out: Literal["same_query", "any_query"] = Field(
        "same_query", description="leave out what dev and test pairs give to a query of equal text, or to any query"
    )
    answering: Literal["leave_out", "keep"] = Field(
        "leave_out", description="documents that hold an answer, where the data has answers (DPR's rule)"
    )

    @model_validator(mode="after")
    def _ranks_are_in_order(self) -> Self:
        if self.rank_from > self.rank_to:
            raise ValueError(f"rank_from={self.rank_from} lies behind rank_to={self.rank_to}: no rank is left")
        return self


class CandidatesParams(RetrievedParams):
    """Settings of candidates, and of the queries they are for."""

    queries: Literal["labelled", "unlabelled", "all"] = Field(
        "labelled", description="training queries that a pair names, queries that none names, or both"
    )


class MineParams(RetrievedParams):
    """Settings of hard negatives: how they are drawn from the candidates."""

    renamed: ClassVar[Mapping[str, str]] = {
        kind: f"sampler={{kind: {kind}, ...}}" for kind in ("softmax", "debiased", "simans", "trisampler")
    }

    per_query: NonNegativeInt = Field(0, description="hard negatives drawn for one query; 0 mines none")
    run: Literal["bm25", "dense", "positive", "random", "given", "given+bm25", "given+dense"] = Field(
        "bm25",
        description="the ranking; dense: by the model that mines; positive: by it and nearness to the positive alone; "
        "random: of the whole corpus; given: the data's own negatives, all of them unless per_query is set",
    )
    sampler: Sampler = Field(
        Uniform(), description="the rule for the chances of being drawn (docs/reference/mining.md)"
    )
    model: Annotated[Literal["start", "round_1"], _BY_THE_PLAN] = Field(
        "start",
        description="who mines for methods that train once; round_1: their own model after a first training, before a "
        "second one from the start (DPR's hard negatives)",
    )
    round_1: Annotated[dict[str, Any], _BY_THE_PLAN] = Field(
        {"run": "bm25"}, description="what of `mine` differs in that first training; {per_query: 0}: in-batch alone"
    )
    filters: Filters = Field({}, description="candidates dropped before any sampler sees them, by kind")
    judges: tuple[str, ...] = Field(
        (), description="draw only what all of these keep; ranker is heard where a method trains one to judge"
    )

    @model_validator(mode="after")
    def _given_ones_stay(self) -> Self:
        if self.run == "given" and "per_query" not in self.model_fields_set:
            object.__setattr__(self, "per_query", EVERY)  # as a default, which does not count as set
        return self

    @model_validator(mode="after")
    def _judges_are_heard_once(self) -> Self:
        for judge in self.judges:
            Judge.of_kind(judge)
        if len(set(self.judges)) < len(self.judges):
            raise ValueError(f"mine.judges={list(self.judges)} names a judge twice")
        if self.judges and not self.per_query:
            raise ValueError("mine.judges judge what may be mined, and mine.per_query=0 mines nothing: set it, too")
        return self

    @property
    def rankings(self) -> tuple[str, ...]:
        """The sources of candidates, in their order."""
        return tuple(self.run.split("+"))

    @property
    def by_model(self) -> bool:
        """Whether a model ranks."""
        return bool({"dense", "positive"} & {*self.rankings})

    @property
    def needs_scores(self) -> bool:
        """Whether drawing uses a model's scores rather than ranks alone."""
        return self.sampler.needs_scores or bool(self.filters)

    def candidates(self) -> CandidatesParams:
        """The settings that determine the candidates."""
        return CandidatesParams(**{name: getattr(self, name) for name in RetrievedParams.model_fields})


class PseudoLabelParams(Params):
    """Settings of pseudo labels: candidates that become additional training pairs."""

    min_positive: Fraction = Field(0.9, description="probability of being relevant above which a candidate is paired")
    per_query: PositiveInt | None = Field(
        1, description="pairs made for a query, the most probable first; null: any number"
    )
