"""Whether scores have one peak: before a mixture is believed, a single population of pairs must be ruled out.

Losses of clean pairs are skewed, and two Gaussians fit any skewed population better than one: a test of fit finds
"wrong" pairs among clean exponential losses.  The dip asks nothing of the shape but that it rises to one peak and then
falls, so that it errs rarely whatever the family.
"""

import numpy as np
from jaxtyping import Float, Int

Array = np.ndarray

_BINS = 1000
_PARTS = tuple(2.0 ** (-step / 2) for step in range(9))
# The 99.4 % point of sqrt(n) * dip of n uniform scores, for which the dip is greatest among the unimodal: 5 % for the
# nine parts together.  Simulated; the 99 % point is 0.56 to 0.62 for n from 24 to 100,000.  Skewed families stay far
# below.
_CRITICAL = 0.65


def is_unimodal(scores: Float[Array, " pair"], clip: float = 0.999) -> bool:
    """Whether the scores may come from a distribution with one peak, by dip tests at a level of 5 % together.

    Tested are all scores, and upper parts of them down to a sixteenth, in which a few wrong pairs are many: the upper
    part of a distribution with one peak has one, too.  clip: scores above this quantile are left out, likewise.
    Scores are counted in 1,000 bins, so that it costs milliseconds whatever their number.
    Source: Hartigan and Hartigan, Annals of Statistics, 1985; Bonferroni.
    """
    kept = np.sort(scores[scores <= np.quantile(scores, clip)])
    return all(_scaled_dip(kept[len(kept) - round(part * len(kept)) :]) <= _CRITICAL for part in _PARTS)


def _scaled_dip(scores: Float[Array, " pair"]) -> float:
    """The square root of their number times the dip of the scores; 0 where all are equal."""
    if not len(scores) or scores.min() == scores.max():
        return 0.0
    counts, edges = np.histogram(scores, bins=_BINS)
    return float(np.sqrt(len(scores)) * dip(edges, np.concatenate([[0.0], np.cumsum(counts) / len(scores)])))


def dip(x: Float[Array, " point"], cdf: Float[Array, " point"]) -> float:
    """The greatest distance of a distribution function from the closest one with one peak.

    x: ascending; cdf: its values there, straight in between.  On a shrinking interval that holds the peak, the greatest
    convex function below the cdf and the least concave one above it are compared (Hartigan and Hartigan, 1985).
    """
    low, high, found = 0, len(x) - 1, 0.0
    while True:
        xs, f = x[low : high + 1], cdf[low : high + 1]
        below, above = _lower_hull(xs, f), _lower_hull(xs, -f)
        convex, concave = np.interp(xs, xs[below], f[below]), np.interp(xs, xs[above], f[above])
        gap = concave - convex
        if gap.max() <= found:
            return found / 2
        if gap[below].max() >= gap[above].max():
            left = below[np.argmax(gap[below])]
            right = above[above >= left][0]
        else:
            right = above[np.argmax(gap[above])]
            left = below[below <= right][-1]
        found = max(found, float((f - convex)[: left + 1].max()), float((concave - f)[right:].max()))
        if (left, right) == (0, len(xs) - 1):
            return found / 2
        low, high = low + int(left), low + int(right)


def _lower_hull(x: Float[Array, " point"], y: Float[Array, " point"]) -> Int[Array, " corner"]:
    """The corners of the greatest convex function below the points (Andrew, 1979)."""
    corners: list[int] = []
    for point in range(len(x)):
        while len(corners) > 1:
            first, last = corners[-2], corners[-1]
            if (y[last] - y[first]) * (x[point] - x[last]) < (y[point] - y[last]) * (x[last] - x[first]):
                break
            corners.pop()
        corners.append(point)
    return np.array(corners)
