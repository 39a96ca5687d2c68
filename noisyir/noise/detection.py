"""From the scores of pairs to verdicts and a noise rate: what the stage and training both call."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32

from noisyir.errors import DataError
from noisyir.noise.combine import Scores
from noisyir.noise.mixture import fit_betas, fit_gaussians
from noisyir.noise.null import blended, near_share, wrong_by_null
from noisyir.noise.rate import lowest_quantile, noise_rate, noise_rate_interval
from noisyir.noise.settings import DetectParams

Array = np.ndarray


_MIXTURES = {"gmm": fit_gaussians, "beta": fit_betas}


@dataclass(frozen=True)
class Detection:
    """Verdicts on pairs, and what was estimated on the way.

    is_clean is p_clean >= params.threshold; both are monotone in the score, but where `params.posterior` is `bayes`.
    estimate: `rate`, the share of wrong pairs, and its interval `rate_low`, `rate_high`; `near_share`, how many of the
    wrong documents seem to be near neighbours of the right ones, the others being random; `flagged`, the share of pairs
    called wrong; `threshold`, the highest score of a pair called clean (absent where none is); of a mixture, where one
    was fitted, the `clean_` and `noisy_` `weight`, `mean` and `std` in the unit of the scores.
    """

    p_clean: Float32[Array, " pair"]
    is_clean: Bool[Array, " pair"]
    estimate: dict[str, float]


def detect(pairs: Scores, params: DetectParams, rng: np.random.Generator, *, interval: bool = True) -> Detection:
    """Judge pairs by their scores, higher being likelier wrong; all clean where the rate is below `min_rate`.

    interval: whether the rate's bootstrap interval is wanted, which takes most of the time.  DataError for no pairs.
    The rate, and the method `null`, take wrong pairs to score as random documents and near neighbours do.  They do not
    if the scoring model was trained on these very pairs: the rate is then too low, and a mixture judges better.
    """
    scores, null_scores, share = pairs.observed, pairs.random, 0.0
    if not len(scores):
        raise DataError("detect: there are no pairs to judge")
    if pairs.near is not None:
        share = near_share(scores, null_scores, pairs.near)
        null_scores = blended(null_scores, pairs.near, share)
    quantile = lowest_quantile(scores, null_scores, params.null_quantile)
    rate = noise_rate(scores, null_scores, quantile)
    estimate = {"rate": rate, "near_share": share}
    if interval:
        low, high = noise_rate_interval(
            scores, null_scores, params.confidence, params.resamples, rng, null_quantile=quantile
        )
        estimate |= {"rate_low": low, "rate_high": high}
    if params.method == "null":
        p_clean = 1 - wrong_by_null(scores, null_scores, rate)
    else:
        mixture = _MIXTURES[params.method](scores, params.clip, params.min_rate, params.components)
        p_clean = mixture.posterior(scores, params.posterior) if mixture else np.ones(len(scores))
        estimate |= mixture.in_score_unit() if mixture else {}
    if rate < params.min_rate:
        p_clean = np.maximum(p_clean, params.threshold)
    p_clean = p_clean.astype(np.float32)
    is_clean = p_clean >= np.float32(params.threshold)
    estimate["flagged"] = float(1 - is_clean.mean())
    if is_clean.any():
        estimate["threshold"] = float(scores[is_clean].max())
    return Detection(p_clean, is_clean, estimate)
