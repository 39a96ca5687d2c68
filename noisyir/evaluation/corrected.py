"""Values of systems where labels are wrong or missing: a judge's chances, corrected by people's judgements of a part.

Every query has a pool, the first documents of all systems.  The documents of a pool have an order, those first that
may change most.  People judge a first part of it, of random length J: document d is judged with chance pi_d, which
falls in that order.  With m_d the measure after d documents are judged, the rest being as the judge says,

    T = m_0 + sum_(d <= J) (m_d - m_(d-1)) / pi_d

has the fully judged measure as its mean, whatever the judge says and whatever the measure is.

Source: Rhee and Glynn, Operations Research 2015 (the sum with a random end); Angelopoulos et al., Science 2023, and
Zrnic and Candes, PNAS 2024 (a model's values corrected by judgements, the model taught on other folds).
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from noisyir.detection.calibration.logistic import Prior, most_likely_weights
from noisyir.evaluation.pooled import Belief, Heads, PooledMeasure
from noisyir.evaluation.significance import Difference, mean_by_t

Array = np.ndarray
Table = Float[Array, "query document"]
_LEAST = 1e-3  # a chance is at least so far from 0 and 1
_FLOOR, _TO_MEAN = 0.1, 0.5  # the least size by the mean one; how far a chance is taken to the mean for sizes
_FOLDS = 5
_PRIOR = Prior(np.array([0.0, 1.0, 0.0, 2.0]), np.array([0.1, 1.0, 0.5, 0.5]))  # of level, judge, ranks and label
_OF_QUERY = 1.0  # variance of a query's own level, in log odds
_POWER = 2.8  # errors between two systems that are told apart at 5 % in 80 % of cases


@dataclass(frozen=True)
class Pools:
    """The pools of test queries, padded to the largest one.

    Attributes:
        pooled: What is a document, not padding.
        chance: The judge's chance of each to be relevant.
        labelled: What the labels given call relevant.
        heads: The place in the pool of each system's documents by rank, -1 where it has no more.
    """

    pooled: Bool[Array, "query document"]
    chance: Table
    labelled: Bool[Array, "query document"]
    heads: Heads

    def features(self) -> Float[Array, "query document feature"]:
        """Of each document: 1, the judge's log odds, the share of systems that have it less the mean, and the label."""
        found = (self.heads[..., None] == np.arange(self.pooled.shape[1])).any(axis=2).mean(axis=1)
        shared = found - found[self.pooled].mean()
        return np.stack([np.ones_like(self.chance), _log_odds(self.chance), shared, self.labelled], axis=2)

    def believed(self, weights: Float[Array, " feature"] = _PRIOR.mean) -> Table:
        """Chances by these weights of the features, 0 for padding."""
        return np.where(self.pooled, _chance(self.features() @ weights), 0.0)


@dataclass(frozen=True)
class Drawing:
    """How documents are drawn: those of least priority, a query's uniform number by the document's size.

    Where every document of a priority below c is judged, and no other, each was judged with chance min(1, c size).
    """

    size: Table
    priority: Table

    def chances(self, answered: Bool[Array, "query document"]) -> Table:
        """The chance with which each document was judged, 0 for one past the first without an answer."""
        end = np.min(self.priority, where=~answered, initial=math.inf)
        if math.isinf(end):
            return np.asarray(answered, np.float64)
        return np.where(self.priority < end, np.minimum(1.0, end * self.size), 0.0)

    def first(self, count: int) -> Bool[Array, "query document"]:
        """Those to judge first."""
        least = np.sort(self.priority, axis=None)[: count + 1]
        return (self.priority < least[-1]) if len(least) > count else np.isfinite(self.priority)

    def planned(self, count: int) -> Table:
        """The chance of each document if so many are to be judged on average."""
        low, high = 0.0, 1 / max(float(np.min(self.size, where=self.size > 0, initial=math.inf)), 1e-12)
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if np.minimum(1, middle * self.size).sum() < count else (low, middle)
        return np.minimum(1.0, high * self.size)


class Corrected(NamedTuple):
    """Every query's corrected value of every system, and of how many queries a document was judged."""

    values: Float[Array, "query system"]
    queries: int
    judgements: int

    def interval(self, weights: Float[Array, " system"], confidence: float = 0.95) -> Difference:
        """Of this sum of systems: t by queries, with as many degrees of freedom as judged queries less one."""
        return mean_by_t(self.values @ weights, max(self.queries - 1, 1), confidence)


def slopes(pools: Pools, measure: PooledMeasure, belief: Table) -> Float[Array, "query document system"]:
    """By how much each document's relevance changes each system's value."""
    found = []
    for document in range(belief.shape[1]):
        one, zero = belief.copy(), belief.copy()
        one[:, document], zero[:, document] = 1.0, 0.0
        found.append(measure.values(one, pools.heads) - measure.values(zero, pools.heads))
    return np.stack(found, axis=1)


