"""Losses of groups of passages under one model: histograms, quantiles, and how far false and hard negatives part."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Int

Losses = Float[np.ndarray, " passage"]
BINS = 60
_QUANTILES = {"q05": 0.05, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q95": 0.95}


def pool_losses(scores: Float[np.ndarray, " passage"], pool: Int[np.ndarray, " passage"]) -> Losses:
    """-log f(p, q) in nats of every passage p in its query's pool, f being the softmax over the pool.

    `scores` are scaled similarities; equal numbers in `pool` are adjacent.

    Source: Wang et al., AAAI 2024 (Contrastive Confidence Regularizer), Eq. 6 and Figure 1.
    """
    starts = np.flatnonzero(np.append(True, pool[1:] != pool[:-1]))[: len(pool)]
    sizes = np.diff(np.append(starts, len(pool)))
    totals = np.logaddexp.reduceat(scores.astype(np.float64), starts) if len(starts) else np.zeros(0)
    losses: Losses = np.repeat(totals, sizes) - scores
    return losses


def below(lower: Losses, upper: Losses) -> float:
    """AUROC: the probability that one of `lower` is below one of `upper`, ties half."""
    from sklearn.metrics import roc_auc_score

    labels = np.repeat([1, 0], [len(lower), len(upper)])
    return float(roc_auc_score(labels, -np.concatenate([lower, upper])))


def describe(groups: Mapping[str, Losses]) -> list[dict[str, Any]]:
    """The groups as rows of LOSS_GROUPS, with shared bins; an empty group has its count alone."""
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
