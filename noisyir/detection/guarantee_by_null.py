"""How many pairs may be kept where nobody has judged any: if wrong pairs are like the made-up ones that fit.

The pairs whose own document lies in the upper half of its ranking are a random half of the wrong ones
(noise/null.py), so that their own documents and draws together score as wrong pairs do, whatever their queries.  Wrong
pairs and these are put in one row by their scores: each order of the two is as likely as any other, so that of the
wrong pairs no more lie before so many of these than a random order allows.
Source: Vovk, Gammerman and Shafer, 2005 (conformal prediction); Jin and Candès, JMLR 2023 (selection by conformal
p-values).  Where wrong pairs are not like the made-up ones, nothing holds: judgements alone need no such condition.
"""

import math

import numpy as np
from jaxtyping import Float, Int

from noisyir.detection.combine import Scores, by_null
from noisyir.detection.guarantee import Guarantee, numbers_kept
from noisyir.detection.null import Null, upper_half

Array = np.ndarray

_STEP = 1.25  # between the numbers of made-up pairs at which the order is looked at


def nulls_that_agree(pairs: Scores, confidence: float = 0.95) -> list[Null]:
    """Those whose made-up pairs are like wrong ones, as far as that can be checked."""
    return [null for null, found in by_null(pairs, confidence).items() if found.reading == "agrees"]


def guaranteed_by_nulls(pairs: Scores, confidence: float = 0.9, sizes: int = 100) -> Guarantee | None:
    """The bounds that hold whichever of the nulls that agree wrong pairs are like; None where none agrees.

    Half of the risk is that there are more wrong pairs than the upper end of the rate's interval, the other half that
    more of them are kept.
    """
    risk = (1 - confidence) / 2
    ends = by_null(pairs, 1 - 2 * risk)
    found = [
        guarantee_by_null(
            pairs.observed, upper_half(pairs.observed, pairs.nulls[null]), ends[null].high, risk, sizes=sizes
        )
        for null in nulls_that_agree(pairs)
    ]
    if not found:
        return None
    kept, worst = found[0][0], np.max([bound for _, bound in found], axis=0)
    return Guarantee(kept, worst, confidence, 0)


def guarantee_by_null(
    suspicion: Float[Array, " pair"],
    like_wrong: Float[Array, "some score"],
    highest_rate: float,
    risk: float,
    *,
    sizes: int = 100,
) -> tuple[Int[Array, " size"], Float[Array, " size"]]:
    """(pairs kept, share of them that is wrong at most): all bounds together fail with at most the chance `risk`.

    like_wrong: scores as wrong pairs have them, those of one query in a row, NaN where it has fewer; the more of one
    query there are, the less its count varies, so that the bounds err to the safe side.
    """
    kept, edge = numbers_kept(suspicion, sizes)
    wrong = math.ceil(highest_rate * len(suspicion))
    # each query counts by the share of its scores up to the edge
    weights = np.isfinite(like_wrong) / np.isfinite(like_wrong).sum(axis=1, keepdims=True)
    ordered = np.argsort(like_wrong, axis=None)  # NaN last
    count = np.concatenate([[0.0], np.cumsum(weights.ravel()[ordered])])
    before = count[np.searchsorted(like_wrong.ravel()[ordered], edge, "right")]
    most = _most_wrong(np.ceil(before - 1e-9).astype(int), wrong, len(like_wrong), risk)
    return kept, np.minimum(1.0, most / kept)


def _most_wrong(before: Int[Array, " size"], wrong: int, made_up: int, risk: float) -> Int[Array, " size"]:
    """Of so many wrong pairs, how many at most come no later than `before` made-up ones, in one random order of both.

    The risk is shared among numbers of made-up pairs that grow by a quarter; those between have the next one's bound.
    """
    looked_at = [0]
    while looked_at[-1] < made_up:
        looked_at.append(min(max(looked_at[-1] + 1, math.ceil(_STEP * looked_at[-1])), made_up))
    most = _within(np.array(looked_at), wrong, made_up, risk / len(looked_at))
    return most[np.searchsorted(looked_at, before)]


def _within(before: Int[Array, " some"], wrong: int, made_up: int, risk: float) -> Int[Array, " some"]:
    """The least number that the wrong pairs ahead of made-up pair `before` + 1 exceed with at most this chance.

    More than b come first if among the first b + 1 + `before` of both there are no more than `before` made-up ones.
    """
    from scipy.stats import hypergeom

    low, high = np.full(len(before), -1), np.full(len(before), wrong)
    while (high - low > 1).any():
        middle = (low + high) // 2
        exceeded = hypergeom.cdf(before, wrong + made_up, made_up, middle + 1 + before)
        low, high = np.where(exceeded <= risk, low, middle), np.where(exceeded <= risk, middle, high)
    return high
