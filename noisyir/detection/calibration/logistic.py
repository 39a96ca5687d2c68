"""Learning from a few judgements: the probability that each pair is wrong, and whether it beats the label-free order.

The log odds of being wrong are a + b s + w x, where s is the pair's place in the label-free order and x its features.
Before any judgement b is 1 and every w is 0, which is the label-free order; judgements move them from there.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from jaxtyping import Bool, Float, Int

from noisyir.base.pages.cells import percent
from noisyir.detection.features import rank_share
from noisyir.detection.judgements import HumanJudgement
from noisyir.detection.mixture import check_finite
from noisyir.detection.rate import Interval, normal_quantile

Array = np.ndarray

FOLDS = 10
FEWEST = 20  # randomly drawn judged pairs: fewer give a rough rate, but no order and no threshold
GAIN_CONFIDENCE = 0.8  # one-sided confidence of the gain's lower bound
_OF_ONE_SESSION = 1.5  # factor of the gain's standard error
_OF_LEVEL, _OF_ORDER = 0.25, 4.0  # precisions of a and b
_OF_PLATT = 1.0  # precision of level and slope in the final calibration
_LEAST_SLOPE = 0.05  # in the final calibration, and of the order without features: keeps the order
_VARIANCES = (0.3, 0.1, 0.03)  # prior variances of a feature's weight, tried in turn
_ROUNDS, _TOLERANCE = 50, 1e-6
_LARGEST_STEP = 4.0  # maximum change of a weight per iteration: distant Newton steps overshoot


@dataclass(frozen=True)
class JudgedPairs:
    """Pairs judged wrong or clean by people.

    Attributes:
        rows: Row of each pair, without repetition.
        weights: Number of pairs that each one represents, up to a common factor; NaN if it was not drawn at random.
    """

    rows: Int[Array, " judged"]
    is_wrong: Bool[Array, " judged"]
    weights: Float[Array, " judged"]

    @classmethod
    def of(cls, by_row: Mapping[int, HumanJudgement]) -> Self:
        """The pairs that are decided."""
        said = {row: judged for row, judged in by_row.items() if judged.verdict != "unclear"}
        weights = [math.nan if judged.weight is None else judged.weight for judged in said.values()]
        is_wrong = np.array([judged.verdict == "wrong" for judged in said.values()], bool)
        return cls(np.array(list(said), np.int64), is_wrong, np.array(weights, np.float64))

    @property
    def at_random(self) -> "JudgedPairs":
        """The pairs that were drawn at random."""
        drawn = ~np.isnan(self.weights)
        return JudgedPairs(self.rows[drawn], self.is_wrong[drawn], self.weights[drawn])


class Gain(NamedTuple):
    """Relative reduction of the log loss: an estimate and its lower bound at GAIN_CONFIDENCE."""

    value: float
    at_least: float


@dataclass(frozen=True)
class Lesson:
    """A model learnt from judgements.

    Attributes:
        p_wrong: Probability that each pair is wrong, from a model fitted without the judgements of the pair's own query
            and calibrated on the randomly drawn pairs.
        suspicion: The resulting order, or the label-free scores if judgements do not improve them.
        fold: Number of that model for each pair.
        chance: Its probability before calibration.
        chance_by_fold: Mean of each model's probabilities over all pairs.
        order: AUROC of `suspicion` on the judged pairs; None if these are too few or all of one kind.
        gain: Cross-validated gain from the features; None in the same cases and without features.
        improves: Whether the lower bound of the gain is above 0 and AUROC does not fall; `p_wrong` and the order then
            use the features.
    """

    p_wrong: Float[Array, " pair"]
    suspicion: Float[Array, " pair"]
    fold: Int[Array, " pair"]
    chance: Float[Array, " pair"]
    chance_by_fold: Float[Array, " fold"]
    order: Interval | None
    gain: Gain | None
    improves: bool

    def advice(self) -> str:
        """Say in one sentence whether judgements improve the order."""
        if self.order is None:
            return "Too few pairs are judged to say whether judgements improve the order."
        if self.gain is None:
            return "The order stays without judgements: this detector has no features to learn from."
        value, least, sure = map(percent, (self.gain.value, self.gain.at_least, GAIN_CONFIDENCE))
        gain = f"by {value}, and by {least} at least with {sure} confidence"
        if not self.improves:
            return f"The order stays without judgements: they change the log loss of unseen verdicts {gain}."
        return f"Judgements improve the order: they lower the log loss of unseen verdicts {gain}."


def learn(
    scores: Float[Array, " pair"],
    features: Float[Array, "pair feature"] | None,
    query: Int[Array, " pair"],
    answers: JudgedPairs,
) -> Lesson:
    """Estimate from the judgements how likely each pair is wrong, and whether they improve the label-free order.

    The features are used only if the lower bound of their gain is above 0 and AUROC on the judged pairs does not fall;
    the largest prior variance of their weights that satisfies this is taken.

    Args:
        scores: The label-free order; higher means more likely wrong, and only ranks matter.
        query: Query of each pair; the pairs of a query share a fold.

    Source: Platt, 1999 (last step).
    """
    check_finite("score", scores)
    level, order = np.ones(len(scores)), _normal_scores(scores)
    fold, truth, rows = _folds(query, answers), answers.is_wrong, answers.rows
    odds, free = _cross_fitted(np.column_stack([level, order]), fold, answers), np.asarray(scores, np.float64)
    own, found, gain, improves = odds.mean(axis=1), None, None, False
    if len(truth) >= FEWEST and bool(truth.any()) and not truth.all():
        found = auroc(free[rows], truth)
        if features is not None:
            columns, plain = np.column_stack([level, order, features]), _losses(_own(odds, fold), answers)
            for variance in _VARIANCES:
                taught = _cross_fitted(columns, fold, answers, variance)
                gain = _share_gained(plain, _losses(_own(taught, fold), answers))
                learnt = _own(taught - taught.mean(axis=0) + taught.mean(), fold)
                by_features = auroc(learnt[rows], truth)
                if gain.at_least > 0 and found and by_features and by_features.value >= found.value:
                    odds, own, found, improves = taught, learnt, by_features, True
                    break
    return Lesson(
        p_wrong=_calibrated(own, rows, truth),
        suspicion=own if improves else free,
        fold=fold,
        chance=_chance(_own(odds, fold)),
        chance_by_fold=_chance(odds).mean(axis=0),
        order=found,
        gain=gain,
        improves=improves,
    )


def _folds(query: Int[Array, " pair"], answers: JudgedPairs) -> Int[Array, " pair"]:
    """Assign each pair a fold, shared by all pairs of its query.

    Judged queries are dealt out in the order of their numbers, independently of the verdicts.
    """
    _, number = np.unique(query, return_inverse=True)
    queries = int(number.max(initial=-1)) + 1
    shuffled = np.random.default_rng(0).permutation(queries)
    is_judged = np.zeros(queries, bool)
    is_judged[number[answers.rows]] = True
    dealt = shuffled[np.argsort(~is_judged[shuffled], kind="stable")]
    fold = np.empty(queries, np.int64)
    fold[dealt] = np.arange(queries) % FOLDS
    return fold[number]


def _cross_fitted(
    columns: Array, fold: Array, answers: JudgedPairs, variance: float = 1.0
) -> Float[Array, "pair fold"]:
    """Compute log odds of all pairs by FOLDS models, each fitted to the judgements outside its fold.

    Level and order have an informative prior; feature weights have mean 0 and variance `variance`. Without features the
    odds increase with the order even if judgements contradict it: its weight is then _LEAST_SLOPE.

    Args:
        columns: Ones, the order and the features.
    """
    mean, precision = np.zeros(columns.shape[1]), np.full(columns.shape[1], 1 / variance)
    mean[1], precision[:2] = 1.0, (_OF_LEVEL, _OF_ORDER)
    judged, of_fold = columns[answers.rows], fold[answers.rows]
    weights = [
        most_likely_weights(judged[of_fold != number], answers.is_wrong[of_fold != number], Prior(mean, precision))
        for number in range(FOLDS)
    ]
    by_fold = np.column_stack(weights)
    if len(mean) == 2:
        by_fold[1] = np.maximum(by_fold[1], _LEAST_SLOPE)
    return np.asarray(columns @ by_fold)


def _calibrated(odds: Float[Array, " pair"], rows: Array, truth: Array) -> Float[Array, " pair"]:
    """Turn log odds into probabilities, with level and slope fitted to the randomly drawn pairs; the order is kept."""
    columns = np.column_stack([np.ones(len(odds)), odds])
    level, slope = most_likely_weights(columns[rows], truth, Prior(np.array([0.0, 1.0]), np.full(2, _OF_PLATT)))
    return _chance(level + max(slope, _LEAST_SLOPE) * odds)


def _own(values: Float[Array, "pair fold"], fold: Int[Array, " pair"]) -> Float[Array, " pair"]:
    """Select each pair's value by the model not fitted to its query."""
    return np.asarray(values[np.arange(len(fold)), fold])


