"""The distribution of scores as a picture."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Float

from noisyir.base.pages import charts
from noisyir.base.pages.charts import Bars

_POINTS = 240
_SHOWN = 0.999  # quantile: a few extreme scores must not squeeze the rest together


def border(scores: Float[np.ndarray, " pair"], flagged: Bool[np.ndarray, " pair"]) -> float | None:
    """The score halfway between the last pair not flagged and the first flagged; None if no score parts the two."""
    if flagged.all() or not flagged.any():
        return None
    last, first = float(scores[~flagged].max()), float(scores[flagged].min())
    return (last + first) / 2 if first >= last else None


def histogram(
    scores: Float[np.ndarray, " pair"],
    flagged: Bool[np.ndarray, " pair"],
    estimate: Mapping[str, float],
    limit: float | None,
    *,
    wrong: Bool[np.ndarray, " pair"] | None = None,
    axis: str = "score: the higher, the more suspect",
    width: int = 1080,
) -> str:
    """Bars of pairs by score, the mixture's curves, and the border, if any.

    The pairs in `wrong` have another tone, or those flagged if it is None.
    """
    bars = bin_scores(scores, flagged if wrong is None else wrong, width // 15)
    at = np.linspace(bars.edges[0], bars.edges[-1], _POINTS)
    pairs_a_unit = len(scores) * (bars.edges[1] - bars.edges[0])
    curves = {
        name: list(zip(at.tolist(), (density * pairs_a_unit).tolist(), strict=True))
        for name in ("clean", "noisy")
        if (density := component(estimate, name, at)) is not None
    }
    ends = f"scores of {len(scores):,} pairs from {scores.min():.3g} to {scores.max():.3g}"
    verdicts = f"{int((~flagged).sum()):,} not flagged and {int(flagged.sum()):,} flagged"
    spoken = f"{ends}; {verdicts}" + (f", parted at {limit:.3g}" if limit is not None else "")
    return charts.histogram(bars, curves, limit, axis=axis, spoken=spoken, width=width)


def bin_scores(scores: Float[np.ndarray, " pair"], flagged: Bool[np.ndarray, " pair"], bins: int = 72) -> Bars:
    """Counts of pairs not flagged and flagged; scores above the 99.9 % quantile are counted in the last bin."""
    low, high = float(scores.min()), float(np.quantile(scores, _SHOWN))
    edges = np.linspace(low, high if high > low else low + 1.0, bins + 1)
    inside = np.minimum(scores, edges[-1])
    clean, wrong = (np.histogram(inside[kind], edges)[0].tolist() for kind in (~flagged, flagged))
    return Bars(edges.tolist(), clean, wrong)


def component(
    estimate: Mapping[str, float], name: str, at: Float[np.ndarray, " point"]
) -> Float[np.ndarray, " point"] | None:
    """Density of one weighted Gaussian of the mixture, per unit of score; None if none was fitted.

    Source: Zhang et al. (NPC), Findings of EMNLP 2023, section 3.1; drawn as in their Figure 4.
    """
    keys = [f"{name}_{part}" for part in ("weight", "mean", "std")]
    if any(key not in estimate for key in keys) or estimate[keys[2]] <= 0:
        return None
    weight, mean, std = (estimate[key] for key in keys)
    density: Float[np.ndarray, " point"] = weight * np.exp(-0.5 * ((at - mean) / std) ** 2) / (std * np.sqrt(2 * np.pi))
    return density
