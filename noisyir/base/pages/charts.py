"""Charts as SVG text.  Colours are the page's CSS classes, so that they follow light, dark and print."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Literal

from noisyir.base.pages.cells import shorten

Points = Sequence[tuple[float, float]]
Role = Literal["baseline", "reference", "other"]

_MAX_POINTS = 160

# charts of several lines
_LEFT, _TOP, _BOTTOM, _WIDTH, _LEAST_HEIGHT = 50, 14, 40, 520, 250
_LABEL_GAP, _LABEL_WIDTH, _MAX_NAME = 14.0, 132, 20
_COLOURS = 7  # classes s0 to s6 of the page's style
_MARKS = ("circle", "square", "diamond", "triangle")
_CORNERS = {
    "square": ((-3, -3), (3, -3), (3, 3), (-3, 3)),
    "diamond": ((0, -4.5), (4.5, 0), (0, 4.5), (-4.5, 0)),
    "triangle": ((0, -4.5), (4, 3), (-4, 3)),
}
_MARKED = 24  # most points of a line that are all marked

# histograms
_BINS_WIDTH, _BINS_HEIGHT, _BINS_LEFT, _BINS_RIGHT, _BINS_TOP, _BINS_BOTTOM = 1080, 300, 64, 14, 30, 44
_HEADROOM = 1.25  # a curve may rise this much above the highest bar before it is cut
_HATCH = (
    '<defs><pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect class="hatch-ground" width="5" height="5"/><rect class="hatch-line" width="2" height="5"/></pattern></defs>'
)


@dataclass(frozen=True)
class Scale:
    """A linear map from values to places in a picture: `low` to `start`, `high` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The value's place."""
        return self.start + (value - self.low) / ((self.high - self.low) or 1.0) * (self.end - self.start)


@dataclass(frozen=True)
class Estimate:
    """A mean with its interval."""

    name: str
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Point:
    """A mean at a noise rate (a share) or an epoch, with its spread over seeds (0 if unknown)."""

    at: float
    mean: float
    spread: float


@dataclass(frozen=True)
class Line:
    """One method's points, from left to right."""

    name: str
    role: Role
    points: Sequence[Point]


@dataclass(frozen=True)
class Bars:
    """Counts of clean and wrong values in bins; `edges` has one more value than the counts."""

    edges: Sequence[float]
    clean: Sequence[float]
    wrong: Sequence[float]


def interval_chart(estimates: Sequence[Estimate], *, width: int = 380) -> str:
    """One row an estimate: a dot at the mean, a line from low to high; the last row is accented."""
    left, right, row = 174, 14, 26
    height = row * len(estimates) + 24
    ticks = nice_ticks(min(0.0, *(e.low for e in estimates)), max(e.high for e in estimates), 4)
    x = Scale(ticks[0], ticks[-1], left, width - right)
    parts = []
    for tick in ticks:
        parts.append(_segment("grid", x(tick), 4, x(tick), height - 20))
        parts.append(_text(x(tick), height - 5, f"{tick:g}", kind="tick"))
    for number, estimate in enumerate(estimates):
        y = row * number + 16
        tone = "accent" if number == len(estimates) - 1 else "plain"
        parts.append(_text(left - 10, y + 4, shorten(estimate.name, 26), anchor="end", kind="label"))
        parts.append(_segment(f"interval {tone}", x(estimate.low), y, x(estimate.high), y))
        parts.append(_circle(f"dot {tone}", x(estimate.mean), y, 4))
    spoken = "; ".join(f"{e.name} {e.mean:.3f} ({e.low:.3f} to {e.high:.3f})" for e in estimates)
    return svg(width, height, parts, spoken, fixed=True)


def line_chart(points: Points, *, name: str, width: int = 480, height: int = 190) -> str:
    """A curve of (x, y) with light grid lines; many points become means of equal stretches."""
    left, right, top, bottom = 50, 14, 10, 24
    points = thin(points)
    first, last = min(x for x, _ in points), max(x for x, _ in points)
    y_ticks = nice_ticks(min(y for _, y in points), max(y for _, y in points), 4)
    x, y = Scale(first, last, left, width - right), Scale(y_ticks[0], y_ticks[-1], height - bottom, top)
    parts = _y_axis([(tick, f"{tick:g}") for tick in y_ticks], y, left, width - right, gap=8, kind="tick")
    parts += [_text(x(tick), height - 6, f"{tick:g}", kind="tick") for tick in ticks_between(first, last, 6)]
    places = [(x(at), y(value)) for at, value in points]
    parts.append(_polyline("curve", places))
    parts += [_circle("dot accent", *place, 3) for place in (places if len(places) <= _MARKED else places[-1:])]
    return svg(width, height, parts, f"{name}: from {points[0][1]:.4g} to {points[-1][1]:.4g}", fixed=True)


