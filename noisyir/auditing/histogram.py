"""The distribution of scores as SVG text, with the fitted mixture over it and the verdicts' border marked."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from noisyir.report.charts import Scale, nice_ticks, svg, ticks_between

_BINS, _POINTS = 72, 240
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 1080, 300, 64, 14, 30, 44
_SHOWN = 0.999  # quantile: a few extreme scores must not squeeze the rest together
_HEADROOM = 1.25  # a curve may rise this much above the highest bar before it is cut


@dataclass(frozen=True)
class Bars:
    """Scores in equal bins: `edges` has one more value than the two counts."""

    edges: Float[np.ndarray, " edge"]
    clean: Float[np.ndarray, " bin"]
    wrong: Float[np.ndarray, " bin"]


def bin_scores(scores: Float[np.ndarray, " pair"], is_clean: Bool[np.ndarray, " pair"], bins: int = _BINS) -> Bars:
    """Counts by verdict; scores above the 99.9 % quantile are counted in the last bin."""
    low, high = float(scores.min()), float(np.quantile(scores, _SHOWN))
    edges = np.linspace(low, high if high > low else low + 1.0, bins + 1)
    inside = np.minimum(scores, edges[-1])
    clean, wrong = (np.histogram(inside[kind], edges)[0].astype(float) for kind in (is_clean, ~is_clean))
    return Bars(edges, clean, wrong)


def border(scores: Float[np.ndarray, " pair"], is_clean: Bool[np.ndarray, " pair"]) -> float | None:
    """The score halfway between the last clean and the first wrong pair; None where no score parts the two."""
    if is_clean.all() or not is_clean.any():
        return None
    last_clean, first_wrong = float(scores[is_clean].max()), float(scores[~is_clean].min())
    return (last_clean + first_wrong) / 2 if first_wrong >= last_clean else None


def component(
    estimate: Mapping[str, float], name: str, at: Float[np.ndarray, " point"]
) -> Float[np.ndarray, " point"] | None:
    """Density of one weighted Gaussian of the mixture, per unit of score; None where none was fitted.

    Source: Zhang et al. (NPC), Findings of EMNLP 2023, section 3.1; drawn as in their Figure 4.
    """
    keys = [f"{name}_{part}" for part in ("weight", "mean", "std")]
    if any(key not in estimate for key in keys) or estimate[keys[2]] <= 0:
        return None
    weight, mean, std = (estimate[key] for key in keys)
    density: Float[np.ndarray, " point"] = weight * np.exp(-0.5 * ((at - mean) / std) ** 2) / (std * np.sqrt(2 * np.pi))
    return density


def histogram(
    scores: Float[np.ndarray, " pair"],
    is_clean: Bool[np.ndarray, " pair"],
    estimate: Mapping[str, float],
    limit: float | None,
) -> str:
    """Bars of pairs by score, those flagged in another tone and hatched; the mixture's curves; the border, if any."""
    bars = bin_scores(scores, is_clean)
    at = np.linspace(bars.edges[0], bars.edges[-1], _POINTS)
    pairs_a_unit = len(scores) * (bars.edges[1] - bars.edges[0])
    curves = {
        name: density * pairs_a_unit
        for name in ("clean", "noisy")
        if (density := component(estimate, name, at)) is not None
    }
    highest = float((bars.clean + bars.wrong).max())
    top = max(highest, min(max((float(curve.max()) for curve in curves.values()), default=0.0), highest * _HEADROOM))
    ticks = [tick for tick in nice_ticks(0.0, top, 4) if tick <= top * 1.02]
    frame = _Frame(float(bars.edges[0]), float(bars.edges[-1]), top)
    parts = [_HATCH, *frame.grid(ticks), *_bar_shapes(bars, frame)]
    parts += [frame.curve(name, at, np.minimum(values, top)) for name, values in curves.items()]
    parts += frame.x_axis()
    if limit is not None:
        parts.append(frame.limit(limit))
    return svg(_WIDTH, _HEIGHT, parts, _spoken(scores, is_clean, limit), kind="chart histogram")


_HATCH = (
    '<defs><pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect class="hatch-ground" width="5" height="5"/><rect class="hatch-line" width="2" height="5"/></pattern></defs>'
)


class _Frame:
    """Where scores (low to high) and counts (0 to top) lie in the picture."""

    def __init__(self, low: float, high: float, top: float) -> None:
        self.x = Scale(low, high, _LEFT, _WIDTH - _RIGHT)
        self.y = Scale(0.0, top, _HEIGHT - _BOTTOM, _TOP)

    def grid(self, ticks: list[float]) -> list[str]:
        return [
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{self.y(tick):.1f}" y2="{self.y(tick):.1f}"/>'
            f'<text x="{_LEFT - 8}" y="{self.y(tick) + 4:.1f}" text-anchor="end">{tick:,.10g}</text>'
            for tick in ticks
        ]

    def x_axis(self) -> list[str]:
        middle = (_LEFT + _WIDTH - _RIGHT) / 2
        numbers = [
            f'<text x="{self.x(tick):.1f}" y="{_HEIGHT - _BOTTOM + 17}" text-anchor="middle">{tick:g}</text>'
            for tick in ticks_between(self.x.low, self.x.high, 10)
        ]
        label = "score: the higher, the more suspect"
        return [*numbers, f'<text x="{middle:.0f}" y="{_HEIGHT - 6}" text-anchor="middle">{label}</text>']

    def curve(self, name: str, at: Float[np.ndarray, " point"], counts: Float[np.ndarray, " point"]) -> str:
        points = " ".join(f"{self.x(score):.1f},{self.y(count):.1f}" for score, count in zip(at, counts, strict=True))
        return f'<polyline class="component {name}" points="{points}"/>'

    def limit(self, score: float) -> str:
        x = self.x(min(max(score, self.x.low), self.x.high))
        return (
            f'<line class="limit" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 8}" y2="{_HEIGHT - _BOTTOM}"/>'
            f'<text class="label" x="{x - 8:.1f}" y="{_TOP - 12}" text-anchor="end">clean</text>'
            f'<text class="label" x="{x + 8:.1f}" y="{_TOP - 12}">wrong</text>'
        )


def _bar_shapes(bars: Bars, frame: _Frame) -> list[str]:
    """One rectangle for each kind in each bin that has any, the wrong ones on top of the clean ones."""
    shapes = []
    for start, end, clean, wrong in zip(bars.edges, bars.edges[1:], bars.clean, bars.wrong, strict=False):
        left, width = frame.x(start), frame.x(end) - frame.x(start) - 1
        for kind, floor, count in (("clean", 0.0, clean), ("wrong", clean, wrong)):
            if count:
                y = frame.y(floor + count)
                height = frame.y(floor) - y
                shapes.append(
                    f'<rect class="bin {kind}" x="{left:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>'
                )
    return shapes


def _spoken(scores: Float[np.ndarray, " pair"], is_clean: Bool[np.ndarray, " pair"], limit: float | None) -> str:
    ends = f"scores of {len(scores):,} pairs from {scores.min():.3g} to {scores.max():.3g}"
    verdicts = f"{int(is_clean.sum()):,} clean and {int((~is_clean).sum()):,} wrong"
    return f"{ends}; {verdicts}" + (f", parted at {limit:.3g}" if limit is not None else "")
