"""Samplers: how likely each candidate is to be drawn, as pure functions on flat arrays (one row a candidate).

All return natural logarithms of weights, up to a constant for each query; -inf: never.  Logarithms, as the weights
themselves underflow: exp(-a gap^2) is 0 in double precision from a gap of 28 on at a = 1.

s-: score of query and candidate; s+: of query and positive.
Sources: Yang et al. (TriSampler), arXiv:2402.11855; Zhou et al. (SimANS), arXiv:2210.11773.
"""

from typing import Literal

import numpy as np

from noisyir.mining.candidates import LogWeights, Rows, Scores

_LARGER_THAN_NOISE = 1e3  # Gumbel noise -ln(E) of a double E > 0 lies between -7 and 745


def uniform(rank: Rows) -> LogWeights:
    """The same weight for all."""
    return np.zeros(len(rank))


def topk(rank: Rows) -> LogWeights:
    """The better ranked always comes first: the limit of exp(-rank / T) as T goes to 0.

    Source: TopNS of TriSampler, section 4.4; `sampling_strategy="top"` of sentence-transformers.
    """
    return -_LARGER_THAN_NOISE * rank


def softmax(score: Scores, temperature: float) -> LogWeights:
    """exp(s- / T).

    Source: "TopK sampling" of TriSampler, section 5.3, which weighs by raw scores; those may be negative.
    """
    weights: LogWeights = score.astype(np.float64) / temperature
    return weights


def debiased(score: Scores, positive_score: Scores, temperature: float) -> LogWeights:
    """exp(-|s- - s+| / T).

    Source: TriSampler, section 5.3, names a "debiased" sampler that "reduces the impact of the positive's score" and
    gives no formula.  This one is our reading; it is not SimANS, which the paper lists beside it.
    """
    weights: LogWeights = -np.abs(_gap(score, positive_score)) / temperature
    return weights


def simans(
    score: Scores, positive_score: Scores, a: float, b: float, *, sign: Literal["paper", "code"], scale: float = 1.0
) -> LogWeights:
    """exp(-a (s- - s+ - b)^2): peak at s+ + b.  sign="code": exp(-a (s- - s+ + b)^2), peak at s+ - b.

    scale: multiplies scores beforehand; cosines differ by 2 at most, so without one all weights are nearly alike.
    Source: SimANS, section 4.1 (a = 0.5, b = 0 on inner products); its published code has the other sign of b.
    """
    shift = b if sign == "paper" else -b
    weights: LogWeights = -a * (scale * _gap(score, positive_score) - shift) ** 2
    return weights


def near_positive(score: Scores, positive_score: Scores, scale: Scores | float = 1.0) -> LogWeights:
    """exp(-(s- - s+)^2 / 4): the candidate scores like the positive.  It is SimANS with a = 1/4 and b = 0.

    scale: multiplies scores beforehand, a number or one a candidate (`by_deviation`).
    Source: TriSampler, Eq. 5.
    """
    weights: LogWeights = -((scale * _gap(score, positive_score)) ** 2) / 4
    return weights


def in_triangle(similarity: Scores, score: Scores) -> LogWeights:
    """ReLU(s(d+, d-) - s(q, d-)): the candidate is nearer to the positive than to the query; others are never drawn.

    Source: TriSampler, Eq. 6.  For unit vectors with s- = s+ its support is where the angle at q of the triangle of q,
    d+ and d- is 60 degrees or less, which is the rule that Eq. 4 is said to be, and is not (`filters.angle`).
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


def _gap(score: Scores, positive_score: Scores) -> Scores:
    gap: Scores = score.astype(np.float64) - positive_score
    return gap
