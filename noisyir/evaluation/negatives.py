"""Measures of filters and judges of false negatives, given which candidates are relevant."""

import numpy as np
from jaxtyping import Bool, Float, Int

from noisyir.detection.calibration.logistic import auroc
from noisyir.mining.candidates import Candidates
from noisyir.mining.filters import below_share, distance

Scores = Float[np.ndarray, " candidate"]
Mask = Bool[np.ndarray, " candidate"]
Rows = Int[np.ndarray, " candidate"]
_TRIANGLE_WEIGHTS = (1.0, 1.5)
USUAL_MARGIN = 0.05  # of PercPos, which is known as 95 %


def signals(candidates: Candidates) -> dict[str, Float[np.ndarray, " candidate"]]:
    """The value that each filter compares with its bound; higher means more likely relevant.

    max_score: s-.  absolute_margin: s- - s+.  relative_margin: (s- - s+) / |s+|, in effect infinite if s+ = 0.
    max_positive_cosine: cos(d+, d-), 0 for a zero vector.  triangle: minus `filters.triangle.distance`, by weight.

    Source: Moreira et al. (NV-Retriever), arXiv:2407.15831, section 3.2, for the first three.
    """
    score, positive = candidates.score.astype(np.float64), candidates.positive_score.astype(np.float64)
    margin = score - positive
    return {
        "max_score": score,
        "absolute_margin": margin,
        "relative_margin": margin / np.maximum(np.abs(positive), np.finfo(np.float32).tiny),
        "max_positive_cosine": candidates.cosines()[2],
        **{f"triangle_{weight:g}": -distance(candidates, weight) for weight in _TRIANGLE_WEIGHTS},
    }


def usual_verdict(score: Scores, positive_score: Scores) -> Mask:
    """Whether PercPos at its usual bound keeps each: s- <= s+ - 0.05 |s+|."""
    return below_share(score, positive_score, USUAL_MARGIN)


def ranking_quality(signal: Scores, relevant: Mask, query: Rows) -> dict[str, float]:
    """Measures of a ranking that should put relevant candidates first; undefined ones are absent.

    AUROC and AP pool the queries; AP_query is the mean average precision of queries.

    Source: Manning, Raghavan and Schütze, 2008, chapter 8; Fawcett, 2006 (AUROC).
    """
    quality = {"count": float(len(signal))}
    if ranking := auroc(signal, relevant):
        (average_precision,) = query_average_precision(signal, relevant, np.zeros(len(signal), int))
        quality |= {"AUROC": ranking.value, "AP": float(average_precision)}
    if len(of_query := query_average_precision(signal, relevant, query)):
        quality["AP_query"] = float(of_query.mean())
    return quality


def query_average_precision(signal: Scores, relevant: Mask, query: Rows) -> Float[np.ndarray, " query"]:
    """Average precision of each query with relevant and irrelevant candidates, by rising query number; ties count.

    Source: Manning, Raghavan and Schütze, 2008, section 8.4; ties as in sklearn.
    """
    order = np.lexsort((relevant, -signal, query))
    query, signal, relevant = query[order], signal[order], relevant[order]
    ends_tie = np.ones(len(query), bool)
    ends_tie[:-1] = (query[1:] != query[:-1]) | (signal[1:] != signal[:-1])
    down_to = np.flatnonzero(ends_tie)[np.cumsum(ends_tie) - ends_tie] + 1
    start = np.searchsorted(query, query)
    hits = np.append(0, np.cumsum(relevant))
    precision = (hits[down_to] - hits[start]) / (down_to - start)
    counts, relevants = np.bincount(query), np.bincount(query, relevant)
    mixed = (relevants > 0) & (relevants < counts)
    of_query: Float[np.ndarray, " query"] = np.bincount(query, precision * relevant)[mixed] / relevants[mixed]
    return of_query


def verdict_quality(keep: Mask, relevant: Mask) -> dict[str, float]:
    """The shares dropped of relevant candidates (caught) and of hard negatives (lost); absent if there are none."""
    groups = {"caught": relevant, "lost": ~relevant}
    return {name: float((~keep[those]).mean()) for name, those in groups.items() if those.any()}
