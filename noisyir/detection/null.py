"""What a wrong pair would score: documents that a wrong one might have been, for each query its own.

A *null* is a set of documents that a wrong document might have come from: all documents, those much like the best
other one, those with the query's words, those of the same source.  For each pair some are drawn from it and scored
with the pair's query.  Where a pair is wrong and its document came from that set, its own document is one draw more,
as likely to lie at any rank among them as at any other, whatever the query.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float

Array = np.ndarray
Null = Literal["random", "near", "lexical", "source"]
"""random: any document.  near: a neighbour of the best other document found for the query.  lexical: one with the
query's words.  source: one of the best other document's source."""
_ENOUGH = 20  # pairs above 1/2 whose draws tell how wrong pairs score
NULLS: tuple[Null, ...] = get_args(Null)
Draws = Mapping[Null, Float[Array, "pair draw"]]
"""Scores of the documents drawn for each pair; NaN where a pair has fewer of them."""


@dataclass(frozen=True)
class RankShares:
    """Where each pair's own document lies among the draws of its query, near 0 where it fits best.

    A share is uniform between `low` and `high`.  Drawn so, it is uniform on (0, 1) where the own document is one draw
    more, whatever the query and in spite of ties; nothing is drawn, what is counted is the chance.
    draws: the most that a pair has.
    """

    low: Float[Array, " pair"]
    high: Float[Array, " pair"]
    draws: int

    def above(self, level: float) -> float:
        """How many pairs have a share above a level: the sum of their chances."""
        return float(np.clip((self.high - level) / (self.high - self.low), 0, 1).sum())

    def mean(self) -> float:
        """The mean share."""
        return float((self.low + self.high).mean() / 2)


def rank_shares(observed: Float[Array, " pair"], draws: Float[Array, "pair draw"]) -> RankShares:
    """The shares of the pairs that have a draw.

    Of m draws, those less suspect than the own document over m + 1, up to one and those that score the same more.
    Source: the p-value of a permutation test, Barnard 1963, randomised so that it is exact in spite of ties.
    """
    count = np.isfinite(draws).sum(axis=1)
    has = count > 0
    below = (draws[has] < observed[has, None]).sum(axis=1)
    up_to = (draws[has] <= observed[has, None]).sum(axis=1) + 1
    return RankShares(below / (count[has] + 1), up_to / (count[has] + 1), draws.shape[1])


def upper_half(observed: Float[Array, " pair"], draws: Float[Array, "pair draw"]) -> Float[Array, "some score"]:
    """Own score and draws of the pairs with shares above 1/2, a pair in a row; NaN where it has fewer draws.

    These pairs are a random half of the wrong ones, so that their queries are as hard as those of wrong pairs, and what
    their own document is compared with (the best other one) is there or not as often; own document and draws together
    are exchangeable whatever the share.
    """
    count = np.isfinite(draws).sum(axis=1)
    below, up_to = (draws < observed[:, None]).sum(axis=1), (draws <= observed[:, None]).sum(axis=1)
    upper = (count > 0) & (below + up_to > count)
    return np.column_stack([observed[upper], draws[upper]])


def wrong_scores(observed: Float[Array, " pair"], draws: Float[Array, "pair draw"]) -> Float[Array, " null"]:
    """Scores that wrong pairs have: those of the upper half; all pairs' draws where too few are in it to tell."""
    both = upper_half(observed, draws)
    return np.asarray(both[np.isfinite(both)] if len(both) >= _ENOUGH else draws[np.isfinite(draws)])


def wrong_by_null(
    scores: Float[Array, " pair"], null_scores: Float[Array, " null"], rate: float
) -> Float[Array, " pair"]:
    """Probability that each pair is wrong, min(1, rate * f_null(s) / f_observed(s)), non-decreasing in the score.

    Wrong pairs are taken to score as the null's documents do.  The ratio of densities is g / (1 - g), up to the sizes
    of the samples, where g is the isotonic regression of "is null" on the score over both samples: only ranks matter.
    Source: Efron et al., JASA 2001 (local false discovery rate); Barlow et al., 1972 (isotonic regression).
    """
    from scipy.optimize import isotonic_regression

    values, place = np.unique(np.concatenate([scores, null_scores]), return_inverse=True)
    observed = np.bincount(place[: len(scores)], minlength=len(values))
    null = np.bincount(place[len(scores) :], minlength=len(values))
    blocks = isotonic_regression(null / (observed + null), weights=observed + null).x
    is_null = blocks[place[: len(scores)]]  # below 1, as the block holds this score
    return np.asarray(np.minimum(rate * is_null / (1 - is_null) * len(scores) / len(null_scores), 1.0))
