"""Two-component mixtures of scores: the lower component is clean pairs, the higher one wrong pairs.

Scores are clipped at a high quantile, min-max scaled to [0, 1] and binned, so the cost of EM does not depend on the
number of pairs. Both families are parametrised by means and standard deviations (a Beta by matching them), so both
share one M-step: weighted moments.

Unimodality: before a mixture is accepted, a single population of pairs must be ruled out.

Losses of clean pairs are skewed, and two Gaussians fit any skewed population better than one: a test of fit finds
"wrong" pairs among clean exponential losses. The dip test assumes nothing but a single peak, so false positives are
rare whatever the family.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from noisyir.base.errors import DataError

Family = Literal["gaussian", "beta"]
Components = Literal["dip", "bic", "two"]
"""When there are two: if the scores have not one peak and one component fits worse; if it fits worse; always."""
Posterior = Literal["monotone", "bayes"]
Array = np.ndarray
Density = Callable[[Array, Array, Array], Array]

_BINS = 1000
_EDGE = 1e-3  # a Beta's density may be infinite at 0 and 1; Arazo et al. keep losses this far inside
_MIN_VARIANCE = {"gaussian": 5e-4, "beta": 1e-6}  # added, of scaled scores; 5e-4 is DivideMix's reg_covar
_SHORT_STEPS, _STEPS, _TOLERANCE = 10, 200, 1e-7
_EVEN, _BELOW_EVEN = 0.5, float(np.nextafter(np.float32(0.5), np.float32(0)))
_PARTS = tuple(2.0 ** (-step / 2) for step in range(9))
# The 99.4 % point of sqrt(n) * dip of n uniform scores, which maximise the dip among unimodal distributions: 5 % for
# the nine parts together. Simulated; the 99 % point is 0.56 to 0.62 for n from 24 to 100,000. Skewed families are far
# below.
_CRITICAL = 0.65


@dataclass(frozen=True)
class Mixture:
    """A fitted mixture; index 0 is the clean component. Means and stds are of scores scaled from [low, high]."""

    family: Family
    weights: Float[Array, "2"]
    means: Float[Array, "2"]
    stds: Float[Array, "2"]
    low: float
    high: float

    def posterior(self, scores: Float[Array, " pair"], kind: Posterior) -> Float[Array, " pair"]:
        """Posterior probability of the clean component, made monotone or not."""
        return self.p_clean(scores) if kind == "monotone" else self.by_bayes(scores)

    def p_clean(self, scores: Float[Array, " pair"]) -> Float[Array, " pair"]:
        """Posterior probability of the clean component, non-increasing in the score.

        The log odds have one turning point, outside the two means; beyond it the posterior keeps its value
        at that point. It is at least 1/2 up to the clean mean and below 1/2 from the noisy mean on.

        Source: Zhang et al. (NPC), Findings of EMNLP 2023, Eq. 5; the monotonicity is ours.
        """
        scaled = np.clip((scores - self.low) / (self.high - self.low), 0, 1)
        clean, noisy = self.means
        turn = self._turning_point()
        monotone = np.clip(scaled, turn if turn < clean else 0, turn if turn > noisy else 1)
        joint = self._log_joint(monotone)
        posterior = 1 / (1 + np.exp(np.minimum(joint[1] - joint[0], 700)))
        posterior = np.where(scaled <= clean, np.maximum(posterior, _EVEN), posterior)
        return np.asarray(np.where(scaled >= noisy, np.minimum(posterior, _BELOW_EVEN), posterior))

    def by_bayes(self, scores: Float[Array, " pair"]) -> Float[Array, " pair"]:
        """Posterior probability of the clean component by Bayes' rule alone: a wide component wins at both extremes.

        Source: Zhang et al. (NPC), Findings of EMNLP 2023, Eq. 5, read literally.
        """
        scaled = np.clip((scores - self.low) / (self.high - self.low), 0, 1)
        clean, noisy = self._log_joint(scaled)
        return np.asarray(1 / (1 + np.exp(np.minimum(noisy - clean, 700))))

    def likeness(self, made_up: Float[Array, " null"]) -> float:
        """Position of the noisy mean between the clean mean, 0, and the mean score of made-up pairs, 1.

        0 if made-up pairs score no higher than clean ones. Near-misses, which the model knows well, score low.
        """
        found = self.in_score_unit()
        reach = float(made_up.mean()) - found["clean_mean"]
        return (found["noisy_mean"] - found["clean_mean"]) / reach if reach > 0 else 0.0

    def in_score_unit(self) -> dict[str, float]:
        """Weights, means and standard deviations of both components, in the unit of the scores."""
        width = self.high - self.low
        return {
            f"{name}_{what}": float(value)
            for index, name in enumerate(("clean", "noisy"))
            for what, value in (
                ("weight", self.weights[index]),
                ("mean", self.low + width * self.means[index]),
                ("std", width * self.stds[index]),
            )
        }

    def _log_joint(self, scaled: Float[Array, " pair"]) -> Float[Array, "2 pair"]:
        densities = _DENSITIES[self.family](_inside(scaled, self.family), self.means[:, None], self.stds[:, None])
        return np.asarray(np.log(self.weights)[:, None] + densities)

    def _turning_point(self) -> float:
        """Point at which the log odds stop falling; outside the two means, may be infinite."""
        with np.errstate(divide="ignore"):
            if self.family == "gaussian":
                precision = self.stds**-2.0
                return float(np.subtract(*(precision * self.means)) / np.subtract(*precision))
            a, b = (float(np.subtract(*parameter)) for parameter in beta_parameters(self.means, self.stds))
            # of opposite signs (a < 0 < b) the odds fall everywhere
            return a / (a + b) if a * b > 0 else np.inf


def fit_mixture(
    scores: Float[Array, " pair"],
    family: Family,
    clip: float = 0.999,
    least_weight: float = 0.02,
    components: Components = "dip",
) -> Mixture | None:
    """Fit a mixture of two components by EM; None if the scores are a single population, so that all pairs are clean.

    None, too, if all scores are equal. The M-step for Betas matches moments.

    Args:
        clip: Quantile; scores above it are set to it.
        least_weight: Minimum weight of the noisy component.
        components: `dip` accepts two components if the scores have more than one peak (`is_unimodal`), BIC prefers two,
            their means are more than one pooled standard deviation apart, and the second has the minimum weight; `bic`
            skips the first condition; `two` skips all.

    Source: Zhang et al. (NPC), Findings of EMNLP 2023, Eq. 4, which is `two`; scaling and regularisation follow
    DivideMix (Li et al., ICLR 2020); Betas are Arazo et al.'s (ICML 2019, section 3.1); the tests for one component
    are ours.
    """
    check_finite("score", scores)
    low, high = float(scores.min()), float(np.quantile(scores, clip))
    if not high > low or (components == "dip" and is_unimodal(scores, clip)):
        return None
    grid, counts = np.linspace(0, 1, _BINS + 1), _binned((np.minimum(scores, high) - low) / (high - low))
    x = _inside(grid, family)
    splits = _first_splits(grid, counts)
    if family == "beta":  # moment matching need not increase the likelihood, which then cannot rank the starts
        splits = splits[:1]
    tries = _expectation_maximisation(x, counts, family, grid <= splits[:, None], _SHORT_STEPS)
    best = tries.shares[np.argmax(tries.likelihood)][None]
    two = _expectation_maximisation(x, counts, family, best, _STEPS)
    order = np.argsort(two.means[0])
    found = Mixture(family, two.weights[0][order], two.means[0][order], two.stds[0][order], low, high)
    if components == "two":
        return found
    one_mean, one_std = _moments(np.ones((1, 1, len(x))), x, counts, family)[1:]
    one = float(_DENSITIES[family](x, one_mean[0], one_std[0]) @ counts)
    penalty = np.log(len(scores))
    is_one = 2 * penalty - 2 * one <= 5 * penalty - 2 * len(scores) * two.likelihood[0]
    close = found.means[1] - found.means[0] < np.sqrt(found.weights @ found.stds**2)
    return None if is_one or close or found.weights[1] < least_weight else found


def check_finite(name: str, values: Float[Array, " pair"]) -> None:
    """Check that all scores are finite.

    Raises:
        DataError: If some are not, with their number.
    """
    if bad := int((~np.isfinite(values)).sum()):
        raise DataError("detection.values_nan_infinite_detectors", name=name, bad=bad, n_values=len(values))


def beta_parameters(mean: Array, std: Array) -> tuple[Array, Array]:
    """(a, b) of the Beta distributions with these means and standard deviations."""
    count = mean * (1 - mean) / std**2 - 1
    return mean * count, (1 - mean) * count


@dataclass(frozen=True)
class _Fits:
    """Mixtures fitted from several starts, with mean log likelihood and the first component's responsibilities."""

    weights: Float[Array, "start 2"]
    means: Float[Array, "start 2"]
    stds: Float[Array, "start 2"]
    likelihood: Float[Array, " start"]
    shares: Float[Array, "start bin"]


