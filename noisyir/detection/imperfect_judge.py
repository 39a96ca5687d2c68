"""The share of wrong pairs by a judge that errs: how often it errs, and the rate set right by what people say."""

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

Array = np.ndarray

FEWEST_OF_A_KIND = 10  # pairs that people call wrong, and that they call clean, before a judge's error is corrected for
FEWEST_BY_PEOPLE = 20  # pairs that people judged at random, before a judge's word is added to theirs


class RateByJudge(NamedTuple):
    """A share of wrong pairs with its interval."""

    rate: float
    low: float
    high: float


class JudgeError(NamedTuple):
    """How often a judge is right about pairs that people judged.

    sensitivity: share called wrong of the pairs that people call wrong, of which there are `wrong`; specificity: share
    called clean of those that people call clean, of which there are `clean`.  NaN where there is none of a kind.
    """

    sensitivity: float
    wrong: int
    specificity: float
    clean: int

    @property
    def can_be_corrected_for(self) -> bool:
        """Whether there are enough pairs of either kind, and the judge does better than a coin."""
        enough = min(self.wrong, self.clean) >= FEWEST_OF_A_KIND
        return enough and self.sensitivity + self.specificity > 1


def judge_error(says_wrong: Bool[Array, " judged"], is_wrong: Bool[Array, " judged"]) -> JudgeError:
    """The judge's error by the same pairs' verdicts of people."""
    wrong, clean = int(is_wrong.sum()), int((~is_wrong).sum())
    found, passed = int((says_wrong & is_wrong).sum()), int((~says_wrong & ~is_wrong).sum())
    return JudgeError(found / wrong if wrong else math.nan, wrong, passed / clean if clean else math.nan, clean)


def rate_behind(said_wrong: float, asked: int, error: JudgeError, confidence: float = 0.95) -> RateByJudge:
    """The share of wrong pairs behind the share that a judge calls wrong among `asked` pairs drawn at random.

    (said + specificity - 1) / (sensitivity + specificity - 1), cut to [0, 1].  The interval counts that sensitivity and
    specificity are themselves estimates, each with one right and one wrong answer added.  Assumes that the judge errs
    on the pairs that people judged as it does on all.  ValueError for a judge that is no better than a coin.
    Source: Rogan and Gladen, American Journal of Epidemiology, 1978; interval: Lang and Reiczigel, Preventive
    Veterinary Medicine, 2014.
    """
    if error.sensitivity + error.specificity <= 1:
        raise ValueError("a judge that is no better than a coin tells no rate")
    rate = (said_wrong + error.specificity - 1) / (error.sensitivity + error.specificity - 1)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    size, wrong, clean = asked + z**2, error.wrong + 2, error.clean + 2
    said = (asked * said_wrong + z**2 / 2) / size
    sensitivity = (error.wrong * error.sensitivity + 1) / wrong
    specificity = (error.clean * error.specificity + 1) / clean
    power = sensitivity + specificity - 1
    if power <= 0:  # by chance only: what was measured lies above
        return RateByJudge(_cut(rate), 0.0, 1.0)
    centre = (said + specificity - 1) / power
    of_wrong = sensitivity * (1 - sensitivity) / wrong
    of_clean = specificity * (1 - specificity) / clean
    shift = 2 * z**2 * (centre * of_wrong - (1 - centre) * of_clean)
    variance = said * (1 - said) / size + centre**2 * of_wrong + (1 - centre) ** 2 * of_clean
    half = z * math.sqrt(variance) / power
    return RateByJudge(_cut(rate), _cut(centre + shift - half), _cut(centre + shift + half))


def _cut(share: float) -> float:
    return min(max(share, 0.0), 1.0)
