"""Samplers, a class each: how likely each candidate is to be drawn; no drawing, which is in `mining/draw.py`.

The equations are on flat arrays (one row a candidate).  All give natural logarithms of weights, up to a
constant for each query; -inf: never.  Logarithms, as the weights themselves underflow: exp(-a gap^2) is 0 in double
precision from a gap of 28 on at a = 1.

s-: score of query and candidate; s+: of query and positive.
Sources: Yang et al. (TriSampler), arXiv:2402.11855; Zhou et al. (SimANS), arXiv:2210.11773.
"""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveFloat, PositiveInt

from noisyir.base.variants import Variant
from noisyir.mining.candidates import Candidates, LogWeights, Rows, Scores, gap
from noisyir.mining.draw import drawn_first

_LARGER_THAN_NOISE = 1e3  # Gumbel noise -ln(E) of a double E > 0 lies between -7 and 745
_PER_NEGATIVE = 4  # transitional negatives for each one drawn; the paper gives no number


class Sampler(Variant):
    """A weighting that the chances of being drawn follow.

    needs_scores: whether it looks at a model's scores, and not at ranks alone.
    """

    home: ClassVar[str] = __name__
    group: ClassVar[str | None] = "noisyir.samplers"
    needs_scores: ClassVar[bool] = True

    def weights(self, candidates: Candidates) -> LogWeights:
        """The log-weight of each candidate, in nats."""
        raise NotImplementedError

    def with_fallbacks(
        self, candidates: Candidates, per_query: int, rng: "np.random.Generator"
    ) -> "dict[str, LogWeights]":
        """Its log-weights under its name, and behind them, by name, what is drawn by where they leave too few."""
        return {self.kind: self.weights(candidates)}


class Uniform(Sampler):
    """The same chance for every candidate."""

    kind: Literal["uniform"] = "uniform"
    needs_scores: ClassVar[bool] = False

    def weights(self, candidates: Candidates) -> LogWeights:
        """The same for all."""
        return np.zeros(len(candidates))


def topk(rank: Rows) -> LogWeights:
    """The better ranked always comes first: the limit of exp(-rank / T) as T goes to 0.

    Source: TopNS of TriSampler, section 4.4; `sampling_strategy="top"` of sentence-transformers.
    """
    return -_LARGER_THAN_NOISE * rank


class TopK(Sampler):
    """The best ranked first."""

    kind: Literal["topk"] = "topk"
    needs_scores: ClassVar[bool] = False

    def weights(self, candidates: Candidates) -> LogWeights:
        """By rank."""
        return topk(candidates.rank)


class Softmax(Sampler):
    """Chances in proportion to exp(score / temperature)."""

    kind: Literal["softmax"] = "softmax"
    temperature: PositiveFloat = Field(1.0, description="1 suits dot products, 0.05 cosine")

    def weights(self, candidates: Candidates) -> LogWeights:
        """exp(s- / T).

        Source: "TopK sampling" of TriSampler, section 5.3, which weighs by raw scores; those may be negative.
        """
        return candidates.score.astype(np.float64) / self.temperature


class Simans(Sampler):
    """SimANS: chances in proportion to exp(-a (score - positive - b)^2)."""

    kind: Literal["simans"] = "simans"
    a: PositiveFloat = Field(0.5, description="how sharp the peak is")
    b: float = Field(0.0, description="where the peak lies, relative to the positive's score")
    sign: Literal["paper", "code"] = Field("paper", description="peak at positive + b, or, as its code has it, - b")
    scale: PositiveFloat = Field(
        1.0, description="multiplies scores beforehand: 1 suits dot products; of cosines the training's, unless set"
    )

    def weights(self, candidates: Candidates) -> LogWeights:
        """exp(-a (s- - s+ - b)^2): peak at s+ + b.  sign="code": exp(-a (s- - s+ + b)^2), peak at s+ - b.

        scale: cosines differ by 2 at most, so without one all weights are nearly alike.
        Source: SimANS, section 4.1 (a = 0.5, b = 0 on inner products); its published code has the other sign of b.
        """
        shift = self.b if self.sign == "paper" else -self.b
        gaps = self.scale * gap(candidates.score, candidates.positive_score)
        return -self.a * (gaps - shift) ** 2


