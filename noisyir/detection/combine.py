"""Several detectors as one, and what the nulls say of it."""

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

_RIDGE = 1e-4  # keeps the weights finite where a few pairs can be told apart without error


@dataclass(frozen=True)
class Scores:
    """One detector's scores of the pairs, and of the same queries with documents drawn from each of some nulls.

    The higher, the likelier wrong.  nulls: (pair, draw), NaN where a pair has no such document; one draw is allowed.
    DataError for scores that are NaN, and for infinite ones.
    """

    observed: Float[Array, " pair"]
    nulls: Mapping[Null, Float[Array, "pair draw"]]

    def __post_init__(self) -> None:
        check_finite("score", self.observed)
        for null, draws in self.nulls.items():
            if bad := int(np.isinf(draws).sum()):
                raise DataError("detection.scores_values_infinite_detectors", null=null, bad=bad)


def combined(detectors: Sequence[Scores], assumed: Null | None = None) -> Scores:
    """One detector's scores as they are; of several, the sum of their z scores, of the nulls that all have.

    They weigh as `learnt_weights` has it against the null that is assumed, or that fits the plain sum best and that
    these scores do not speak against; if right pairs are told well from its documents by that, and else alike.
    A draw of the sum is one document, whose scores by all detectors are added: they draw the same documents in the same
    order, of which the first are kept that all detectors have.
    """
    if len(detectors) == 1:
        return detectors[0]
    observed, nulls = _standardised(detectors)
    return _summed(observed, nulls, _best_weights(observed, nulls, assumed))


def weights_of(detectors: Sequence[Scores], assumed: Null | None = None) -> Float[Array, " detector"]:
    """Weights by which `combined` adds the z scores of several detectors."""
    return _best_weights(*_standardised(detectors), assumed)


def _standardised(detectors: Sequence[Scores]) -> tuple[Array, Mapping[Null, Array]]:
    """(pair, detector) z scores, and of the nulls that all have (pair, draw, detector) on the same scales."""
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
    refused = best != assumed and found.reading in ("at_most", "too_easy")  # wrong pairs do not score as its documents
    return learnt if found.supported and not refused else even


def by_null(pairs: Scores, confidence: float = 0.95) -> dict[Null, RateByNull]:
    """Values of each null that has a draw."""
    shares = {null: rank_shares(pairs.observed, draws) for null, draws in pairs.nulls.items()}
    found = {null: rate_by_null(of_null, confidence, null) for null, of_null in shares.items()}
    return {null: rate for null, rate in found.items() if rate is not None}


def _summed(observed: Array, nulls: Mapping[Null, Array], weights: Float[Array, " detector"]) -> Scores:
    return Scores(observed @ weights, {null: draws @ weights for null, draws in nulls.items()})


def _draws(detectors: Sequence[Scores], null: Null) -> Float[Array, "pair draw detector"]:
    """Draws of a null on the scale of what each detector says of the observed pairs."""
    count = min(of.nulls[null].shape[1] for of in detectors)
    return np.stack([robust_z(of.nulls[null][:, :count], of.observed) for of in detectors], axis=2)


def robust_z(scores: Float[Array, "*score"], scale_of: Float[Array, " pair"]) -> Float[Array, "*score"]:
    """(score - median) / interquartile range, both of `scale_of`; zeros where that range is 0: nothing is said."""
    low, median, high = np.quantile(scale_of, [0.25, 0.5, 0.75])
    return np.asarray((scores - median) / (high - low)) if high > low else np.zeros_like(scores)


def learnt_weights(
    observed: Float[Array, "pair detector"], made_up: Float[Array, "null detector"]
) -> Float[Array, " detector"]:
    """Weights, none below 0, whose sum of scores tells made-up pairs from observed ones best; equal if none does.

    made_up: rows with NaN are left out.
    Logistic regression with a slight ridge.  The observed pairs hold wrong ones too, which changes the probability
    that comes out but not its order, as long as these score as the made-up ones do: no label is needed.
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
