"""How many negatives are false, and how well filters and judges tell them, given which candidates are relevant."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from noisyir.mining.candidates import Candidates
from noisyir.mining.filters import below_share, distance

Scores = Float[np.ndarray, " candidate"]
Mask = Bool[np.ndarray, " candidate"]
Rows = Int[np.ndarray, " candidate"]
_TRIANGLE_WEIGHTS = (1.0, 1.5)
USUAL_MARGIN = 0.05  # of PercPos, which is known as 95 %


def signals(candidates: Candidates) -> dict[str, Float[np.ndarray, " candidate"]]:
    """The value that each filter compares with its bound: the higher, the likelier the candidate is relevant.

    max_score: s-.  absolute_margin: s- - s+.  relative_margin: (s- - s+) / |s+|, in effect infinite where s+ = 0.
    max_positive_cosine: cos(d+, d-), 0 where a vector is zero.  triangle: minus `filters.triangle.distance`, by weight.
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
    """Whether PercPos keeps each at its usual bound: s- <= s+ - 0.05 |s+|."""
    return below_share(score, positive_score, USUAL_MARGIN)


def ranking_quality(signal: Scores, relevant: Mask, query: Rows) -> dict[str, float]:
    """Measures of a ranking that should put relevant candidates first.  Undefined ones are absent.

    count: of candidates ranked.  AUROC: chance that a relevant one lies above an irrelevant one, ties half; AP: average
    precision; both of all queries' pooled.  AP_query: mean over queries of their own average precision.
    Source: Manning, Raghavan and Schütze, 2008, chapter 8; Fawcett, 2006 (AUROC).
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    quality = {"count": float(len(signal))}
    if relevant.any() and not relevant.all():
        quality["AUROC"] = float(roc_auc_score(relevant, signal))
        quality["AP"] = float(average_precision_score(relevant, signal))
    if len(of_query := query_average_precision(signal, relevant, query)):
        quality["AP_query"] = float(of_query.mean())
    return quality


def query_average_precision(signal: Scores, relevant: Mask, query: Rows) -> Float[np.ndarray, " query"]:
    """Average precision of each query that has a relevant and an irrelevant candidate, by rising query number.

    It is the mean, over relevant candidates, of the precision down to them; what has their signal counts, too.
    Source: Manning, Raghavan and Schütze, 2008, section 8.4; ties as in sklearn.
    """
    order = np.lexsort((-signal, query))
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
    """caught: the share of relevant candidates that is dropped; lost: of the others, which are true hard negatives.

    Where there are none of them, the share is absent.
    """
    groups = {"caught": relevant, "lost": ~relevant}
    return {name: float((~keep[those]).mean()) for name, those in groups.items() if those.any()}


Losses = Float[np.ndarray, " passage"]
BINS = 60
_QUANTILES = {"q05": 0.05, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q95": 0.95}


def pool_losses(scores: Float[np.ndarray, " passage"], pool: Int[np.ndarray, " passage"]) -> Losses:
    """-log f(p, q) in nats of every passage p of every query's pool; f is the softmax over the pool.

    scores: scaled similarities; pool: equal numbers stand together.
    Source: Wang et al., AAAI 2024 (Contrastive Confidence Regularizer), Eq. 6 and Figure 1.
    """
    starts = np.flatnonzero(np.append(True, pool[1:] != pool[:-1]))[: len(pool)]
    sizes = np.diff(np.append(starts, len(pool)))
    totals = np.logaddexp.reduceat(scores.astype(np.float64), starts) if len(starts) else np.zeros(0)
    losses: Losses = np.repeat(totals, sizes) - scores
    return losses


def below(these: Losses, those: Losses) -> float:
    """The chance that one of these lies below one of those, ties half: 1 parts them fully, 0.5 not at all (AUROC)."""
    from sklearn.metrics import roc_auc_score

    labels = np.repeat([1, 0], [len(these), len(those)])
    return float(roc_auc_score(labels, -np.concatenate([these, those])))


def describe(groups: Mapping[str, Losses]) -> list[dict[str, Any]]:
    """The groups as rows of LOSS_GROUPS: histograms over bins that all share, counts, quantiles, and the AUROC.

    An empty group has its count alone.
    """
    everything = np.concatenate(list(groups.values()))
    edges = np.histogram_bin_edges(everything, BINS)
    rows = []
    for name, losses in groups.items():
        rows.append(_row(name, "count", len(losses)))
        if not len(losses):
            continue
        shares = np.histogram(losses, edges)[0] / len(losses)
        rows += [_row(name, "share", *bin_) for bin_ in zip(shares, edges[:-1], edges[1:], strict=True)]
        rows.append(_row(name, "mean", losses.mean()))
        rows += [_row(name, measure, np.quantile(losses, level)) for measure, level in _QUANTILES.items()]
    if len(groups["false"]) and len(groups["hard"]):
        rows.append(_row("false", "auroc", below(groups["false"], groups["hard"])))
    return rows


def _row(group: str, measure: str, value: float, low: float | None = None, high: float | None = None) -> dict[str, Any]:
    return {"group": group, "measure": measure, "low": low, "high": high, "value": float(value)}
