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
from noisyir.evaluation.pooled import Heads, PooledMeasure
from noisyir.evaluation.significance import Difference, mean_by_t

Array = np.ndarray
Table = Float[Array, "query document"]
_LEAST = 1e-3  # a chance is at least so far from 0 and 1
_FLOOR, _TO_MEAN = 0.1, 0.5  # the least size by the mean one; how far a chance is taken to the mean for sizes
_FOLDS, _FALL, _KNOWN = 5, 1.5, 1e12
_LABELS = 0.8
_PRIOR = Prior(np.array([0.0, 1.0, 0.0, 0.0]), np.array([0.1, 1.0, 0.5, 0.1]))  # of level, judge, ranks and label
_OF_QUERY = 1.0  # variance of a query's own level, in log odds
_POWER = 2.8  # standard errors between two systems that 80 % of tests at 5 % call different


@dataclass(frozen=True)
class Pools:
    """The pools of test queries, padded to the largest one.

    Attributes:
        pooled: Whether a place has a document.
        chance: The judge's chance of each to be relevant.
        labelled: Whether a label calls the document relevant.
        heads: The place in the pool of each system's documents by rank, -1 past the last.
    """

    pooled: Bool[Array, "query document"]
    chance: Table
    labelled: Bool[Array, "query document"]
    heads: Heads

    def features(self) -> Float[Array, "query document feature"]:
        """Of each document: 1, the judge's log odds, the share of systems that have it less the mean, and the label.

        Before any verdict, labelled documents have mean log odds as if _LABELS of the labels were right.
        """
        found = (self.heads[..., None] == np.arange(self.pooled.shape[1])).any(axis=2).mean(axis=1)
        shared, odds = found - found[self.pooled].mean(), _log_odds(self.chance)
        if self.labelled.any():
            odds = np.where(self.labelled, odds - odds[self.labelled].mean() + math.log(_LABELS / (1 - _LABELS)), odds)
        return np.stack([np.ones_like(odds), odds, shared, self.labelled], axis=2)

    def believed(self) -> Table:
        """Chances before any verdict, 0 for padding."""
        return np.where(self.pooled, _chance(self.features() @ _PRIOR.mean), 0.0)


@dataclass(frozen=True)
class Drawing:
    """How documents are drawn: by rising priority, a query's uniform number divided by the document's size.

    Where every document of a priority below c is judged, and no other, each was judged with chance min(1, c size).
    """

    size: Table
    priority: Table

    def end(self, answered: Bool[Array, "query document"]) -> float:
        """The least priority without an answer."""
        return float(np.min(self.priority, where=~answered, initial=math.inf))

    def planned(self, end: float) -> Table:
        """The chance of each document to be judged up to this priority; 1 for padding."""
        return np.where(self.size > 0, np.minimum(1.0, self.size * min(end, _KNOWN)), 1.0)

    def chances(self, answered: Bool[Array, "query document"]) -> Table:
        """The chance with which each document was judged, 0 if it was not, or past the first without an answer."""
        end = self.end(answered)
        return np.where(self.priority < end, self.planned(end), 0.0)

    def end_after(self, count: int) -> float:
        """The priority at which the first `count` documents are judged."""
        least = np.sort(self.priority, axis=None)
        return float(least[count]) if count < len(least) else math.inf


class Corrected(NamedTuple):
    """Every query's corrected value of every system, the expected variance of means, and the number of judgements."""

    values: Float[Array, "query system"]
    expected: Float[Array, "system system"]
    queries: int
    judgements: int

    def interval(self, weights: Float[Array, " system"], confidence: float = 0.95) -> Difference:
        """Of this sum of systems: t with as many degrees of freedom as judged queries less one.

        The variance is from the queries' values, and no less than expected: equal verdicts make no short interval.
        """
        least = float(weights @ self.expected @ weights)
        return mean_by_t(self.values @ weights, max(self.queries - 1, 1), confidence, least)


def labels_judge(pooled: Bool[Array, "query document"], labelled: Bool[Array, "query document"], heads: Heads) -> Table:
    """Chances without any judge: how often labels call documents relevant that as many systems found."""
    blank = Pools(pooled, np.full(pooled.shape, 0.5), np.zeros_like(labelled), heads).features()[..., [0, 2]]
    weights = most_likely_weights(blank[pooled], labelled[pooled], Prior(np.zeros(2), np.full(2, 0.1)))
    return np.where(pooled, _chance(blank @ weights), 0.0)


