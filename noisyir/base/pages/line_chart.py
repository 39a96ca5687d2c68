"""Line charts of a measure over noise rates or epochs, as SVG."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

from noisyir.base.pages.cells import shorten
from noisyir.base.pages.charts import Scale, nice_ticks, svg, ticks_between

_LEFT, _TOP, _BOTTOM, _WIDTH, _LEAST_HEIGHT = 50, 14, 40, 520, 250
_LABEL_GAP, _LABEL_WIDTH, _MAX_NAME = 14.0, 132, 20
_COLOURS = 7  # classes s0 to s6 of the page's style
_MARKS = ("circle", "square", "diamond", "triangle")
_MARKED = 24  # points of a line, at most, that are marked one by one
Role = Literal["baseline", "reference", "other"]


@dataclass(frozen=True)
class Point:
    """A mean at a noise rate (a share) or an epoch, with its spread over seeds, 0 if unknown."""

    at: float
    mean: float
    spread: float


@dataclass(frozen=True)
class Line:
    """One method's points, from left to right."""

    name: str
    role: Role
    points: Sequence[Point]


def rate_chart(lines: Sequence[Line], *, name: str) -> str:
    """Mean by rate, a line a method with its name at the end; whiskers are one standard deviation over seeds."""
    rates = sorted({point.at for line in lines for point in line.points})
    return _chart(lines, {rate: f"{100 * rate:g} %" for rate in rates}, "noise rate", name)


def epoch_chart(lines: Sequence[Line], *, name: str, axis: str = "epoch") -> str:
    """Mean by epoch of training, or by another axis."""
    places = [point.at for line in lines for point in line.points]
    ticks = ticks_between(min(places), max(places), 5)
    return _chart(lines, {tick: f"{tick:g}" for tick in ticks}, axis, name)


def _chart(lines: Sequence[Line], ticks: Mapping[float, str], axis: str, name: str) -> str:
    height = max(_LEAST_HEIGHT, round(_TOP + _BOTTOM + _LABEL_GAP * len(lines)))
    points = [point for line in lines for point in line.points]
    frame = _Frame(points, height)
    parts = frame.axes(ticks, axis)
    labels = spread_out([frame.y(line.points[-1].mean) for line in lines], _LABEL_GAP, _TOP, height - _BOTTOM)
    others = 0
    for line, label in zip(lines, labels, strict=True):
        tone, mark = str(line.role), "circle"
        if line.role == "other":
            tone, mark = f"s{others % _COLOURS} d{others // _COLOURS % 2}", _MARKS[others % len(_MARKS)]
            others += 1
        parts.append(f'<g class="series {tone}">{"".join(_line(line, frame, mark, label))}</g>')
    ends = ", ".join(f"{line.name} {line.points[0].mean:.3f} to {line.points[-1].mean:.3f}" for line in lines)
    return svg(_WIDTH, height, parts, f"{name} by {axis}: {ends}", kind="chart rates")


def spread_out(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """The places, moved as little as keeps `gap` between neighbours and, with room, all in [low, high]."""
    order = sorted(range(len(places)), key=lambda number: places[number])
    # Neighbours too close become one cluster, centred on the mean of where its members want to be.
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


class _Frame:
    """Axes of the picture."""

    def __init__(self, points: Sequence[Point], height: int) -> None:
        self.height, self.right = height, _WIDTH - _LABEL_WIDTH
        self.ticks = nice_ticks(min(p.mean - p.spread for p in points), max(p.mean + p.spread for p in points), 4)
        self.x = Scale(min(p.at for p in points), max(p.at for p in points), _LEFT, self.right)
        self.y = Scale(self.ticks[0], self.ticks[-1], height - _BOTTOM, _TOP)

    def axes(self, ticks: Mapping[float, str], label: str) -> list[str]:
        parts = []
        for tick in self.ticks:
            y = self.y(tick)
            parts.append(f'<line class="grid" x1="{_LEFT}" x2="{self.right}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(f'<text x="{_LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>')
        bottom = self.height - _BOTTOM + 18
        parts += [
            f'<text x="{self.x(at):.1f}" y="{bottom}" text-anchor="middle">{text}</text>' for at, text in ticks.items()
        ]
        middle = (_LEFT + self.right) / 2
        parts.append(f'<text x="{middle:.0f}" y="{self.height - 5}" text-anchor="middle">{label}</text>')
        return parts


def _line(line: Line, frame: _Frame, mark: str, label: float) -> list[str]:
    places = [(frame.x(point.at), frame.y(point.mean), point) for point in line.points]
    parts = [f'<polyline class="line" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y, _ in places)}"/>']
    for x, y, point in places if len(places) <= _MARKED else places[-1:]:
        if point.spread:
            top, bottom = frame.y(point.mean + point.spread), frame.y(point.mean - point.spread)
            parts.append(f'<line class="whisker" x1="{x:.1f}" x2="{x:.1f}" y1="{top:.1f}" y2="{bottom:.1f}"/>')
        parts.append(_mark(mark, x, y))
    x, y, _ = places[-1]
    name = escape(shorten(line.name, _MAX_NAME))
    parts.append(f'<line class="leader" x1="{x + 5:.1f}" x2="{x + 18:.1f}" y1="{y:.1f}" y2="{label:.1f}"/>')
    parts.append(f'<text class="label" x="{x + 22:.1f}" y="{label + 4:.1f}">{name}</text>')
    return parts


def _mark(mark: str, x: float, y: float) -> str:
    if mark == "circle":
        return f'<circle class="mark" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>'
    corners = {
        "square": ((-3, -3), (3, -3), (3, 3), (-3, 3)),
        "diamond": ((0, -4.5), (4.5, 0), (0, 4.5), (-4.5, 0)),
        "triangle": ((0, -4.5), (4, 3), (-4, 3)),
    }[mark]
    return f'<polygon class="mark" points="{" ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)}"/>'