def spark_line(values: Sequence[float], *, width: int = 120, height: int = 26) -> str:
    """Shares from 0 to 1 as a line without axes; its foot is 0, its top 1."""
    x, y = Scale(0, max(1, len(values) - 1), 3, width - 3), Scale(0, 1, height - 3, 3)
    places = [(x(number), y(value)) for number, value in enumerate(values)]
    parts = [
        _segment("grid", 3, y(0), width - 3, y(0)),
        _polyline("curve", places),
        _circle("dot accent", *places[-1], 2.5),
    ]
    return svg(width, height, parts, f"from {values[0]:.3f} to {values[-1]:.3f}", fixed=True)


def rate_chart(lines: Sequence[Line], *, name: str) -> str:
    """Mean by rate, a line a method with its name at the end; whiskers reach one standard deviation over seeds."""
    rates = sorted({point.at for line in lines for point in line.points})
    return _lines_chart(lines, {rate: f"{100 * rate:g} %" for rate in rates}, "noise rate", name)


def epoch_chart(lines: Sequence[Line], *, name: str, axis: str = "epoch") -> str:
    """Mean by epoch of training, or by another count."""
    places = [point.at for line in lines for point in line.points]
    ticks = ticks_between(min(places), max(places), 5)
    return _lines_chart(lines, {tick: f"{tick:g}" for tick in ticks}, axis, name)


def _lines_chart(lines: Sequence[Line], ticks: Mapping[float, str], axis: str, name: str) -> str:
    height = max(_LEAST_HEIGHT, round(_TOP + _BOTTOM + _LABEL_GAP * len(lines)))
    right = _WIDTH - _LABEL_WIDTH
    points = [point for line in lines for point in line.points]
    y_ticks = nice_ticks(min(p.mean - p.spread for p in points), max(p.mean + p.spread for p in points), 4)
    x = Scale(min(p.at for p in points), max(p.at for p in points), _LEFT, right)
    y = Scale(y_ticks[0], y_ticks[-1], height - _BOTTOM, _TOP)
    parts = _y_axis([(tick, f"{tick:g}") for tick in y_ticks], y, _LEFT, right, gap=10)
    parts += [_text(x(at), height - _BOTTOM + 18, text) for at, text in ticks.items()]
    parts.append(_text((_LEFT + right) / 2, height - 5, axis))
    labels = spread_out([y(line.points[-1].mean) for line in lines], _LABEL_GAP, _TOP, height - _BOTTOM)
    others = 0
    for line, label in zip(lines, labels, strict=True):
        tone, mark = str(line.role), "circle"
        if line.role == "other":
            tone, mark = f"s{others % _COLOURS} d{others // _COLOURS % 2}", _MARKS[others % len(_MARKS)]
            others += 1
        parts.append(f'<g class="series {tone}">{"".join(_line(line, x, y, mark, label))}</g>')
    ends = ", ".join(f"{line.name} {line.points[0].mean:.3f} to {line.points[-1].mean:.3f}" for line in lines)
    return svg(_WIDTH, height, parts, f"{name} by {axis}: {ends}", kind="chart rates")


def _line(line: Line, x: Scale, y: Scale, mark: str, label: float) -> list[str]:
    places = [(x(point.at), y(point.mean), point) for point in line.points]
    parts = [_polyline("line", [place[:2] for place in places])]
    for at, middle, point in places if len(places) <= _MARKED else places[-1:]:
        if point.spread:
            parts.append(_segment("whisker", at, y(point.mean + point.spread), at, y(point.mean - point.spread)))
        parts.append(_mark(mark, at, middle))
    at, middle, _ = places[-1]
    parts.append(_segment("leader", at + 5, middle, at + 18, label))
    parts.append(_text(at + 22, label + 4, shorten(line.name, _MAX_NAME), anchor="", kind="label"))
    return parts


def _mark(mark: str, x: float, y: float) -> str:
    if mark == "circle":
        return _circle("mark", x, y, 3.5)
    return f'<polygon class="mark" points="{_joined((x + dx, y + dy) for dx, dy in _CORNERS[mark])}"/>'


