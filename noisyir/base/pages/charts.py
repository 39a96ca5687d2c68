"""Small charts as SVG text; colours are CSS classes of the page, for light, dark and print."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from noisyir.base.pages.cells import shorten

Points = Sequence[tuple[float, float]]
_MAX_POINTS = 160


@dataclass(frozen=True)
class Estimate:
    """A mean with its interval."""

    name: str
    mean: float
    low: float
    high: float


def interval_chart(estimates: Sequence[Estimate], *, width: int = 330) -> str:
    """One row an estimate: a dot at the mean, a line from low to high; the last row is accented."""
    left, right, row = 124, 14, 26
    height = row * len(estimates) + 24
    ticks = nice_ticks(min(0.0, *(e.low for e in estimates)), max(e.high for e in estimates), 4)
    place = Scale(ticks[0], ticks[-1], left, width - right)
    parts = [_grid_x(tick, place(tick), height - 20) for tick in ticks]
    for number, estimate in enumerate(estimates):
        y = row * number + 16
        tone = "accent" if number == len(estimates) - 1 else "plain"
        name = escape(shorten(estimate.name, 16))
        parts.append(f'<text class="label" x="{left - 10}" y="{y + 4}" text-anchor="end">{name}</text>')
        line = f'x1="{place(estimate.low):.1f}" x2="{place(estimate.high):.1f}" y1="{y}" y2="{y}"'
        parts.append(f'<line class="interval {tone}" {line}/>')
        parts.append(f'<circle class="dot {tone}" cx="{place(estimate.mean):.1f}" cy="{y}" r="4"/>')
    spoken = "; ".join(f"{e.name} {e.mean:.3f} ({e.low:.3f} to {e.high:.3f})" for e in estimates)
    return svg(width, height, parts, spoken, fixed=True)


def line_chart(points: Points, *, name: str, width: int = 480, height: int = 190) -> str:
    """A curve of (x, y) with light grid lines; many points become means of equal stretches."""
    left, right, top, bottom = 50, 14, 10, 24
    points = thin(points)
    x_ticks = nice_ticks(min(x for x, _ in points), max(x for x, _ in points), 6)
    y_ticks = nice_ticks(min(y for _, y in points), max(y for _, y in points), 4)
    to_x = Scale(min(x for x, _ in points), max(x for x, _ in points), left, width - right)
    to_y = Scale(y_ticks[0], y_ticks[-1], height - bottom, top)
    parts = []
    for tick in y_ticks:
        parts.append(
            f'<line class="grid" x1="{left}" x2="{width - right}" y1="{to_y(tick):.1f}" y2="{to_y(tick):.1f}"/>'
        )
        parts.append(f'<text class="tick" x="{left - 8}" y="{to_y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for tick in x_ticks:
        if left <= to_x(tick) <= width - right:
            parts.append(
                f'<text class="tick" x="{to_x(tick):.1f}" y="{height - 6}" text-anchor="middle">{tick:g}</text>'
            )
    path = " ".join(f"{to_x(x):.1f},{to_y(y):.1f}" for x, y in points)
    parts.append(f'<polyline class="curve" points="{path}"/>')
    marked = points if len(points) <= 24 else points[-1:]
    parts += [f'<circle class="dot accent" cx="{to_x(x):.1f}" cy="{to_y(y):.1f}" r="3"/>' for x, y in marked]
    return svg(width, height, parts, f"{name}: from {points[0][1]:.4g} to {points[-1][1]:.4g}", fixed=True)


def spark_line(values: Sequence[float], *, width: int = 120, height: int = 26) -> str:
    """Shares from 0 to 1 as a line without axes."""
    to_x, to_y = Scale(0, max(1, len(values) - 1), 3, width - 3), Scale(0, 1, height - 3, 3)
    path = " ".join(f"{to_x(x):.1f},{to_y(y):.1f}" for x, y in enumerate(values))
    dot = f'<circle class="dot accent" cx="{to_x(len(values) - 1):.1f}" cy="{to_y(values[-1]):.1f}" r="2.5"/>'
    foot = f'<line class="grid" x1="3" x2="{width - 3}" y1="{to_y(0)}" y2="{to_y(0)}"/>'
    line = f'<polyline class="curve" points="{path}"/>'
    return svg(width, height, [foot, line, dot], f"from {values[0]:.3f} to {values[-1]:.3f}", fixed=True)


def thin(points: Points) -> Points:
    """At most 160 points: means of equal stretches, the last one perhaps shorter."""
    if len(points) <= _MAX_POINTS:
        return points
    stretch = math.ceil(len(points) / _MAX_POINTS)
    groups = [points[start : start + stretch] for start in range(0, len(points), stretch)]
    return [(sum(x for x, _ in group) / len(group), sum(y for _, y in group) / len(group)) for group in groups]


@dataclass(frozen=True)
class Scale:
    """Places of values in a picture: `low` at `start`, `high` at `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The value's place."""
        return self.start + (value - self.low) / ((self.high - self.low) or 1.0) * (self.end - self.start)


def nice_ticks(low: float, high: float, about: int) -> list[float]:
    """Round numbers, spaced by 1, 2 or 5 times a power of ten, that enclose low and high."""
    span = (high - low) or abs(high) or 1.0
    raw = span / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 12) for number in range(first, max(last, first + 1) + 1)]


def ticks_between(low: float, high: float, about: int) -> list[float]:
    """The nice ticks from low to high."""
    return [tick for tick in nice_ticks(low, high, about) if low <= tick <= high]


def svg(width: int, height: int, parts: Sequence[str], spoken: str, *, kind: str = "chart", fixed: bool = False) -> str:
    """The picture with its text for screen readers; `fixed` keeps its size on the page."""
    size = f' width="{width}" height="{height}"' if fixed else ""
    head = f'<svg class="{kind}" viewBox="0 0 {width} {height}"{size} role="img"'
    return f'{head} aria-label="{escape(spoken)}">{"".join(parts)}</svg>'


def _grid_x(tick: float, x: float, height: float) -> str:
    line = f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="4" y2="{height}"/>'
    return f'{line}<text class="tick" x="{x:.1f}" y="{height + 15}" text-anchor="middle">{tick:g}</text>'
