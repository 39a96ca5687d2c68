"""Samplers, one class each: how likely each candidate is to be drawn. The drawing itself is in `mining/draw.py`.

The equations are on flat arrays (one row per candidate). All return natural logarithms of weights, up to a constant for
each query; -inf means never. Logarithms are used because the weights underflow: exp(-a gap^2) is 0 in double precision
from a gap of 28 on at a = 1.

s- is the score of query and candidate, s+ of query and positive.

Sources: Yang et al. (TriSampler), arXiv:2402.11855; Zhou et al. (SimANS), arXiv:2210.11773.
"""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveFloat, PositiveInt

from noisyir.base.variants import Variant
from noisyir.mining.candidates import Candidates, LogWeights, Rows, Scores, gap
from noisyir.mining.draw import drawn_first

_LARGER_THAN_NOISE = 1e3  # Gumbel noise -ln(E) of a double E > 0 is between -7 and 745
_PER_NEGATIVE = 4  # transitional negatives per negative drawn; the paper gives no number


class Sampler(Variant):
    """A weighting to which the drawing probabilities are proportional.

    Attributes:
        needs_scores: Whether it uses a model's scores rather than ranks alone.
    """

    home: ClassVar[str] = __name__
    group: ClassVar[str | None] = "noisyir.samplers"
    needs_scores: ClassVar[bool] = True

    def weights(self, candidates: Candidates) -> LogWeights:
        """Log-weight of each candidate, in nats."""
        raise NotImplementedError

    def with_fallbacks(
        self, candidates: Candidates, per_query: int, rng: "np.random.Generator"
    ) -> "dict[str, LogWeights]":
        """Its log-weights by name, followed by the named fallbacks used if they leave too few."""
        return {self.kind: self.weights(candidates)}


class Uniform(Sampler, kind="uniform"):
    """Equal probability for every candidate."""

    needs_scores: ClassVar[bool] = False

    def weights(self, candidates: Candidates) -> LogWeights:
        """Equal weights."""
        return np.zeros(len(candidates))


def topk(rank: Rows) -> LogWeights:
    """Best rank first: the limit of exp(-rank / T) as T goes to 0.

    Source: TopNS of TriSampler, section 4.4; `sampling_strategy="top"` of sentence-transformers.
    """
    return -_LARGER_THAN_NOISE * rank


class TopK(Sampler, kind="topk"):
    """Best rank first."""

    needs_scores: ClassVar[bool] = False

    def weights(self, candidates: Candidates) -> LogWeights:
        """Weights by rank."""
        return topk(candidates.rank)


class Softmax(Sampler, kind="softmax"):
    """Probability proportional to exp(score / temperature)."""

    temperature: PositiveFloat = Field(1.0, description="1 suits dot products; of cosines 1 / train.scale, unless set")

    def weights(self, candidates: Candidates) -> LogWeights:
        """exp(s- / T).

        Source: "TopK sampling" of TriSampler, section 5.3, which weights by raw scores; those may be negative.
        """
        return candidates.score.astype(np.float64) / self.temperature


class Simans(Sampler, kind="simans"):
    """SimANS: probability proportional to exp(-a (score - positive - b)^2)."""

    a: PositiveFloat = Field(0.5, description="how sharp the peak is")
    b: float = Field(0.0, description="where the peak lies, relative to the positive's score")
    sign: Literal["paper", "code"] = Field("paper", description="peak at positive + b, or, as its code has it, - b")
    scale: PositiveFloat = Field(
        1.0, description="multiplies scores beforehand: 1 suits dot products; of cosines the training's, unless set"
    )

    def weights(self, candidates: Candidates) -> LogWeights:
        """exp(-a (s- - s+ - b)^2), peak at s+ + b; with sign="code": exp(-a (s- - s+ + b)^2), peak at s+ - b.

        `scale` is needed because cosines differ by at most 2, so without it all weights are nearly equal.

        Source: SimANS, section 4.1 (a = 0.5, b = 0 on inner products); its published code has the other sign of b.
        """
        shift = self.b if self.sign == "paper" else -self.b
        gaps = self.scale * gap(candidates.score, candidates.positive_score)
        return -self.a * (gaps - shift) ** 2


class Debiased(Sampler, kind="debiased"):
    """Probability proportional to exp(-|score - positive| / temperature)."""

    temperature: PositiveFloat = Field(1.0, description="1 suits dot products; of cosines 1 / train.scale, unless set")

    def weights(self, candidates: Candidates) -> LogWeights:
        """exp(-|s- - s+| / T).

        Source: TriSampler, section 5.3, mentions a "debiased" sampler that "reduces the impact of the positive's score"
        without a formula. This one is our reading; it is not SimANS, which the paper lists separately.
        """
        weights: LogWeights = -np.abs(gap(candidates.score, candidates.positive_score)) / self.temperature
        return weights