def spread_out(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """The places moved as little as keeps `gap` between neighbours and, if there is room, all within low to high."""
    order = sorted(range(len(places)), key=lambda number: places[number])
    # Neighbours too close become one cluster, centred on the mean of its members' own places.
    clusters: list[list[int]] = []
    starts: list[float] = []
    for number in order:
        clusters.append([number])
        starts.append(0.0)
        while True:
            size = gap * (len(clusters[-1]) - 1)
            wanted = sum(places[member] for member in clusters[-1]) / len(clusters[-1])
            starts[-1] = max(low, min(wanted - size / 2, high - size))
            if len(clusters) < 2 or starts[-2] + gap * len(clusters[-2]) <= starts[-1] + 1e-9:
                break
            last = clusters.pop()
            clusters[-1] += last
            starts.pop()
    moved = list(places)
    for start, cluster in zip(starts, clusters, strict=True):
        for place, number in enumerate(cluster):
            moved[number] = start + gap * place
    return moved


def histogram(
    bars: Bars, curves: Mapping[str, Points], limit: float | None, *, axis: str, spoken: str, width: int = _BINS_WIDTH
) -> str:
    """Stacked bars, with curves by name over them and perhaps a limit between clean and wrong."""
    bottom, right = _BINS_HEIGHT - _BINS_BOTTOM, width - _BINS_RIGHT
    highest = max(clean + wrong for clean, wrong in zip(bars.clean, bars.wrong, strict=True))
    peak = max((count for points in curves.values() for _, count in points), default=0.0)
    top = max(highest, min(peak, highest * _HEADROOM))
    x, y = Scale(bars.edges[0], bars.edges[-1], _BINS_LEFT, right), Scale(0.0, top, bottom, _BINS_TOP)
    ticks = [(tick, f"{tick:,.10g}") for tick in nice_ticks(0.0, top, 4) if tick <= top * 1.02]
    parts = [_HATCH, *_y_axis(ticks, y, _BINS_LEFT, right, gap=8), *_bar_shapes(bars, x, y)]
    for name, points in curves.items():
        parts.append(_polyline(f"component {name}", [(x(at), y(min(count, top))) for at, count in points]))
    parts += [_text(x(tick), bottom + 17, f"{tick:g}") for tick in ticks_between(x.low, x.high, width // 100)]
    parts.append(_text((_BINS_LEFT + right) / 2, _BINS_HEIGHT - 6, axis))
    if limit is not None:
        at = x(min(max(limit, x.low), x.high))
        parts.append(_segment("limit", at, _BINS_TOP - 8, at, bottom))
        parts.append(_text(at - 8, _BINS_TOP - 12, "not flagged", anchor="end", kind="label"))
        parts.append(_text(at + 8, _BINS_TOP - 12, "flagged", anchor="", kind="label"))
    return svg(width, _BINS_HEIGHT, parts, spoken, kind="chart histogram")


def _bar_shapes(bars: Bars, x: Scale, y: Scale) -> list[str]:
    """A rectangle for each kind in each bin that has any, wrong on top of clean."""
    shapes = []
    for (start, end), clean, wrong in zip(pairwise(bars.edges), bars.clean, bars.wrong, strict=True):
        above = "" if end == bars.edges[-1] else f"{end:.4g}"  # the last bin has the rest
        data = f'data-from="{start:.4g}" data-to="{above}"'
        left, width = x(start), x(end) - x(start) - 1
        for kind, floor, count in (("clean", 0.0, clean), ("wrong", clean, wrong)):
            if count:
                head = y(floor + count)
                size = f'x="{left:.1f}" y="{head:.1f}" width="{width:.1f}" height="{y(floor) - head:.1f}"'
                shapes.append(f'<rect class="bin {kind}" {data} {size}/>')
    return shapes


def thin(points: Points) -> Points:
    """At most 160 points: means of equal stretches, the last one perhaps shorter."""
    if len(points) <= _MAX_POINTS:
        return points
    stretch = math.ceil(len(points) / _MAX_POINTS)
    groups = [points[start : start + stretch] for start in range(0, len(points), stretch)]
    return [(sum(x for x, _ in group) / len(group), sum(y for _, y in group) / len(group)) for group in groups]


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
    """The picture, with the text that is read aloud in its place; fixed: it does not grow with the page."""
    size = f' width="{width}" height="{height}"' if fixed else ""
    head = f'<svg class="{kind}" viewBox="0 0 {width} {height}"{size} role="img"'
    return f'{head} aria-label="{escape(spoken)}">{"".join(parts)}</svg>'


def _y_axis(
    ticks: Iterable[tuple[float, str]], y: Scale, left: float, right: float, *, gap: float, kind: str = ""
) -> list[str]:
    """A grid line from left to right at each tick, and its label."""
    return [
        _segment("grid", left, y(tick), right, y(tick)) + _text(left - gap, y(tick) + 4, text, anchor="end", kind=kind)
        for tick, text in ticks
    ]


def _segment(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'


def _circle(kind: str, x: float, y: float, radius: float) -> str:
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}"/>'


def _polyline(kind: str, places: Iterable[tuple[float, float]]) -> str:
    return f'<polyline class="{kind}" points="{_joined(places)}"/>'


def _joined(places: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def _text(x: float, y: float, text: str, *, anchor: str = "middle", kind: str = "") -> str:
    style = f' class="{kind}"' if kind else ""
    side = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text{style} x="{x:.1f}" y="{y:.1f}"{side}>{escape(text)}</text>'