def _expectation_maximisation(x: Array, counts: Array, family: Family, shares: Array, steps: int) -> _Fits:
    """EM (Dempster, Laird and Rubin, 1977) from the given responsibilities of the first component for each bin."""
    previous = np.full(len(shares), -np.inf)
    for _ in range(steps):
        weights, means, stds = _moments(np.stack([shares, 1 - shares], axis=1), x, counts, family)
        joint = np.log(weights)[..., None] + _DENSITIES[family](x, means[..., None], stds[..., None])
        evidence = np.logaddexp(joint[:, 0], joint[:, 1])
        likelihood = evidence @ counts / counts.sum()
        shares = np.exp(joint[:, 0] - evidence)
        if np.abs(likelihood - previous).max() < _TOLERANCE:
            break
        previous = likelihood
    return _Fits(weights, means, stds, likelihood, shares)


def _moments(
    shares: Float[Array, "start component bin"], x: Float[Array, " bin"], counts: Float[Array, " bin"], family: Family
) -> tuple[Array, Array, Array]:
    """Weights, means and standard deviations of the components, each (start, component)."""
    held = (shares + 1e-12) * counts  # keeps the moments of an empty component finite
    size = held.sum(axis=-1)
    means = held @ x / size
    variances = np.maximum(held @ x**2 / size - means**2, 0) + _MIN_VARIANCE[family]
    if family == "beta":  # a Beta's variance is below mean (1 - mean)
        variances = np.minimum(variances, 0.999 * means * (1 - means))
    return size / size.sum(axis=-1, keepdims=True), means, np.sqrt(variances)


