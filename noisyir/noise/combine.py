"""Several detectors as one: each weighs as much as it helps to tell synthetic wrong pairs from the observed ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from noisyir.noise.mixture import check_finite
from noisyir.noise.null import near_share

Array = np.ndarray

_RIDGE = 1e-4  # keeps the weights finite where a few pairs can be told apart without error


@dataclass(frozen=True)
class Scores:
    """One detector's scores of the pairs, and of the same queries with a random document and with a near neighbour.

    The higher, the likelier wrong.  near: None where no neighbours were scored.  DataError for NaN and infinity.
    """

    observed: Float[Array, " pair"]
    random: Float[Array, " pair"]
    near: Float[Array, " pair"] | None = None

    def __post_init__(self) -> None:
        check_finite("score", self.observed)
        check_finite("null_score", self.random)
        if self.near is not None:
            check_finite("near_score", self.near)


def combined(detectors: Sequence[Scores]) -> Scores:
    """One detector's scores as they are; of several, the weighted sum of their z scores.

    The weights are learnt twice: against random documents and near neighbours alike, and then against as many of each
    as there seem to be among the wrong pairs (`near_share`).
    """
    if len(detectors) == 1:
        return detectors[0]
    observed, random = (_z([getattr(d, name) for d in detectors], detectors) for name in ("observed", "random"))
    if any(d.near is None for d in detectors):
        weights = learnt_weights(observed, random)
        return Scores(observed @ weights, random @ weights)
    near = _z([d.near for d in detectors if d.near is not None], detectors)
    weights = learnt_weights(observed, random, near)
    share = near_share(observed @ weights, random @ weights, near @ weights)
    weights = learnt_weights(observed, random, near, share)
    return Scores(observed @ weights, random @ weights, near @ weights)


def robust_z(scores: Float[Array, " score"], scale_of: Float[Array, " pair"]) -> Float[Array, " score"]:
    """(score - median) / interquartile range, both of `scale_of`; zeros where that range is 0: nothing is said."""
    low, median, high = np.quantile(scale_of, [0.25, 0.5, 0.75])
    return np.asarray((scores - median) / (high - low)) if high > low else np.zeros(len(scores))


def learnt_weights(
    observed: Float[Array, "pair detector"],
    random: Float[Array, "null detector"],
    near: Float[Array, "null detector"] | None = None,
    share: float = 0.5,
) -> Float[Array, " detector"]:
    """Weights, none below 0, whose sum of scores tells synthetic pairs from observed ones best; equal if none does.

    share: how much near neighbours count among the synthetic ones, where there are any.
    Logistic regression with a slight ridge.  The observed pairs hold wrong ones too, which changes the probability
    that comes out but not its order, as long as these score as the synthetic ones do: no label is needed.
    Source: Elkan and Noto, KDD 2008, Lemma 1 (learning from positive and unlabelled examples).
    """
    from scipy.optimize import minimize
    from scipy.special import expit

    samples = [(observed, 1.0), (random, 1.0)]
    if near is not None:
        samples[1:] = [(random, 1 - share), (near, share)]
    scores = np.concatenate([sample for sample, _ in samples])
    counts = np.repeat([count for _, count in samples], [len(sample) for sample, _ in samples]) / len(scores)
    features = np.column_stack([scores, np.ones(len(scores))])
    is_synthetic = np.arange(len(scores)) >= len(observed)
    sign = np.where(is_synthetic, -1.0, 1.0)
    detectors = observed.shape[1]

    def loss(weights: Array) -> tuple[float, Array]:
        logits = features @ weights
        slope = (counts * (expit(logits) - is_synthetic)) @ features
        return counts @ np.logaddexp(0, sign * logits) + _RIDGE * weights @ weights / 2, slope + _RIDGE * weights

    bounds = [(0, None)] * detectors + [(None, None)]
    weights = minimize(loss, np.zeros(detectors + 1), jac=True, bounds=bounds, method="L-BFGS-B").x[:detectors]
    return np.asarray(weights if weights.any() else np.ones(detectors))


def _z(scores: Sequence[Array], detectors: Sequence[Scores]) -> Float[Array, "score detector"]:
    """Scores of each detector in a column, on the scale of what it says of the observed pairs."""
    return np.column_stack([robust_z(own, of.observed) for own, of in zip(scores, detectors, strict=True)])
