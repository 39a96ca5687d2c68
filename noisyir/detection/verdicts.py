"""From scores of pairs to verdicts and a noise rate, shared by the stage and by training."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Bool, Float32

from noisyir.base.errors import DataError
from noisyir.detection.combine import Scores, by_null
from noisyir.detection.mixture import Family, Mixture, fit_mixture, is_unimodal
from noisyir.detection.null import named_null, wrong_by_null, wrong_scores
from noisyir.detection.rate import RateByNull, best_fit, rate_range
from noisyir.detection.settings import NULLS, DetectParams, Null

Array = np.ndarray

_SAID = [field.name for field in fields(RateByNull)]
_ALIKE = 1 / 3  # minimum `likeness` of an upper component that is accepted without a second peak
_FAMILIES: Mapping[str, Family] = {"gmm": "gaussian", "beta": "beta"}


@dataclass(frozen=True)
class Detection:
    """Verdicts on pairs, with the estimates behind them.

    Attributes:
        p_clean: Probability of being clean; None, with all pairs called clean, if no null is supported and none is
            assumed. Monotone in the score unless `params.posterior` is `bayes`.
        is_clean: p_clean >= params.threshold, except that nothing is flagged if `rate` is below `min_rate`; monotone
            likewise.
        estimate: `rate`, the share of wrong pairs under the assumed or else best-fitting null, 0 without any;
            `rate_low` and `rate_high`, the range over all nulls; the available values of each null, `random.rate` and
            so on (`RateByNull`); `flagged`, the share of pairs called wrong; `threshold`, the highest score of a pair
            called clean (absent if there is none); if a mixture was fitted, the `clean_` and `noisy_` `weight`, `mean`
            and `std` in the unit of the scores.
    """

    p_clean: Float32[Array, " pair"] | None
    is_clean: Bool[Array, " pair"]
    estimate: dict[str, float]


def detect(pairs: Scores, params: DetectParams) -> Detection:
    """Judge pairs by score, higher meaning more likely wrong; none is flagged if the rate is below `min_rate`.

    For a null that is neither assumed nor `random`, the rate is the interval's lower end, because right pairs may look
    like its documents, too. The method `null` assumes that wrong pairs score as the documents of that null do. They do
    not if the scoring model was trained on these very pairs: the rate is then too low, and a mixture judges better.

    Raises:
        DataError: If there are no pairs, or no made-up pairs of the assumed kind.
    """
    scores = pairs.observed
    if not len(scores):
        raise DataError("detection.detect_no_pairs_judge")
    said = by_null(pairs, params.confidence)
    best = _supposed(said, params)
    rate, (low, high) = said[best].rate if best else 0.0, rate_range(said)
    estimate = {"rate": rate, "rate_low": low, "rate_high": high, **_in_estimate(said)}
    p_clean, is_clean = None, np.ones(len(scores), bool)
    if params.assume or (best and said[best].reading == "agrees"):
        sure = said[best].low if best and best != "random" and not params.assume else rate
        p_clean, mixture = _chances(pairs, params, best, sure)
        is_clean = (p_clean >= np.float32(params.threshold)) | (rate < params.min_rate)
        estimate |= mixture.in_score_unit() if mixture else {}
    estimate["flagged"] = float(1 - is_clean.mean())
    if is_clean.any():
        estimate["threshold"] = float(scores[is_clean].max())
    return Detection(p_clean, is_clean, estimate)


def _supposed(said: Mapping[Null, RateByNull], params: DetectParams) -> Null | None:
    """The null that wrong pairs are taken to be like: the assumed one, else the best-fitting; None without any."""
    if (assumed := named_null(params.assume)) is None:
        return best_fit(said) if said else None
    if assumed not in said:
        there = f"there are some of {', '.join(said)}" if said else "the detectors made none up"
        raise DataError("detection.detect_assume_no_made", assumed=assumed, there=there)
    return assumed


def _chances(
    pairs: Scores, params: DetectParams, best: Null | None, rate: float
) -> tuple[Float32[Array, " pair"], Mixture | None]:
    """Probability that each pair is right, and the mixture behind it, if any."""
    scores, mixture, p_clean = pairs.observed, None, np.ones(len(pairs.observed))
    if params.method != "null":
        mixture = _mixture(pairs, params)
        p_clean = mixture.posterior(scores, params.posterior) if mixture else p_clean
    elif best:
        least = max(rate, 1 / len(scores))  # one pair, so that pairs are ordered even at a rate of 0
        p_clean = 1 - wrong_by_null(scores, wrong_scores(scores, pairs.nulls[best]), least)
    return p_clean.astype(np.float32), mixture


def _mixture(pairs: Scores, params: DetectParams) -> Mixture | None:
    """Mixture of the scores, if accepted."""
    family, scores = _FAMILIES[params.method], pairs.observed
    if params.components != "made_up":
        return fit_mixture(scores, family, params.clip, params.min_rate, params.components)
    found = fit_mixture(scores, family, params.clip, params.min_rate, "bic")
    made_up = pairs.nulls["random"] if "random" in pairs.nulls else np.empty((0, 0))
    made_up = made_up[np.isfinite(made_up)]
    alike = found is not None and len(made_up) > 0 and found.likeness(made_up) >= _ALIKE
    return found if alike or not is_unimodal(scores, params.clip) else None


def nulls_in(estimate: Mapping[str, float]) -> dict[Null, RateByNull]:
    """Values of each null, from an estimate; NaN for those not available."""
    return {
        null: RateByNull(**{name: estimate.get(f"{null}.{name}", math.nan) for name in _SAID})
        for null in NULLS
        if f"{null}.rate" in estimate
    }


def _in_estimate(said: Mapping[Null, RateByNull]) -> dict[str, float]:
    values = {f"{null}.{name}": float(getattr(found, name)) for null, found in said.items() for name in _SAID}
    return {name: value for name, value in values.items() if math.isfinite(value)}
