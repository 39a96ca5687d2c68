"""Error rates of a non-human judge against human verdicts, and the true rate behind its verdicts."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from noisyir.detection.calibration.logistic import Prior, most_likely_weights
from noisyir.detection.rate import Interval, half_width, normal_quantile, powered_rate, wilson

Array = np.ndarray

FEWEST_OF_A_KIND = 10  # minimum pairs called wrong, and called clean, by people to correct for a judge's error
FEWEST_BY_PEOPLE = 20  # minimum random pairs judged by people to add a judge's verdicts
MANY = 10**9  # number of judge verdicts that makes their sampling error negligible
_GROUPS, _IN_A_GROUP = 5, 10  # calibration table: maximum groups, and minimum pairs in each
_SUREST = 1e-6  # clips a judge's probabilities: the log odds of 0 and 1 are infinite
_FLAT = 1e-3  # precision of a nearly flat prior, which makes the mode unique even for pure groups


class JudgeError(NamedTuple):
    """How often a judge agrees with human verdicts.

    Attributes:
        sensitivity: Share called wrong among the `wrong` pairs that people call wrong; NaN if there are none.
        specificity: Share called clean among the `clean` pairs that people call clean; NaN if there are none.
    """

    sensitivity: float
    wrong: int
    specificity: float
    clean: int

    @property
    def can_be_corrected_for(self) -> bool:
        """Return whether both kinds have enough pairs and the judge does better than chance."""
        enough = min(self.wrong, self.clean) >= FEWEST_OF_A_KIND
        return enough and self.sensitivity + self.specificity > 1


def judge_error(says_wrong: Bool[Array, " judged"], is_wrong: Bool[Array, " judged"]) -> JudgeError:
    """Estimate the judge's error from human verdicts on the same pairs."""
    wrong, clean = int(is_wrong.sum()), int((~is_wrong).sum())
    found, passed = int((says_wrong & is_wrong).sum()), int((~says_wrong & ~is_wrong).sum())
    return JudgeError(found / wrong if wrong else math.nan, wrong, passed / clean if clean else math.nan, clean)


def rate_behind(said_wrong: float, asked: int, error: JudgeError, confidence: float = 0.95) -> Interval:
    """Estimate the true share of wrong pairs from a judge's verdicts on `asked` pairs drawn at random.

    The estimate is (said + specificity - 1) / (sensitivity + specificity - 1), clipped to [0, 1]. The interval accounts
    for the estimation error of sensitivity and specificity, each with one right and one wrong answer added. Assumes
    that the judge errs on the pairs judged by people as it does on all pairs.

    Raises:
        ValueError: If the judge is no better than chance.

    Source: Rogan and Gladen, American Journal of Epidemiology, 1978; interval: Lang and Reiczigel, Preventive
    Veterinary Medicine, 2014.
    """
    if error.sensitivity + error.specificity <= 1:
        raise ValueError("a judge that is no better than a coin tells no rate")
    rate = (said_wrong + error.specificity - 1) / (error.sensitivity + error.specificity - 1)
    z = normal_quantile(confidence)
    size, wrong, clean = asked + z**2, error.wrong + 2, error.clean + 2
    said = (asked * said_wrong + z**2 / 2) / size
    sensitivity = (error.wrong * error.sensitivity + 1) / wrong
    specificity = (error.clean * error.specificity + 1) / clean
    power = sensitivity + specificity - 1
    if power <= 0:  # by chance only: the measured power is above 0
        return Interval(_cut(rate), 0.0, 1.0)
    centre = (said + specificity - 1) / power
    of_wrong = sensitivity * (1 - sensitivity) / wrong
    of_clean = specificity * (1 - specificity) / clean
    shift = 2 * z**2 * (centre * of_wrong - (1 - centre) * of_clean)
    variance = said * (1 - said) / size + centre**2 * of_wrong + (1 - centre) ** 2 * of_clean
    half = z * math.sqrt(variance) / power
    return Interval(_cut(rate), _cut(centre + shift - half), _cut(centre + shift + half))


def _cut(share: float) -> float:
    return min(max(share, 0.0), 1.0)


def calibration_split(labels: int, said_wrong: float, error: JudgeError, least: int) -> tuple[int, int]:
    """Split `labels` into (wrong, clean): how many pairs of each kind, as called by people, to label.

    The split approximately minimises the width of the interval of `rate_behind`: wrong = labels / (1 + (1 / p - 1)
    sqrt(k)), where p is the share that the judge calls wrong and k = (1 - specificity) / (1 - sensitivity), each with
    one right and one wrong answer added.

    Args:
        error: Estimated from the labels so far.
        least: Minimum number of labels of each kind, in `error` and in the result.

    Raises:
        ValueError: If 2 * `least` exceeds `labels`.

    Source: Lee et al., "How to Correctly Report LLM-as-a-Judge Evaluations", arXiv:2511.21140, Algorithm 1.
    """
    if 2 * least > labels:
        raise ValueError(f"{labels} labels do not hold {least} of either kind")
    if said_wrong <= 0:
        return least, labels - least
    missed = (error.wrong * (1 - error.sensitivity) + 1) / (error.wrong + 2)
    alarmed = (error.clean * (1 - error.specificity) + 1) / (error.clean + 2)
    wrong = round(labels / (1 + (1 / said_wrong - 1) * math.sqrt(alarmed / missed)))
    wrong = min(max(wrong, least), labels - least)
    return wrong, labels - wrong