def sizes(pools: Pools, measure: PooledMeasure) -> Table:
    """How much each document may change values of systems, and differences between systems; 0 for padding.

    size^2 = p (1 - p) (mean g^2 + mean of (g_s - g_t)^2 over s, t), with slopes g and p half way to the mean chance.
    """
    there, belief = pools.pooled, pools.believed()
    belief = np.where(there, (1 - _TO_MEAN) * belief + _TO_MEAN * belief[there].mean(), 0.0)
    slope, systems = slopes(pools, measure, belief), pools.heads.shape[1]
    change = (slope**2).mean(axis=2) + 2 * systems / max(systems - 1, 1) * slope.var(axis=2)
    size = np.where(there, np.sqrt(belief * (1 - belief) * change), 0.0)
    size = np.where(there, np.maximum(size, max(_FLOOR * size[there].mean(), 1e-9)), 0.0)
    order = np.argsort(np.argsort(-size, axis=1, kind="stable"), axis=1)
    return np.asarray(size * (1 - 1e-6) ** order)  # no two are equal


def draw(size: Table, seed: int) -> Drawing:
    """Draw queries by turns: their uniform numbers are a random one and equal steps, in random order."""
    rng, queries = np.random.default_rng(seed), len(size)
    turn = (rng.permutation(queries) + rng.random()) / queries
    return Drawing(size, np.where(size > 0, turn[:, None] / np.where(size > 0, size, 1.0), math.inf))


def calibrated(pools: Pools, judged: Table, right: Table, seed: int = 0) -> Table:
    """Chances by logistic regression on what people say of other folds' queries, from the judge's own on.

    judged: the chance with which each document was judged, 0 if it was not.  right: 1, 0, or NaN for unsure.
    """
    features, fold = pools.features(), np.random.default_rng(seed).permutation(len(judged)) % _FOLDS
    known, found = (judged > 0) & ~np.isnan(right), np.zeros(pools.chance.shape)
    for number in range(_FOLDS):
        taught, mine = known & (fold != number)[:, None], fold == number
        weights = most_likely_weights(features[taught], right[taught] == 1, _PRIOR)
        found[mine] = _chance(features[mine] @ weights)
    return np.where(pools.pooled, found, 0.0)


def corrected(pools: Pools, measure: PooledMeasure, drawing: Drawing, right: Table, judged: Table, chance: Table) -> Corrected:
    """The sum above for every query, by `calibrated` chances.

    After each judged document the query's other chances move by r / (1 + v) in log odds, with r the sum of verdict less
    chance so far and v that of the variances: a query's pool is easier or harder than others.
    """
    belief, values = chance.copy(), measure.values(chance, pools.heads)
    order = np.argsort(-drawing.size, axis=1, kind="stable")
    before, odds = values.copy(), _log_odds(chance)
    rest, variance = np.zeros(len(chance)), np.zeros(len(chance))
    seen = np.zeros(chance.shape, bool)
    for place in range(chance.shape[1]):
        of_place = np.take_along_axis(judged, order[:, place, None], axis=1)[:, 0]
        rows = np.flatnonzero(of_place)
        if not len(rows):
            break
        documents = order[rows, place]
        expected = chance[rows, documents]
        verdict = np.where(np.isnan(right[rows, documents]), expected, right[rows, documents])
        seen[rows, documents], belief[rows, documents] = True, verdict
        rest[rows] += verdict - expected
        variance[rows] += expected * (1 - expected)
        shift = _OF_QUERY * rest[rows] / (1 + _OF_QUERY * variance[rows])
        moved = np.where(pools.pooled[rows], _chance(odds[rows] + shift[:, None]), 0.0)
        belief[rows] = np.where(seen[rows], belief[rows], moved)
        after = measure.values(belief[rows], pools.heads[rows])
        values[rows] += (after - before[rows]) / of_place[rows, None]
        before[rows] = after
    return Corrected(values, int((judged > 0).any(axis=1).sum()), int((judged > 0).sum()))


def error_of(pools: Pools, measure: PooledMeasure, drawing: Drawing, weights: Float[Array, " system"], count: int) -> float:
    """The standard error of a sum of systems that so many judgements are expected to leave, if the judge is right.

    error^2 = (var m_0 + mean of sum p (1 - p) g^2 / pi) / Q.
    """
    belief = pools.believed()
    change = belief * (1 - belief) * (slopes(pools, measure, belief) @ weights) ** 2
    planned = np.where(pools.pooled, drawing.planned(count), 1.0)
    between = float((measure.values(belief, pools.heads) @ weights).var())
    return math.sqrt((between + float((change / planned).sum(axis=1).mean())) / len(belief))


def judgements_needed(pools: Pools, measure: PooledMeasure, drawing: Drawing, weights: Float[Array, " system"]) -> int | None:
    """The least number that tells a sum of systems from 0 in 80 % of cases; None if all pools are not enough."""
    mean = abs(float((measure.values(pools.believed(), pools.heads) @ weights).mean()))
    most, least = int(pools.pooled.sum()), 1
    if _POWER * error_of(pools, measure, drawing, weights, most) > mean:
        return None
    while least < most:
        middle = (least + most) // 2
        enough = _POWER * error_of(pools, measure, drawing, weights, middle) <= mean
        least, most = (least, middle) if enough else (middle + 1, most)
    return most


def _log_odds(chance: Table) -> Table:
    chance = np.clip(chance, _LEAST, 1 - _LEAST)
    return np.asarray(np.log(chance / (1 - chance)))


def _chance(odds: Array) -> Array:
    return np.asarray(np.clip(1 / (1 + np.exp(-np.clip(odds, -30, 30))), _LEAST, 1 - _LEAST))