def _binned(scaled: Float[Array, " pair"]) -> Float[Array, " bin"]:
    """Count the scores near each grid point; a score counts for both neighbours, more for the nearer.

    This makes counts continuous in the scores and their mean exact. Source: Wand, JCGS 1994 (linear binning).
    """
    position = scaled * _BINS
    left = np.minimum(position.astype(np.int64), _BINS - 1)
    share = position - left
    counts = np.bincount(left, 1 - share, _BINS + 1)
    counts[1:] += np.bincount(left, share, _BINS)
    return counts


def _first_splits(grid: Float[Array, " bin"], counts: Float[Array, " bin"]) -> Float[Array, " start"]:
    """Otsu's threshold (1979) and the quartiles, each with at least one bin on either side."""
    below = np.cumsum(counts) / counts.sum()
    mean_below = np.cumsum(counts * grid) / counts.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        between = (mean_below[-1] * below - mean_below) ** 2 / (below * (1 - below))
    otsu = np.nanargmax(np.where(np.isfinite(between), between, np.nan)[:-1])
    quartiles = np.searchsorted(below, [0.25, 0.5, 0.75])
    return np.asarray(grid[np.minimum([otsu, *quartiles], len(grid) - 2)])


def _inside(x: Array, family: Family) -> Array:
    return np.clip(x, _EDGE, 1 - _EDGE) if family == "beta" else x


def _gaussian(x: Array, mean: Array, std: Array) -> Array:
    return np.asarray(-0.5 * ((x - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi))


def _beta(x: Array, mean: Array, std: Array) -> Array:
    from scipy.special import betaln

    a, b = beta_parameters(mean, std)
    return np.asarray((a - 1) * np.log(x) + (b - 1) * np.log1p(-x) - betaln(a, b))


_DENSITIES: dict[Family, Density] = {"gaussian": _gaussian, "beta": _beta}


def is_unimodal(scores: Float[Array, " pair"], clip: float = 0.999) -> bool:
    """Return whether the scores are consistent with a single peak, by dip tests at a joint level of 5 %.

    The tests cover all scores and upper parts of them down to a sixteenth, in which a few wrong pairs are a large
    share: the upper part of a unimodal distribution is unimodal, too. Scores are counted in 1,000 bins, so the cost is
    milliseconds whatever their number.

    Args:
        clip: Quantile; scores above it are left out, likewise.

    Source: Hartigan and Hartigan, Annals of Statistics, 1985; Bonferroni.
    """
    kept = np.sort(scores[scores <= np.quantile(scores, clip)])
    return all(_scaled_dip(kept[len(kept) - round(part * len(kept)) :]) <= _CRITICAL for part in _PARTS)


def _scaled_dip(scores: Float[Array, " pair"]) -> float:
    """Dip of the scores times the square root of their number; 0 if all are equal."""
    if not len(scores) or scores.min() == scores.max():
        return 0.0
    counts, edges = np.histogram(scores, bins=_BINS)
    return float(np.sqrt(len(scores)) * dip(edges, np.concatenate([[0.0], np.cumsum(counts) / len(scores)])))


def dip(x: Float[Array, " point"], cdf: Float[Array, " point"]) -> float:
    """Greatest distance between a distribution function and the closest unimodal one.

    On a shrinking interval that contains the mode, the greatest convex minorant and the least concave majorant of the
    cdf are compared (Hartigan and Hartigan, 1985).

    Args:
        x: Points in ascending order.
        cdf: Values at these points, linear in between.
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
    """Vertices of the greatest convex function below the points (Andrew, 1979)."""
    corners: list[int] = []
    xs, ys = x.tolist(), y.tolist()  # reading floats from a list is five times as fast
    for point in range(len(xs)):
        while len(corners) > 1:
            first, last = corners[-2], corners[-1]
            if (ys[last] - ys[first]) * (xs[point] - xs[last]) < (ys[point] - ys[last]) * (xs[last] - xs[first]):
                break
            corners.pop()
        corners.append(point)
    return np.array(corners)
