"""Settings of hard negatives: candidates, judges and filters of them, samplers, and pseudo-labels."""

from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from noisyir.mining.filters import Filters
from noisyir.mining.samplers import Sampler
from noisyir.mining.samplers.uniform import Uniform
from noisyir.settings import Fraction, Location, Params
from noisyir.training.settings import CcrParams, TrainDprParams

Judge = Literal["sieve", "cross_encoder", "ranker"]


Preset = Literal["paper", "code_main", "code_ar2"]


class RetrievedParams(Params):
    """Which retrieved documents are candidates at all."""

    rank_from: PositiveInt = Field(1, description="first rank of the run that may be drawn")
    rank_to: PositiveInt = Field(100, description="last rank of the run that may be drawn")
    positive: Literal["best", "worst"] = Field(
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
    """Candidates, and whose they are."""

    queries: Literal["labelled", "unlabelled", "all"] = Field(
        "labelled", description="training queries that a pair names, those that none names, or both"
    )


class MineParams(RetrievedParams):
    """Which candidates become hard negatives."""

    per_query: NonNegativeInt = Field(0, description="hard negatives drawn for one query; 0 mines none")
    run: Literal["bm25", "dense", "random"] = Field(
        "bm25", description="whose ranking; dense: the model's that mines; random: documents of the whole corpus"
    )
    sampler: Sampler = Field(Uniform(), description="what the chances of being drawn follow (docs/mining.md)")
    filters: Filters = Field({}, description="candidates dropped before any sampler sees them, by kind")
    judges: tuple[Judge, ...] = Field(
        (), description="draw only what all of these keep; ranker is heard where a method trains one to judge"
    )

    @model_validator(mode="after")
    def _judges_are_heard_once(self) -> Self:
        if len(set(self.judges)) < len(self.judges):
            raise ValueError(f"mine.judges={list(self.judges)} names a judge twice")
        if self.judges and not self.per_query:
            raise ValueError("mine.judges judge what may be mined, and mine.per_query=0 mines nothing: set it, too")
        return self

    @property
    def needs_scores(self) -> bool:
        """Whether drawing takes a model's scores, and not ranks alone."""
        return self.sampler.needs_scores or bool(self.filters)

    def candidates(self) -> CandidatesParams:
        """The part that decides which candidates there are."""
        return CandidatesParams(**{name: getattr(self, name) for name in RetrievedParams.model_fields})


class SieveParams(TrainDprParams):
    """The passage sieve (Wang et al., AAAI 2024, Algorithm 1): training by the robust loss, then a verdict by cosines.

    The preset decides what of these is not set: the papers' values, or those of the authors' two code branches.
    """

    preset: Preset = Field("paper", description="beta 0.5, or the effective values of the published code")
    epochs: PositiveInt = Field(1, description="passes over the training queries")
    batch_size: PositiveInt = Field(16, description="queries a step")
    learning_rate: PositiveFloat = Field(1e-7, description="the peak, after warm-up")
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


class RankerJudgeParams(Params):
    """Candidates that a ranker finds relevant (RocketQA's denoised hard negatives)."""

    max_relevance: Fraction = Field(0.1, description="probability of being relevant above which a candidate is dropped")


class CrossJudgeParams(RankerJudgeParams):
    """The same by a cross-encoder that is trained already."""

    weights: Location = Field(
        None, description="folder or Hugging Face name of a sequence classifier of one label or two"
    )
    max_len: Annotated[int, Field(ge=8)] = Field(256, description="tokens of query and document together that are read")


class JudgesParams(Params):
    """Who says which candidates are relevant; `mine.judges` names those that are heard."""

    sieve: SieveParams = SieveParams()
    cross_encoder: CrossJudgeParams = CrossJudgeParams()
    ranker: RankerJudgeParams = RankerJudgeParams()


class PseudoLabelParams(Params):
    """Which candidates become further training pairs."""

    min_positive: Fraction = Field(0.9, description="probability of being relevant above which a candidate is paired")
    per_query: PositiveInt | None = Field(
        1, description="pairs made for a query, the likeliest first; null: any number"
    )
