"""The data-flow graph of a run as SVG: stages from left to right, one lane for each system."""

from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise

from noisyir.report.history import Build

_BOX, _COLUMN, _HIGH, _APART, _LANE = 98, 118, 26, 42, 64
_MARGIN = 8


def flow_graph(builds: Sequence[Build], systems: Sequence[str]) -> str:
    """Boxes for builds (inputs first), arrows for what each was made from, left out where a longer path says so."""
    columns = depths(builds)
    heights = _heights(builds, columns, systems)
    width = (max(columns.values()) + 1) * _COLUMN - (_COLUMN - _BOX) + 2 * _MARGIN
    height = max(heights.values()) + _HIGH / 2 + _MARGIN
    parts = []
    for build in builds:
        for source in essential_sources(build.name, builds):
            x1, y1 = _MARGIN + columns[source] * _COLUMN + _BOX, heights[source]
            x2, y2 = _MARGIN + columns[build.name] * _COLUMN, heights[build.name]
            bend = (x2 - x1) / 2 if columns[build.name] - columns[source] == 1 else _COLUMN / 3
            curve = f"M{x1},{y1:.1f} C{x1 + bend},{y1:.1f} {x2 - bend},{y2:.1f} {x2},{y2:.1f}"
            parts.append(f'<path class="flow" d="{curve}"/>')
    for build in builds:
        x, y = _MARGIN + columns[build.name] * _COLUMN, heights[build.name]
        tone = "mine" if build.systems == (systems[-1],) else ""
        parts.append(
            f'<rect class="node {tone}" x="{x}" y="{y - _HIGH / 2:.1f}" width="{_BOX}" height="{_HIGH}" rx="5"/>'
        )
        shown = escape(build.name.partition("@")[0])
        parts.append(f'<text class="name" x="{x + _BOX / 2}" y="{y + 4:.1f}" text-anchor="middle">{shown}</text>')
    size = f'viewBox="0 0 {width} {height:.0f}" style="max-width:{width}px"'
    return f'<svg class="chart graph" {size} role="img" aria-label="data flow">{"".join(parts)}</svg>'


def depths(builds: Sequence[Build]) -> dict[str, int]:
    """Each build's column: one more than its furthest source's, or 0."""
    found: dict[str, int] = {}
    for build in builds:
        found[build.name] = max((found[source] + 1 for source in build.sources), default=0)
    return found


def essential_sources(name: str, builds: Sequence[Build]) -> list[str]:
    """The sources of a build that are not behind another of its sources: the graph's transitive reduction."""
    sources = {build.name: build.sources for build in builds}
    behind = {name: _all_behind(name, sources) for name in sources[name]}
    return [source for source in sources[name] if not any(source in others for others in behind.values())]


def _all_behind(name: str, sources: Mapping[str, Sequence[str]]) -> set[str]:
    """Every ancestor, each looked at once: of a model trained in rounds there are more paths than can be walked."""
    found, row = set[str](), [name]
    while row:
        fresh = [source for source in sources[row.pop()] if source not in found]
        found.update(fresh)
        row += fresh
    return found


def _heights(builds: Sequence[Build], columns: Mapping[str, int], systems: Sequence[str]) -> dict[str, float]:
    """Vertical centres: the mean of the lanes of the systems served, pushed apart within a column."""
    wished = {}
    for build in builds:
        lanes = [systems.index(system) for system in build.systems] or list(range(len(systems)))
        wished[build.name] = sum(lanes) / len(lanes) * _LANE
    for column in set(columns.values()):
        names = sorted((name for name in wished if columns[name] == column), key=lambda name: wished[name])
        for above, name in pairwise(names):
            wished[name] = max(wished[name], wished[above] + _APART)
    return {name: y + _HIGH / 2 + _MARGIN for name, y in wished.items()}