def _normal_scores(scores: Float[Array, " pair"]) -> Float[Array, " pair"]:
    """Standard normal quantiles of the pairs' ranks, which put scores of any unit and shape on one scale."""
    from scipy.special import ndtri

    return np.asarray(ndtri(rank_share(scores) + 0.5))


def _chance(odds: Array) -> Array:
    from scipy.special import expit

    return np.asarray(expit(odds))


def _losses(odds: Float[Array, " pair"], answers: JudgedPairs) -> Float[Array, " judged"]:
    """Negative log-likelihood of each verdict, in nats."""
    judged = odds[answers.rows]
    return np.asarray(np.logaddexp(0, np.where(answers.is_wrong, -judged, judged)))


def _share_gained(plain: Float[Array, " judged"], taught: Float[Array, " judged"]) -> Gain:
    """Relative reduction of the loss from `plain` to `taught` on the same pairs, with a normal lower bound.

    _OF_ONE_SESSION times the standard error of independent losses is taken, because losses within a fold are correlated
    and the first of several models that gains is selected. The factor was determined on StaQC and nl2bash.
    """
    gained, lost = plain - taught, float(plain.mean())
    error = _OF_ONE_SESSION * float(gained.std(ddof=1)) / math.sqrt(len(gained))
    mean, half = float(gained.mean()), normal_quantile(2 * GAIN_CONFIDENCE - 1) * error
    return Gain(mean / lost, (mean - half) / lost)