class Reach(NamedTuple):
    """Precision of a rate from a judge and human labels: half the width of its interval.

    Attributes:
        alone: From human labels without the judge; NaN if these are not a random sample.
        limit: With the judge's verdicts on all pairs, however many there are.
    """

    alone: float
    limit: float


def reach_of_sample(
    is_wrong: Bool[Array, " label"], said: Float[Array, " label"], confidence: float = 0.95, labels: int | None = None
) -> Reach:
    """Precision from a random sample of labels, or from a similar sample of `labels` pairs.

    Args:
        said: The judge's probability that each pair is wrong.

    Source: `powered_rate`, with the judge's mean over all pairs known.
    """
    even, mean = np.ones(len(said)), np.full(len(said), said.mean())
    found = powered_rate(is_wrong, even, said, mean, math.inf, confidence)
    more = (labels or len(said)) - len(said)
    low, high = wilson(float(is_wrong.mean()), len(said) + more, confidence)
    return Reach((high - low) / 2, half_width(found, len(said), more, MANY, confidence))


def reach_of_error(said_wrong: float, error: JudgeError, confidence: float = 0.95) -> Reach:
    """Precision from sensitivity and specificity, if the labels are not a random sample."""
    found = rate_behind(said_wrong, MANY, error, confidence)
    return Reach(math.nan, (found.high - found.low) / 2)


class SureGroup(NamedTuple):
    """Pairs with similar judge probabilities: their mean, and the share called wrong by people with its interval."""

    pairs: int
    says: float
    wrong: float
    low: float
    high: float


class JudgeCalibration(NamedTuple):
    """A judge's probabilities compared with human verdicts.

    Attributes:
        says: Mean of the judge's probabilities.
        wrong: Mean of the human verdicts.
        error: Expected calibration error: the mean absolute difference over the groups.
        by_chance: Error that a perfectly calibrated judge would show with this many pairs.
        p: P-value of the test that both level and slope of the log odds are right.
        groups: Groups in ascending order of probability.
    """

    pairs: int
    says: float
    wrong: float
    error: float
    by_chance: float
    p: float
    groups: tuple[SureGroup, ...]


def calibration(
    p_wrong: Float[Array, " pair"], is_wrong: Bool[Array, " pair"], confidence: float = 0.95
) -> JudgeCalibration:
    """Measure how well a judge's probabilities are calibrated, in groups of equal size.

    Source: Naeini, Cooper and Hauskrecht, AAAI 2015 (expected calibration error); a mean of n errors of variance p (1 -
    p) is off by sqrt(2 / pi) standard errors; Cox, Biometrika, 1958 (test: likelihood ratio, 2 degrees of freedom).
    """
    order = np.argsort(p_wrong, kind="stable")
    parts = np.array_split(order, max(1, min(_GROUPS, len(order) // _IN_A_GROUP)))
    groups, chance, total = [], 0.0, len(order)
    for part in parts:
        says, wrong = float(p_wrong[part].mean()), float(is_wrong[part].mean())
        groups.append(SureGroup(len(part), says, wrong, *wilson(wrong, len(part), confidence)))
        chance += math.sqrt(2 / math.pi * float((p_wrong[part] * (1 - p_wrong[part])).sum())) / total
    error = sum(group.pairs * abs(group.says - group.wrong) for group in groups) / total
    p = _p_of_level_and_slope(p_wrong, is_wrong)
    return JudgeCalibration(total, float(p_wrong.mean()), float(is_wrong.mean()), error, chance, p, tuple(groups))


def _p_of_level_and_slope(p_wrong: Float[Array, " pair"], is_wrong: Bool[Array, " pair"]) -> float:
    """P-value of the likelihood ratio of a + b log odds against the log odds.

    The chi-square tail with 2 degrees of freedom is exp(-x / 2).
    """
    sure = np.clip(p_wrong, _SUREST, 1 - _SUREST)
    odds = np.log(sure / (1 - sure))
    columns = np.column_stack([np.ones(len(odds)), odds])
    fitted = columns @ most_likely_weights(columns, is_wrong, Prior(np.zeros(2), np.full(2, _FLAT)))
    losses = [np.logaddexp(0, np.where(is_wrong, -one, one)).sum() for one in (odds, fitted)]
    return math.exp(min(0.0, float(losses[1] - losses[0])))