def slopes(pools: Pools, measure: PooledMeasure, belief: Table) -> Float[Array, "query document system"]:
    """By how much each document's relevance changes each system's value."""
    found = []
    for document in range(belief.shape[1]):
        one, zero = belief.copy(), belief.copy()
        one[:, document], zero[:, document] = 1.0, 0.0
        found.append(measure.values(one, pools.heads) - measure.values(zero, pools.heads))
    return np.stack(found, axis=1)


def sizes(pools: Pools, measure: PooledMeasure, known: Bool[Array, "query document"] | None = None) -> Table:
    """How much each document may change values of systems, and differences between systems; 0 for padding.

    size = (p (1 - p) (mean g^2 + mean of (g_s - g_t)^2 over s, t))^(3/4), with slopes g and p half way to the mean
    chance.  The power 1/2 would be the best if verdicts on a query's documents were independent.
    Documents that are `known` before the drawing get a size by which they always count.
    """
    there, belief = pools.pooled, pools.believed()
    belief = np.where(there, (1 - _TO_MEAN) * belief + _TO_MEAN * belief[there].mean(), 0.0)
    slope, systems = slopes(pools, measure, belief), pools.heads.shape[1]
    change = (slope**2).mean(axis=2) + 2 * systems / max(systems - 1, 1) * slope.var(axis=2)
    size = np.where(there, (belief * (1 - belief) * change) ** (_FALL / 2), 0.0)
    size = np.where(there, np.maximum(size, max(_FLOOR * size[there].mean(), 1e-9)), 0.0)
    order = np.argsort(np.argsort(-size, axis=1, kind="stable"), axis=1)
    size = size * (1 - 1e-6) ** order  # no two are equal
    return size if known is None else np.where(known & there, _KNOWN, size)


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


def corrected(
    pools: Pools, measure: PooledMeasure, drawing: Drawing, right: Table, judged: Table, chance: Table
) -> Corrected:
    """The sum above for every query, by `calibrated` chances.

    After each judged document the query's other chances move by r / (1 + v) in log odds, with r the sum of verdict less
    chance so far and v the sum of variances: a query's pool is easier or harder than others.
    """
    belief, values = chance.copy(), measure.values(chance, pools.heads)
    slope = slopes(pools, measure, chance)
    foreseen = expected_variance(chance, slope, drawing.planned(drawing.end(judged > 0)), values)
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
    return Corrected(values, foreseen, int((judged > 0).any(axis=1).sum()), int((judged > 0).sum()))


def expected_variance(
    belief: Table, slope: Float[Array, "query document system"], planned: Table, values: Float[Array, "query system"]
) -> Float[Array, "system system"]:
    """The covariance of the systems' corrected means if the beliefs are right: of queries, and of judgements.

    (cov m_0 + mean of sum over d of p (1 - p) g g' / pi) / Q, with slopes g.
    """
    weight = belief * (1 - belief) / planned
    within = np.einsum("qd,qds,qdt->st", weight, slope, slope) / len(belief)
    return np.asarray((np.cov(values.T, ddof=0).reshape(within.shape) + within) / len(belief))


class Outlook(NamedTuple):
    """Numbers that separate two systems in 80 % of cases, if the judge is right; None: not by this means."""

    judgements: int | None
    queries: int | None


def outlook(pools: Pools, measure: PooledMeasure, drawing: Drawing, weights: Float[Array, " system"]) -> Outlook:
    """Number of judgements that tell a weighted sum of systems from 0, or of queries if judging all pools does not."""
    belief = pools.believed()
    slope, values = slopes(pools, measure, belief), measure.values(belief, pools.heads)
    mean, most, least = abs(float((values @ weights).mean())), int(pools.pooled.sum()), 1

    def reach(end: float) -> float:
        return _POWER * math.sqrt(weights @ expected_variance(belief, slope, drawing.planned(end), values) @ weights)

    if not mean:
        return Outlook(None, None)
    if reach(math.inf) > mean:
        return Outlook(None, math.ceil(len(belief) * (reach(math.inf) / mean) ** 2))
    while least < most:
        middle = (least + most) // 2
        least, most = (least, middle) if reach(drawing.end_after(middle)) <= mean else (middle + 1, most)
    return Outlook(most, None)


def _log_odds(chance: Table) -> Table:
    chance = np.clip(chance, _LEAST, 1 - _LEAST)
    return np.asarray(np.log(chance / (1 - chance)))


def _chance(odds: Array) -> Array:
    return np.asarray(np.clip(1 / (1 + np.exp(-np.clip(odds, -30, 30))), _LEAST, 1 - _LEAST))
