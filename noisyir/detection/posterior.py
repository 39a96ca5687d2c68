"""How likely a document is relevant, from scores and from whether a pair gives it: docs/understand/posterior.md.

r: the document is relevant; g: a pair gives it; x: its columns, of the scores of teacher and retrievers.  Two sources
can say how x tells of r.  Judgements say it themselves.  Without them labels do, if it is known how many are wrong:
P(g | x, r) = P(g | r) is assumed, that wrong labels fall on documents without regard to x, and P(r | x) a logistic
curve.  All is estimated on other queries than those it is said of.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from noisyir.detection.calibration.logistic import Prior, most_likely_weights

Array = np.ndarray
_PRECISION = 0.01  # of a weight's prior: columns have a spread of one, and weights of ten are nothing unusual
_ROUNDS, _TOLERANCE = 200, 1e-4  # of expectation and maximisation; of the chances that change between two rounds
_START = 0.02  # chance of what no pair gives, in the first round
_EDGE = 1e-6
_ENOUGH = 200_000


def evidence(
    scores: Sequence[Float[Array, " candidate"]], query: Int[Array, " candidate"]
) -> Float[Array, "candidate column"]:
    """A column of ones; then of each score two: its distance from the mean of all, and from its query's best one.

    Both in the score's standard deviations over all candidates; where there is none, 0.
    """
    columns = [np.ones(len(query))]
    for score in scores:
        values = np.asarray(score, np.float64)
        width = float(values.std()) or 1.0
        best = np.full(int(query.max(initial=-1)) + 1, -np.inf)
        np.maximum.at(best, query, values)
        columns += [(values - values.mean()) / width, (values - best[query]) / width]
    return np.column_stack(columns)


@dataclass(frozen=True)
class LabelModel:
    """How labels come about: weights of P(r | x); `right` is P(g | r), `wrong` is P(g | not r)."""

    weights: Float[Array, " column"]
    right: float
    wrong: float

    def chances(
        self, columns: Float[Array, "candidate column"], given: Bool[Array, " candidate"]
    ) -> Float[Array, " candidate"]:
        """P(r | x, g), by Bayes from P(r | x) and the two chances of a label."""
        return by_label(curve(columns, self.weights), given, self.right, self.wrong)


def curve(columns: Float[Array, "candidate column"], weights: Float[Array, " column"]) -> Float[Array, " candidate"]:
    """P(r | x): the logistic curve of the log odds x . w."""
    from scipy.special import expit

    return np.asarray(expit(columns @ weights))


def by_label(
    relevant: Float[Array, " candidate"], given: Bool[Array, " candidate"], right: float, wrong: float
) -> Float[Array, " candidate"]:
    """P(r | x, g) = P(r | x) P(g | r) / (P(r | x) P(g | r) + P(not r | x) P(g | not r)).

    relevant: P(r | x).  right, wrong: P(g | r) and P(g | not r).  Where both chances are 0, P(r | x) stays.
    """
    of_relevant = relevant * np.where(given, right, 1 - right)
    of_others = (1 - relevant) * np.where(given, wrong, 1 - wrong)
    both = of_relevant + of_others
    return np.asarray(np.where(both > 0, of_relevant / np.where(both > 0, both, 1.0), relevant))


def labels_by_share(given: Bool[Array, " candidate"], wrong_share: float, relevant_share: float) -> tuple[float, float]:
    """P(g | r) and P(g | not r), from the share of given candidates that are wrong and that of relevant candidates.

    With G the share of candidates that are given, and R that of the relevant ones, they are (1 - wrong_share) G / R and
    wrong_share G / (1 - R).  R is at least (1 - wrong_share) G: labels say as much.
    """
    share = float(given.mean())
    relevant = min(max(relevant_share, (1 - wrong_share) * share + _EDGE), 1 - wrong_share * share - _EDGE)
    return (1 - wrong_share) * share / relevant, wrong_share * share / (1 - relevant)


def label_model(
    columns: Float[Array, "candidate column"],
    given: Bool[Array, " candidate"],
    wrong_share: float,
    least_share: float = 0.0,
) -> LabelModel:
    """The most likely model of the labels, of which the share `wrong_share` is wrong, by expectation maximisation.

    least_share: so many candidates are relevant at least.  Without it there is an answer that feeds itself: all that is
    relevant is given, so that nothing else is relevant.  Of more than 200,000 candidates evenly spaced ones are read.
    Source: Natarajan et al., NeurIPS 2013 (labels wrong by class); Bekker and Davis, Machine Learning 2020, section 5.
    """
    columns, given = (values[:: math.ceil(len(given) / _ENOUGH)] for values in (columns, given))
    chances = np.where(given, 1 - wrong_share, _START)
    found = LabelModel(np.zeros(columns.shape[1]), 1.0, 0.0)
    for _ in range(_ROUNDS):
        weights, share = likely_weights(columns, chances), max(float(chances.mean()), least_share)
        found = LabelModel(weights, *labels_by_share(given, wrong_share, share))
        before, chances = chances, found.chances(columns, given)
        if np.abs(chances - before).max(initial=0.0) < _TOLERANCE:
            break
    return found


def likely_weights(
    columns: Float[Array, "candidate column"], relevant: Float[Array, " candidate"] | Bool[Array, " candidate"]
) -> Float[Array, " column"]:
    """The most likely weights of P(r | x), by what was judged, or by chances to be relevant."""
    count = columns.shape[1]
    return most_likely_weights(columns, relevant, Prior(np.zeros(count), np.full(count, _PRECISION)))


@dataclass(frozen=True)
class LabelledCandidates:
    """Candidates of numbered queries; `given`: whether a pair gives them; `fold`: that of the query."""

    columns: Float[Array, "candidate column"]
    query: Int[Array, " candidate"]
    given: Bool[Array, " candidate"]
    fold: Int[Array, " candidate"]


@dataclass(frozen=True)
class JudgedCandidates:
    """Candidates that were judged, perhaps of other queries."""

    columns: Float[Array, "judged column"]
    relevant: Bool[Array, " judged"]
    fold: Int[Array, " judged"]


def cross_fitted(
    candidates: LabelledCandidates, wrong_share: float, judged: JudgedCandidates | None = None
) -> tuple[Float[Array, " candidate"], list[LabelModel]]:
    """P(r | x, g) of every candidate, each by a model of the other folds, and these models.

    P(r | x) is learnt from judgements where there are any, else from labels; the label's own say is by the share that
    is wrong.  By labels a query has one relevant candidate at least, on the average.
    """
    found, models = np.empty(len(candidates.given)), []
    for one in np.unique(candidates.fold):
        others, own = candidates.fold != one, candidates.fold == one
        columns, given = candidates.columns[others], candidates.given[others]
        if judged is None:
            least = len(np.unique(candidates.query[others])) / max(len(given), 1)
            model = label_model(columns, given, wrong_share, least)
        else:
            weights = likely_weights(judged.columns[judged.fold != one], judged.relevant[judged.fold != one])
            model = LabelModel(weights, *labels_by_share(given, wrong_share, float(curve(columns, weights).mean())))
        found[own] = model.chances(candidates.columns[own], candidates.given[own])
        models.append(model)
    return found, models


def calibration_error(chance: Float[Array, " candidate"], relevant: Bool[Array, " candidate"], bins: int = 10) -> float:
    """The expected calibration error: |mean chance - share of relevant ones| of each tenth of the scale, by its size.

    Source: Naeini, Cooper and Hauskrecht, AAAI 2015.
    """
    place = np.minimum((np.asarray(chance) * bins).astype(np.int64), bins - 1)
    gaps = np.bincount(place, chance, bins) - np.bincount(place, relevant, bins)
    return float(np.abs(gaps).sum() / max(len(place), 1))
