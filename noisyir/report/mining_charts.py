"""Distributions of the losses of groups of passages as SVG text, one row a group over one axis of loss."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from noisyir.report.charts import Scale, svg, ticks_between

NAMES = {"positive": "positives", "false": "false negatives", "hard": "hard negatives", "in_batch": "in-batch"}
_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM, _ROW, _SHAPE = 340, 104, 12, 4, 36, 44, 36


@dataclass(frozen=True)
class Histogram:
    """One group's losses: the share of each bin (low, high, share), how many there are, and their median."""

    bins: Sequence[tuple[float, float, float]]
    count: int
    median: float


@dataclass(frozen=True)
class Losses:
    """The groups that have passages, and the chance that a false negative's loss is below a hard one's, if known."""

    groups: Mapping[str, Histogram]
    auroc: float | None

    @property
    def span(self) -> tuple[float, float]:
        """The least and the greatest loss of all groups."""
        bins = [bin_ for group in self.groups.values() for bin_ in group.bins if bin_[2]]
        return min(low for low, _, _ in bins), max(high for _, high, _ in bins)


def read_losses(table: pa.Table) -> Losses:
    """What LOSS_GROUPS holds."""
    rows = table.to_pylist()
    bins: dict[str, list[tuple[float, float, float]]] = {}
    values: dict[tuple[str, str], float] = {}
    for row in rows:
        if row["measure"] == "share":
            bins.setdefault(row["group"], []).append((row["low"], row["high"], row["value"]))
        else:
            values[row["group"], row["measure"]] = row["value"]
    groups = {
        name: Histogram(sorted(bins[name]), round(values[name, "count"]), values[name, "q50"])
        for name in NAMES
        if name in bins
    }
    return Losses(groups, values.get(("false", "auroc")))


def loss_chart(losses: Losses, span: tuple[float, float], *, name: str) -> str:
    """A row for each group: its density, as high as the row whatever its greatest value, and a line at its median.

    span: the losses at the ends of the axis, the same for all pictures that are to be compared.
    """
    height = _TOP + _ROW * len(losses.groups) + _BOTTOM
    x = Scale(*span, _LEFT, _WIDTH - _RIGHT)
    parts = _axis(x, height)
    for number, (group, histogram) in enumerate(losses.groups.items()):
        parts += _row(group, histogram, x, _TOP + _ROW * (number + 1))
    medians = ", ".join(f"{NAMES[group]} {histogram.median:.2f}" for group, histogram in losses.groups.items())
    return svg(_WIDTH, height, parts, f"median loss under {name}: {medians}", kind="chart losses")


def _axis(x: Scale, height: int) -> list[str]:
    bottom = height - _BOTTOM
    parts = []
    for tick in ticks_between(x.low, x.high, 5):
        at = f"{x(tick):.1f}"
        parts.append(f'<line class="grid" x1="{at}" x2="{at}" y1="{_TOP}" y2="{bottom}"/>')
        parts.append(f'<text x="{at}" y="{bottom + 14}" text-anchor="middle">{tick:g}</text>')
    middle = (x.start + x.end) / 2
    parts.append(f'<text x="{middle:.0f}" y="{height - 5}" text-anchor="middle">loss, nats</text>')
    return parts


def _row(group: str, histogram: Histogram, x: Scale, floor: float) -> list[str]:
    densities = [share / ((high - low) or 1.0) for low, high, share in histogram.bins]
    highest = max(densities)
    corners = [(histogram.bins[0][0], 0.0)]
    for (low, high, _), density in zip(histogram.bins, densities, strict=True):
        corners += [(low, density), (high, density)]
    corners.append((histogram.bins[-1][1], 0.0))
    points = " ".join(f"{x(loss):.1f},{floor - _SHAPE * density / highest:.1f}" for loss, density in corners)
    median = f"{x(histogram.median):.1f}"
    return [
        f'<text class="label" x="0" y="{floor - 16:.0f}">{NAMES[group]}</text>',
        f'<text x="0" y="{floor - 2:.0f}">{histogram.count:,}</text>',
        f'<g class="group {group}"><polygon class="density" points="{points}"/>'
        f'<line class="median" x1="{median}" x2="{median}" y1="{floor - _SHAPE}" y2="{floor}"/></g>',
    ]
