"""From settings to weights: which candidates the filters drop, and the fallbacks by which the rest are drawn."""

from collections.abc import Mapping

import numpy as np

from noisyir.mining import filters, samplers
from noisyir.mining.candidates import Candidates, LogWeights, Mask, Scores
from noisyir.mining.draw import drawn_first
from noisyir.mining.settings import FilterParams, MineParams, TriSamplerParams

_PER_NEGATIVE = 4  # transitional negatives for each one drawn; the paper gives no number


def filtered(candidates: Candidates, params: FilterParams) -> Mapping[str, Mask]:
    """For each filter that is switched on, in order, the candidates that it keeps."""
    score, positive = candidates.score, candidates.positive_score
    kept: dict[str, Mask] = {}
    if params.max_score is not None:
        kept["max_score"] = filters.below(score, params.max_score)
    if params.absolute_margin is not None:
        kept["absolute_margin"] = filters.below_margin(score, positive, params.absolute_margin)
    if params.relative_margin is not None:
        kept["relative_margin"] = filters.below_share(score, positive, params.relative_margin)
    if params.max_angle is not None:
        kept["max_angle"] = filters.angle(candidates) <= params.max_angle
    if params.max_positive_cosine is not None:
        kept["max_positive_cosine"] = filters.not_near(candidates, params.max_positive_cosine)
    if params.triangle is not None:
        kept["triangle"] = filters.distance(candidates, params.triangle.weight) >= params.triangle.margin
    return kept


def fallbacks(candidates: Candidates, params: MineParams, rng: np.random.Generator) -> dict[str, LogWeights]:
    """The sampler's log-weights under its name, and behind them, by name, what is drawn by where they leave too few."""
    score, positive, rank = candidates.score, candidates.positive_score, candidates.rank
    match params.sampler:
        case "uniform":
            weights = samplers.uniform(rank)
        case "topk":
            weights = samplers.topk(rank)
        case "softmax":
            weights = samplers.softmax(score, params.softmax.temperature)
        case "debiased":
            weights = samplers.debiased(score, positive, params.debiased.temperature)
        case "simans":
            simans = params.simans
            weights = samplers.simans(score, positive, simans.a, simans.b, sign=simans.sign, scale=simans.scale)
        case "trisampler":
            return trisampler(candidates, params.trisampler, params.per_query, rng)
    return {params.sampler: weights}


def trisampler(
    candidates: Candidates, params: TriSamplerParams, per_query: int, rng: np.random.Generator
) -> dict[str, LogWeights]:
    """Eq. 6 on transitional negatives that were drawn by Eq. 5; then those by Eq. 5; then all candidates by rank.

    one_shot: Eq. 5 times Eq. 6 on all candidates; then Eq. 5.
    Source: TriSampler, Algorithm 1.  It says neither how many transitional negatives there are nor what is to be done
    where Eq. 6 leaves too few: the size, without replacement, and the two later fallbacks are ours.
    """
    query, score = candidates.query, candidates.score
    scale = samplers.by_deviation(query, score) if params.scale == "std" else params.scale
    near = samplers.near_positive(score, candidates.positive_score, scale)
    sides = _sides(candidates, params)
    if params.draw == "one_shot":
        return {"trisampler": near + samplers.in_triangle(*sides), "eq_5": near}
    size = params.transitional or _PER_NEGATIVE * per_query
    transitional = np.flatnonzero(drawn_first(near, query, candidates.document, size, rng))
    inside, nearest = np.full((2, len(query)), -np.inf)
    inside[transitional] = samplers.in_triangle(*(side[transitional] for side in sides))
    nearest[transitional] = near[transitional]
    return {"trisampler": inside, "eq_5": nearest, "rank": samplers.topk(candidates.rank)}


def _sides(candidates: Candidates, params: TriSamplerParams) -> tuple[Scores, Scores]:
    """The two similarities that Eq. 6 compares: of d+ and d-, and of q and d-.

    In a model of two towers, products of passages are far larger than those with queries, and raw ones would leave
    Eq. 6 positive everywhere; "norm_matched" gives both the factor |q| |d-|.  Ours.
    """
    if params.doc_sim == "cosine":
        to_query, _, to_positive = candidates.cosines()
        return to_positive, to_query
    similarity = candidates.positive_similarity
    if params.doc_sim == "norm_matched":
        norm = candidates.positive_norm
        similarity = similarity * np.divide(candidates.query_norm, norm, out=np.zeros_like(norm), where=norm > 0)
    return similarity, candidates.score
