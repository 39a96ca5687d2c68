"""Whether scores have one peak: before a mixture is believed, a single population of pairs must be ruled out.

Losses of clean pairs are skewed, and two Gaussians fit any skewed population better than one: a test of fit finds
"wrong" pairs among clean exponential losses.  The dip asks nothing of the shape but that it rises to one peak and then
falls, so that it errs rarely whatever the family.
"""

import numpy as np
from jaxtyping import Float, Int

Array = np.ndarray

_BINS = 1000
# Just above the 95 % point of sqrt(n) * dip of n uniform scores, for which the dip is greatest among the unimodal
# (simulated, n from 24 to 100,000: 0.47 to 0.54); skewed families stay far below it.
_CRITICAL = 0.55


def is_unimodal(scores: Float[Array, " pair"], clip: float = 0.999) -> bool:
    """Whether the scores may come from a distribution with one peak, by the dip test at a level of 5 % at most.

    clip: scores above this quantile are left out, which leaves a unimodal distribution unimodal.  Scores are counted in
    1,000 bins, so that it costs milliseconds whatever their number.
    Source: Hartigan and Hartigan, Annals of Statistics, 1985.
    """
    kept = scores[scores <= np.quantile(scores, clip)]
    if not kept.max() > kept.min():
        return True
    counts, edges = np.histogram(kept, bins=_BINS)
    return bool(np.sqrt(len(kept)) * dip(edges, np.concatenate([[0.0], np.cumsum(counts) / len(kept)])) <= _CRITICAL)


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
        found = max(found, (f - convex)[: left + 1].max(), (concave - f)[right:].max())
        if (left, right) == (0, len(xs) - 1):
            return float(found) / 2
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
