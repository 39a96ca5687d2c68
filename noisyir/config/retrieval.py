"""Settings of retrieval: BM25, encoding, indexes, search, and the negatives mined from rankings."""

from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from noisyir.config.base import HELD_OUT, Fraction, Params, Split


class Bm25IndexParams(Params):
    """The inverted index."""

    engine: Literal["pyserini", "bm25s"] = Field("pyserini", description="bm25s needs no Java; same formula")


class Bm25Params(Params):
    """Lexical search; the defaults are Anserini's."""

    k1: PositiveFloat = Field(0.9, description="term frequency saturation")
    b: Fraction = Field(0.4, description="document length normalisation")
    top_k: PositiveInt = Field(100, description="documents kept a query")
    splits: tuple[Split, ...] = Field(("dev", "test"), description="the queries searched for")


class EncodeParams(Params):
    """Vectors of every document and query."""

    splits: tuple[Split, ...] = Field(HELD_OUT, description="the queries encoded")
    dtype: Literal["float32", "float16"] = Field("float32", description="of the stored vectors")
    shard_rows: PositiveInt = Field(65536, description="documents a shard: the unit of resuming")


class IndexParams(Params):
    """The FAISS index."""

    factory: str = Field("Flat", description="FAISS factory string: Flat, HNSW32, IVF4096,PQ64, ...")
    train_rows: PositiveInt = Field(262144, description="vectors sampled to train an index that needs training")


class SearchParams(Params):
    """Dense search."""

    top_k: PositiveInt = Field(100, description="documents kept a query")
    probes: PositiveInt = Field(32, description="IVF: lists visited a query")
    breadth: PositiveInt = Field(128, description="HNSW: candidates kept while searching")


class CandidatesParams(Params):
    """Which retrieved documents may become negatives at all."""

    rank_from: PositiveInt = Field(1, description="first rank of the run that may be drawn")
    rank_to: PositiveInt = Field(100, description="last rank of the run that may be drawn")
    positive: Literal["best", "worst"] = Field(
        "best", description="of a query's several positives, the one that negatives are compared with, by its score"
    )
    held_out: Literal["same_query", "any_query"] = Field(
        "same_query", description="leave out what dev and test pairs give to a query of equal text, or to any query"
    )

    @model_validator(mode="after")
    def _ranks_are_in_order(self) -> Self:
        if self.rank_from > self.rank_to:
            raise ValueError(f"rank_from={self.rank_from} lies behind rank_to={self.rank_to}: no rank is left")
        return self


class FilterParams(Params):
    """Candidates dropped before any sampler sees them; null: not used.  Scores are those of the given vectors."""

    max_score: float | None = Field(None, description="drop what scores above this (TopK-Abs)")
    absolute_margin: float | None = Field(None, description="drop what scores above positive - this (TopK-MarginPos)")
    relative_margin: float | None = Field(
        None, description="drop what scores above positive - this * |positive|; 0.05 is PercPos 95 %"
    )
    max_angle: Annotated[float, Field(gt=0.0, le=180.0)] | None = Field(
        None, description="degrees: drop what TriSampler's Eq. 4 puts beyond; the paper's bound is 60"
    )

    @property
    def used(self) -> tuple[str, ...]:
        """The names of the filters that are switched on."""
        return tuple(name for name in type(self).model_fields if getattr(self, name) is not None)


class SoftmaxParams(Params):
    """Chances in proportion to exp(score / temperature)."""

    temperature: PositiveFloat = Field(1.0, description="1 suits dot products, 0.05 cosine")


class DebiasedParams(Params):
    """Chances in proportion to exp(-|score - positive| / temperature)."""

    temperature: PositiveFloat = Field(1.0, description="1 suits dot products, 0.05 cosine")


class SimansParams(Params):
    """SimANS: chances in proportion to exp(-a (score - positive - b)^2)."""

    a: PositiveFloat = Field(0.5, description="how sharp the peak is")
    b: float = Field(0.0, description="where the peak lies, relative to the positive's score")
    sign: Literal["paper", "code"] = Field("paper", description="peak at positive + b, or, as its code has it, - b")
    scale: PositiveFloat = Field(1.0, description="multiplies scores beforehand: 1 suits dot products, 20 cosine")


class TriSamplerParams(Params):
    """TriSampler: Eq. 5 picks transitional negatives, Eq. 6 draws among them."""

    transitional: PositiveInt | None = Field(None, description="transitional negatives a query; null: 4 per_query")
    draw: Literal["two_stage", "one_shot"] = Field("two_stage", description="one_shot: by the product of both weights")
    doc_sim: Literal["dot", "cosine", "norm_matched"] = Field(
        "dot", description="Eq. 6's similarities; norm_matched: dot products, the positive rescaled to the query's norm"
    )
    scale: PositiveFloat | Literal["std"] = Field(
        1.0, description="multiplies scores before Eq. 5; std: divides them by the standard deviation of the query's"
    )


class MineParams(CandidatesParams):
    """Which candidates become hard negatives."""

    per_query: NonNegativeInt = Field(0, description="hard negatives drawn for one query; 0 mines none")
    run: Literal["bm25", "dense"] = Field("bm25", description="whose ranking; dense: the untrained model's")
    sampler: Literal["uniform", "topk", "softmax", "debiased", "simans", "trisampler"] = Field(
        "uniform", description="what the chances of being drawn follow (docs/mining.md)"
    )
    softmax: SoftmaxParams = SoftmaxParams()
    debiased: DebiasedParams = DebiasedParams()
    simans: SimansParams = SimansParams()
    trisampler: TriSamplerParams = TriSamplerParams()
    filters: FilterParams = FilterParams()

    @property
    def needs_scores(self) -> bool:
        """Whether drawing takes a model's scores, and not ranks alone."""
        return self.sampler not in ("uniform", "topk") or bool(self.filters.used)

    def candidates(self) -> CandidatesParams:
        """The part that decides which candidates there are."""
        return CandidatesParams(**{name: getattr(self, name) for name in CandidatesParams.model_fields})
