"""From the scores of pairs to verdicts and a noise rate: what the stage and training both call."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32

from noisyir.errors import DataError
from noisyir.noise.combine import Scores
from noisyir.noise.mixture import fit_betas, fit_gaussians
from noisyir.noise.null import Null, rank_shares, wrong_by_null
from noisyir.noise.rate import RateByNull, rate_by_null
from noisyir.noise.settings import DetectParams

Array = np.ndarray


_MIXTURES = {"gmm": fit_gaussians, "beta": fit_betas}


@dataclass(frozen=True)
class Detection:
    """Verdicts on pairs, and what was estimated on the way.

    is_clean is p_clean >= params.threshold, except that nothing is flagged below `min_rate`; both are monotone in the
    score.
    estimate: `rate`, the share of wrong pairs by the null that fits best, and `rate_low`, `rate_high`, the range over
    all nulls; `NULL.rate`, `.low`, `.high`, `.fit`, `.tail` and `.auroc` of each null (`RateByNull`), where they can
    be said; `flagged`, the share of pairs called wrong; `threshold`, the highest score of a pair called clean (absent
    where none is); of a mixture, where one was fitted, the `clean_` and `noisy_` `weight`, `mean` and `std` in the
    unit of the scores.
    """

    p_clean: Float32[Array, " pair"]
    is_clean: Bool[Array, " pair"]
    estimate: dict[str, float]


def detect(pairs: Scores, params: DetectParams, rng: np.random.Generator) -> Detection:
    """Judge pairs by their scores, higher being likelier wrong; all clean where the rate is below `min_rate`.

    DataError for no pairs, and where no null has a draw.
    The method `null` takes wrong pairs to score as the documents of the null that fits best do.  They do not if the
    scoring model was trained on these very pairs: the rate is then too low, and a mixture judges better.
    """
    scores = pairs.observed
    if not len(scores):
        raise DataError("detect: there are no pairs to judge")
    said = {
        null: rate_by_null(rank_shares(scores, draws, rng), params.confidence, draws=draws.shape[1])
        for null, draws in pairs.nulls.items()
    }
    best = best_fit(said)
    rate = said[best].rate
    estimate = {"rate": rate, **over_all(said)}
    if params.method == "null":
        p_clean = 1 - wrong_by_null(scores, _drawn(pairs.nulls[best]), rate)
    else:
        mixture = _MIXTURES[params.method](scores, clip=params.clip, least_weight=params.min_rate)
        p_clean = mixture.p_clean(scores) if mixture else np.ones(len(scores))
        estimate |= mixture.in_score_unit() if mixture else {}
    p_clean = p_clean.astype(np.float32)
    is_clean = (p_clean >= np.float32(params.threshold)) | (rate < params.min_rate)
    estimate["flagged"] = float(1 - is_clean.mean())
    if is_clean.any():
        estimate["threshold"] = float(scores[is_clean].max())
    return Detection(p_clean, is_clean, estimate)


def best_fit(said: Mapping[Null, RateByNull]) -> Null:
    """The null whose check finds least against it; `random`, or the first there is, where none can be checked."""
    checked = {null: found for null, found in said.items() if math.isfinite(found.fit)}
    if checked:
        return max(checked, key=lambda null: checked[null].fit)
    usable = [null for null, found in said.items() if math.isfinite(found.rate)]
    if not usable:
        raise DataError("detect: no wrong pair could be made up: all pairs have the same document")
    return "random" if "random" in usable else usable[0]


def over_all(said: Mapping[Null, RateByNull]) -> dict[str, float]:
    """What all nulls say: the range of their intervals, and each one's values that are numbers."""
    usable = {null: found for null, found in said.items() if math.isfinite(found.rate)}
    values = {
        f"{null}.{name}": getattr(found, name)
        for null, found in usable.items()
        for name in ("rate", "low", "high", "fit", "tail", "auroc")
    }
    ends = {
        "rate_low": min(found.low for found in usable.values()),
        "rate_high": max(found.high for found in usable.values()),
    }
    return ends | {name: float(value) for name, value in values.items() if math.isfinite(value)}


def _drawn(draws: Float[Array, "pair draw"]) -> Float[Array, " null"]:
    return np.asarray(draws[np.isfinite(draws)])
