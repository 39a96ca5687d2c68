"""Combination of several detectors into one, weighted by means of the nulls."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from noisyir.base.errors import DataError
from noisyir.detection.mixture import check_finite
from noisyir.detection.null import rank_shares
from noisyir.detection.rate import RateByNull, best_fit, rate_by_null
from noisyir.detection.settings import Null

Array = np.ndarray

_RIDGE = 1e-4  # keeps the weights finite if a few pairs are perfectly separable


@dataclass(frozen=True)
class Scores:
    """One detector's scores of the pairs, and of the same queries with documents drawn from each null.

    Higher means more likely wrong.

    Attributes:
        nulls: Scores by (pair, draw), NaN if a pair has no such document; a single draw is allowed.

    Raises:
        DataError: If a score of a pair is NaN, or any score is infinite.
    """

    observed: Float[Array, " pair"]
    nulls: Mapping[Null, Float[Array, "pair draw"]]

    def __post_init__(self) -> None:
        check_finite("score", self.observed)
        for null, draws in self.nulls.items():
            if bad := int(np.isinf(draws).sum()):
                raise DataError("detection.scores_values_infinite_detectors", null=null, bad=bad)


def combined(detectors: Sequence[Scores], assumed: Null | None = None) -> Scores:
    """Return a single detector's scores unchanged; of several, the weighted sum of their z scores.

    Only nulls that all detectors have are used. The weights are `learnt_weights` against the assumed null
    or, without one, the null that best fits the plain sum and is not contradicted by these scores, provided that right
    pairs are well separated from its documents; otherwise they are equal. A draw of the sum is one document with its
    scores added over detectors: all detectors draw the same documents in the same order, and only the leading draws
    that all have are kept.
    """
    if len(detectors) == 1:
        return detectors[0]
    observed, nulls = _standardised(detectors)
    return _summed(observed, nulls, _best_weights(observed, nulls, assumed))


def weights_of(detectors: Sequence[Scores], assumed: Null | None = None) -> Float[Array, " detector"]:
    """Compute the weights by which `combined` adds the z scores of several detectors."""
    return _best_weights(*_standardised(detectors), assumed)


def _standardised(detectors: Sequence[Scores]) -> tuple[Array, Mapping[Null, Array]]:
    """(pair, detector) z scores, and (pair, draw, detector) on the same scales for each null that all have."""
    observed = np.column_stack([robust_z(of.observed, of.observed) for of in detectors])
    shared = [null for null in detectors[0].nulls if all(null in of.nulls for of in detectors)]
    return observed, {null: _draws(detectors, null) for null in shared}


def _best_weights(observed: Array, nulls: Mapping[Null, Array], assumed: Null | None) -> Float[Array, " detector"]:
    even = np.ones(observed.shape[1])
    if not (said := by_null(_summed(observed, nulls, even))):
        return even
    best = assumed if assumed and assumed in said else best_fit(said)
    learnt = learnt_weights(observed, nulls[best][:, 0])
    found = by_null(_summed(observed, nulls, learnt))[best]
    # wrong pairs do not score like its documents
    refused = best != assumed and found.reading in ("at_most", "too_easy")
    return learnt if found.supported and not refused else even


def by_null(pairs: Scores, confidence: float = 0.95) -> dict[Null, RateByNull]:
    """Values of each null that has a draw."""
    shares = {null: rank_shares(pairs.observed, draws) for null, draws in pairs.nulls.items()}
    found = {null: rate_by_null(of_null, confidence, null) for null, of_null in shares.items()}
    return {null: rate for null, rate in found.items() if rate is not None}


def _summed(observed: Array, nulls: Mapping[Null, Array], weights: Float[Array, " detector"]) -> Scores:
    return Scores(observed @ weights, {null: draws @ weights for null, draws in nulls.items()})


def _draws(detectors: Sequence[Scores], null: Null) -> Float[Array, "pair draw detector"]:
    """Draws of a null, on the scale of each detector's scores of the observed pairs."""
    count = min(of.nulls[null].shape[1] for of in detectors)
    return np.stack([robust_z(of.nulls[null][:, :count], of.observed) for of in detectors], axis=2)


def robust_z(scores: Float[Array, "*score"], scale_of: Float[Array, " pair"]) -> Float[Array, "*score"]:
    """Compute (score - median) / interquartile range, both of `scale_of`; zeros if that range is 0."""
    low, median, high = np.quantile(scale_of, [0.25, 0.5, 0.75])
    return np.asarray((scores - median) / (high - low)) if high > low else np.zeros_like(scores)


def learnt_weights(
    observed: Float[Array, "pair detector"], made_up: Float[Array, "null detector"]
) -> Float[Array, " detector"]:
    """Learn non-negative weights so that the weighted sum best separates made-up from observed pairs; else equal ones.

    Fits a logistic regression with a small ridge. The observed pairs contain wrong ones too, which changes the
    resulting probability but not its order as long as these score like made-up pairs, so no label is needed.

    Args:
        made_up: Scores of made-up pairs; rows with NaN are dropped.

    Source: Elkan and Noto, KDD 2008, Lemma 1 (learning from positive and unlabelled examples).
    """
    from scipy.optimize import minimize
    from scipy.special import expit

    scores = np.concatenate([observed, made_up[np.isfinite(made_up).all(axis=1)]])
    features = np.column_stack([scores, np.ones(len(scores))])
    is_made_up = np.arange(len(scores)) >= len(observed)
    sign = np.where(is_made_up, -1.0, 1.0)
    detectors = observed.shape[1]

    def loss(weights: Array) -> tuple[float, Array]:
        logits = features @ weights
        slope = (expit(logits) - is_made_up) @ features / len(scores)
        return np.logaddexp(0, sign * logits).mean() + _RIDGE * weights @ weights / 2, slope + _RIDGE * weights

    bounds = [(0, None)] * detectors + [(None, None)]
    weights = minimize(loss, np.zeros(detectors + 1), jac=True, bounds=bounds, method="L-BFGS-B").x[:detectors]
    return np.asarray(weights if weights.any() else np.ones(detectors))
