"""History for a page: builds by name, the graph of their data flow, their settings and costs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any

from noisyir.base.durations import duration
from noisyir.engine.meta import Meta, Ref

_BOX, _COLUMN, _HIGH, _APART, _LANE, _MARGIN = 98, 118, 26, 42, 64, 8  # of the graph


@dataclass(frozen=True)
class Build:
    """A build, named for the page, and the systems that depend on it."""

    name: str
    meta: Meta
    systems: tuple[str, ...]
    sources: tuple[str, ...]


def name_builds(metas: Sequence[Meta], systems: Mapping[str, Sequence[Ref]]) -> list[Build]:
    """Name the builds, inputs first, uniquely.

    `systems` maps a label to artifacts that only this system has, such as its run and metrics.  Several builds of a
    stage are distinguished by their system: `encode@dpr`.
    """
    by_id = {_id(meta): meta for meta in metas}
    users: dict[str, list[str]] = {build: [] for build in by_id}
    made_by = {(meta.key, name, found.digest): _id(meta) for meta in metas for name, found in meta.artifacts.items()}

    def maker(ref: Ref) -> str:
        """Return the artifact's build or, if it is gone, the one that replaced it."""
        own = f"{ref.key}/{ref.build}"
        return own if own in by_id else made_by[ref.key, ref.artifact, ref.digest]

    sources = {build: [maker(ref) for _, ref in meta.input_refs()] for build, meta in by_id.items()}
    for label, refs in systems.items():
        for build in _all_behind([maker(ref) for ref in refs], sources):
            users[build].append(label)
    names: dict[str, str] = {}
    for build, meta in by_id.items():
        name = _name(meta, users[build], several=sum(other.stage == meta.stage for other in metas) > 1)
        names[build] = name if name not in names.values() else f"{name} {meta.key[:6]}"
    return [
        Build(names[build], meta, tuple(users[build]), tuple(dict.fromkeys(names[source] for source in sources[build])))
        for build, meta in by_id.items()
    ]


def _name(meta: Meta, users: Sequence[str], *, several: bool) -> str:
    if not several or len(users) != 1 or users[0] == meta.stage:
        return meta.stage
    return f"{meta.stage}@{users[0]}"


def _id(meta: Meta) -> str:
    return f"{meta.key}/{meta.build}"


def flow_graph(builds: Sequence[Build], systems: Sequence[str]) -> str:
    """Draw boxes for builds and arrows for inputs that are on no longer path."""
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
    """Return each build's column: one more than its furthest source's, or 0."""
    found: dict[str, int] = {}
    for build in builds:
        found[build.name] = max((found[source] + 1 for source in build.sources), default=0)
    return found


def essential_sources(name: str, builds: Sequence[Build]) -> list[str]:
    """Return the sources of a build that are not behind another one: the transitive reduction."""
    sources = {build.name: build.sources for build in builds}
    behind = {name: _all_behind(sources[name], sources) for name in sources[name]}
    return [source for source in sources[name] if not any(source in others for others in behind.values())]


def _all_behind(start: Sequence[str], sources: Mapping[str, Sequence[str]]) -> set[str]:
    """Return these and every ancestor, each visited once: rounds of training have exponentially many paths."""
    found, row = set(start), list(start)
    while row:
        fresh = [source for source in sources[row.pop()] if source not in found]
        found.update(fresh)
        row += fresh
    return found


def _heights(builds: Sequence[Build], columns: Mapping[str, int], systems: Sequence[str]) -> dict[str, float]:
    """Return vertical centres: the mean lane of the systems served, pushed apart within a column."""
    y = {}
    for build in builds:
        lanes = [systems.index(system) for system in build.systems] or list(range(len(systems)))
        y[build.name] = sum(lanes) / len(lanes) * _LANE
    for column in set(columns.values()):
        names = sorted((name for name in y if columns[name] == column), key=y.__getitem__)
        for above, name in pairwise(names):
            y[name] = max(y[name], y[above] + _APART)
    return {name: top + _HIGH / 2 + _MARGIN for name, top in y.items()}


def facts(builds: Sequence[Meta]) -> dict[str, str]:
    """Return a few facts on data, model and work, as far as builds record them."""
    first: dict[str, Mapping[str, Any]] = {}
    for meta in builds:
        first.setdefault(meta.stage, meta.params)
    known = {
        "data": first.get("ingest", {}).get("kind"),
        "backbone": first.get("init_model", {}).get("backbone"),
        "epochs": first.get("train_dpr", {}).get("epochs"),
        "builds": f"{len(builds):,}" if builds else None,
        "computing time": duration(sum(meta.seconds for meta in builds)) if builds else None,
    }
    return {name: str(value) for name, value in known.items() if value is not None}


def settings(builds: Sequence[Meta]) -> list[tuple[str, list[tuple[str, str, bool]]]]:
    """Return for each stage (setting, its values, whether builds differ in it), seeds included."""
    stages: dict[str, list[Meta]] = {}
    for meta in builds:
        stages.setdefault(meta.stage, []).append(meta)
    return [(stage, found) for stage, metas in stages.items() if (found := _settings(metas))]


def environment(builds: Sequence[Meta]) -> dict[str, str]:
    """Return the versions of code and packages that made the builds."""
    versions: dict[str, dict[str, None]] = {}
    for meta in builds:
        versions.setdefault("code", {})[meta.git_commit or "an installed package"] = None
        for name, version in sorted(meta.packages.items()):
            versions.setdefault(name, {})[version] = None
    return {name: ", ".join(found) for name, found in versions.items()}


def _settings(metas: Sequence[Meta]) -> list[tuple[str, str, bool]]:
    values: dict[str, dict[str, None]] = {}
    for meta in metas:
        own = {} if meta.seed is None else {"seed": meta.seed}
        for name, value in {**own, **meta.params}.items():
            values.setdefault(name, {})[json.dumps(value, ensure_ascii=False)] = None
    return [(name, " | ".join(found), len(found) > 1) for name, found in values.items()]