def near_positive(score: Scores, positive_score: Scores, scale: Scores | float = 1.0) -> LogWeights:
    """exp(-(s- - s+)^2 / 4): the candidate scores like the positive. This is SimANS with a = 1/4 and b = 0.

    Source: TriSampler, Eq. 5.
    """
    return -((scale * gap(score, positive_score)) ** 2) / 4


def in_triangle(similarity: Scores, score: Scores) -> LogWeights:
    """ReLU(s(d+, d-) - s(q, d-)): positive only if the candidate is nearer to the positive than to the query.

    Source: TriSampler, Eq. 6. For unit vectors with s- = s+ its support is the set where the angle at q of the triangle
    of q, d+ and d- is 60 degrees or less; Eq. 4 is said to be this rule, but is not (`filters/max_angle.py`).
    """
    inside = similarity.astype(np.float64) - score
    weights: LogWeights = np.log(inside, out=np.full(len(inside), -np.inf), where=inside > 0)
    return weights


def by_deviation(query: Rows, score: Scores) -> Scores:
    """Reciprocal of the standard deviation of each candidate's query's scores; 1 if they are all equal.

    Used for Eq. 5 because its constant 4 suits only the inner products of one particular model. Ours.
    """
    sizes = np.maximum(np.bincount(query), 1)
    score = score.astype(np.float64)
    centred = score - (np.bincount(query, score) / sizes)[query]
    deviation = np.sqrt(np.bincount(query, centred**2) / sizes)[query]
    scale: Scores = np.divide(1.0, deviation, out=np.ones_like(score), where=deviation > 0)
    return scale


class TriSampler(Sampler, kind="trisampler"):
    """TriSampler: Eq. 5 selects transitional negatives, Eq. 6 draws among them."""

    transitional: PositiveInt | None = Field(None, description="transitional negatives a query; null: 4 per_query")
    draw: Literal["two_stage", "one_shot"] = Field("two_stage", description="one_shot: by the product of both weights")
    doc_sim: Literal["dot", "cosine", "norm_matched"] = Field(
        "dot", description="Eq. 6's similarities; norm_matched: dot products, the positive rescaled to the query's norm"
    )
    scale: PositiveFloat | Literal["std"] = Field(
        1.0, description="multiplies scores before Eq. 5; std: divides them by the standard deviation of the query's"
    )

    def with_fallbacks(self, candidates: Candidates, per_query: int, rng: np.random.Generator) -> dict[str, LogWeights]:
        """Eq. 6 on transitional negatives drawn by Eq. 5; then these by Eq. 5; then all candidates by rank.

        With one_shot: Eq. 5 times Eq. 6 on all candidates; then Eq. 5.

        Source: TriSampler, Algorithm 1. It specifies neither the number of transitional negatives nor what to do if Eq.
        6 leaves too few: the size, drawing without replacement, and the two later fallbacks are ours.
        """
        query, score = candidates.query, candidates.score
        scale = by_deviation(query, score) if self.scale == "std" else self.scale
        near = near_positive(score, candidates.positive_score, scale)
        sides = self._sides(candidates)
        if self.draw == "one_shot":
            return {self.kind: near + in_triangle(*sides), "eq_5": near}
        size = self.transitional or _PER_NEGATIVE * per_query
        transitional = np.flatnonzero(drawn_first(near, query, candidates.document, size, rng))
        inside, nearest = np.full((2, len(query)), -np.inf)
        inside[transitional] = in_triangle(*(side[transitional] for side in sides))
        nearest[transitional] = near[transitional]
        return {self.kind: inside, "eq_5": nearest, "rank": topk(candidates.rank)}

    def _sides(self, candidates: Candidates) -> tuple[Scores, Scores]:
        """The two similarities that Eq. 6 compares: of d+ and d-, and of q and d-.

        In a two-tower model, products of passages are far larger than products with queries, and with raw ones Eq. 6
        would be positive everywhere; "norm_matched" gives both the factor |q| |d-|. Ours.
        """
        if self.doc_sim == "cosine":
            to_query, _, to_positive = candidates.cosines()
            return to_positive, to_query
        similarity = candidates.positive_similarity
        if self.doc_sim == "norm_matched":
            norm = candidates.positive_norm
            similarity = similarity * np.divide(candidates.query_norm, norm, out=np.zeros_like(norm), where=norm > 0)
        return similarity, candidates.score