class Debiased(Sampler):
    """Chances in proportion to exp(-|score - positive| / temperature)."""

    kind: Literal["debiased"] = "debiased"
    temperature: PositiveFloat = Field(1.0, description="1 suits dot products, 0.05 cosine")

    def weights(self, candidates: Candidates) -> LogWeights:
        """exp(-|s- - s+| / T).

        Source: TriSampler, section 5.3, names a "debiased" sampler that "reduces the impact of the positive's score"
        and gives no formula.  This one is our reading; it is not SimANS, which the paper lists beside it.
        """
        weights: LogWeights = -np.abs(gap(candidates.score, candidates.positive_score)) / self.temperature
        return weights


def near_positive(score: Scores, positive_score: Scores, scale: Scores | float = 1.0) -> LogWeights:
    """exp(-(s- - s+)^2 / 4): the candidate scores like the positive.  It is SimANS with a = 1/4 and b = 0.

    scale: multiplies scores beforehand, a number or one a candidate (`by_deviation`).
    Source: TriSampler, Eq. 5.
    """
    return -((scale * gap(score, positive_score)) ** 2) / 4


def in_triangle(similarity: Scores, score: Scores) -> LogWeights:
    """ReLU(s(d+, d-) - s(q, d-)): the candidate is nearer to the positive than to the query; others are never drawn.

    Source: TriSampler, Eq. 6.  For unit vectors with s- = s+ its support is where the angle at q of the triangle of q,
    d+ and d- is 60 degrees or less, which is the rule that Eq. 4 is said to be, and is not (`filters/max_angle.py`).
    """
    inside = similarity.astype(np.float64) - score
    weights: LogWeights = np.log(inside, out=np.full(len(inside), -np.inf), where=inside > 0)
    return weights


def by_deviation(query: Rows, score: Scores) -> Scores:
    """For each candidate one over the standard deviation of its query's scores; 1 where they are all equal.

    For Eq. 5, whose 4 fits inner products of one model and nothing else.  Ours.
    """
    sizes = np.maximum(np.bincount(query), 1)
    score = score.astype(np.float64)
    centred = score - (np.bincount(query, score) / sizes)[query]
    deviation = np.sqrt(np.bincount(query, centred**2) / sizes)[query]
    scale: Scores = np.divide(1.0, deviation, out=np.ones_like(score), where=deviation > 0)
    return scale


class TriSampler(Sampler):
    """TriSampler: Eq. 5 picks transitional negatives, Eq. 6 draws among them."""

    kind: Literal["trisampler"] = "trisampler"
    transitional: PositiveInt | None = Field(None, description="transitional negatives a query; null: 4 per_query")
    draw: Literal["two_stage", "one_shot"] = Field("two_stage", description="one_shot: by the product of both weights")
    doc_sim: Literal["dot", "cosine", "norm_matched"] = Field(
        "dot", description="Eq. 6's similarities; norm_matched: dot products, the positive rescaled to the query's norm"
    )
    scale: PositiveFloat | Literal["std"] = Field(
        1.0, description="multiplies scores before Eq. 5; std: divides them by the standard deviation of the query's"
    )

    def with_fallbacks(self, candidates: Candidates, per_query: int, rng: np.random.Generator) -> dict[str, LogWeights]:
        """Eq. 6 on transitional negatives that were drawn by Eq. 5; then those by Eq. 5; then all candidates by rank.

        one_shot: Eq. 5 times Eq. 6 on all candidates; then Eq. 5.
        Source: TriSampler, Algorithm 1.  It says neither how many transitional negatives there are nor what is to be
        done where Eq. 6 leaves too few: the size, without replacement, and the two later fallbacks are ours.
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

        In a model of two towers, products of passages are far larger than those with queries, and raw ones would leave
        Eq. 6 positive everywhere; "norm_matched" gives both the factor |q| |d-|.  Ours.
        """
        if self.doc_sim == "cosine":
            to_query, _, to_positive = candidates.cosines()
            return to_positive, to_query
        similarity = candidates.positive_similarity
        if self.doc_sim == "norm_matched":
            norm = candidates.positive_norm
            similarity = similarity * np.divide(candidates.query_norm, norm, out=np.zeros_like(norm), where=norm > 0)
        return similarity, candidates.score