class Prior(NamedTuple):
    """Prior of each weight: its mean and its precision, 1 / variance."""

    mean: Float[Array, " column"]
    precision: Float[Array, " column"]


def most_likely_weights(
    columns: Float[Array, "row column"], is_wrong: Bool[Array, " row"], prior: Prior
) -> Float[Array, " column"]:
    """Find the posterior mode of the weights of the log odds of being wrong, by Newton's method.

    The prior precisions are positive, so the mode is unique for any rows, even none.

    Source: McCullagh and Nelder, Generalized Linear Models, 1989, section 4.4; Bishop, Pattern Recognition and Machine
    Learning, 2006, section 4.5 (normal prior).
    """
    from scipy.special import expit

    weights = prior.mean.astype(np.float64)
    for _ in range(_ROUNDS):
        chance = expit(columns @ weights)
        slope = columns.T @ (chance - is_wrong) + prior.precision * (weights - prior.mean)
        bend = (columns.T * (chance * (1 - chance))) @ columns + np.diag(prior.precision)
        step = np.linalg.solve(bend, slope)
        largest = float(np.abs(step).max(initial=0.0))
        weights = weights - step * min(1.0, _LARGEST_STEP / max(largest, _TOLERANCE))
        if largest < _TOLERANCE:
            break
    return weights


def auroc(
    suspicion: Float[Array, " pair"], is_wrong: Bool[Array, " pair"], confidence: float = 0.95
) -> Interval | None:
    """Estimate the probability that a wrong pair is more suspect than a right one, ties counted half.

    None if a kind is missing. The interval is normal on the log-odds scale, so it stays within 0 and 1; half a pair of
    either order is added if all are in one order.

    Source: DeLong, DeLong and Clarke-Pearson, Biometrics, 1988.
    """
    wrong, right = int(is_wrong.sum()), int((~is_wrong).sum())
    if not wrong or not right:
        return None
    of_wrong, of_right = _placements(suspicion, is_wrong)
    value = float(of_wrong.mean())
    least = 0.5 / (wrong * right)
    shrunk = min(max(value, least), 1 - least)
    floor = shrunk * (1 - shrunk) / (wrong + right)  # a few pairs in perfect order do not prove an AUROC of 1
    error = math.sqrt(max(_variance(of_wrong) + _variance(of_right), floor)) / (shrunk * (1 - shrunk))
    odds, half = math.log(shrunk / (1 - shrunk)), normal_quantile(confidence) * error
    return Interval(value, *(1 / (1 + math.exp(-(odds + side * half))) for side in (-1, 1)))


def _placements(suspicion: Array, is_wrong: Array) -> tuple[Float[Array, " wrong"], Float[Array, " right"]]:
    """For each wrong pair the share of right ones below it; for each right pair the share of wrong ones above."""
    wrong, right = np.sort(suspicion[is_wrong]), np.sort(suspicion[~is_wrong])

    def below(values: Array, of: Array) -> Array:
        both = np.searchsorted(of, values, "left") + np.searchsorted(of, values, "right")
        return np.asarray(both / (2 * len(of)))

    return below(wrong, right), 1 - below(right, wrong)


def _variance(placements: Array) -> float:
    """Variance of the mean of the placements; for a single one, the maximum possible."""
    return float(placements.var(ddof=1)) / len(placements) if len(placements) > 1 else 0.25
