"""False negatives on the pages of a run and of the noise bench: tables and charts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from markupsafe import Markup

from noisyir.base.pages.cells import (
    NO_TABLE,
    NONE,
    Figure,
    TextTable,
    markdown_table,
    mean_and_std,
    mean_with_std,
    number,
    percent,
    rate_as_set,
)
from noisyir.base.pages.charts import Line, Point, Scale, epoch_chart, line_chart, svg, ticks_between
from noisyir.evaluation.bench import Cell
from noisyir.evaluation.bench_quality import CANDIDATES, MINED, MiningQuality, equal_arms_together, mining_quality

_ARM = ["noise", "rate", "arm"]
_RATES = ["candidates", "relevant", "drawn", "false negatives"]
_QUALITY = ["filter or judge", "judged", "AUROC", "AP", "AP by query", "caught", "lost"]
_Noise = tuple[str, float]
NAMES = {"positive": "positives", "false": "false negatives", "hard": "hard negatives", "in_batch": "in-batch"}
_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM, _ROW, _SHAPE = 340, 104, 12, 4, 36, 44, 36


@dataclass(frozen=True)
class FalseNegatives:
    """Mining on a page; false if there is nothing to show."""

    rates: TextTable = NO_TABLE
    quality: TextTable = NO_TABLE
    losses: Sequence[Figure] = ()
    sieves: Sequence[Figure] = ()

    def __bool__(self) -> bool:
        return any((self.rates, self.quality, self.losses, self.sieves))


NOTHING = FalseNegatives()


def of_run(mining: pa.Table | None, losses: Mapping[str, pa.Table], curves: Mapping[str, pa.Table]) -> FalseNegatives:
    """One run's MINING_QUALITY, its LOSS_GROUPS by method, and its sieves' CURVES by label."""
    found = {
        quality.system: quality for quality in mining_quality({} if mining is None else {Cell("", 0, "", 0): mining})
    }
    judges = [_judge_cells(quality) for quality in found.values() if quality.system not in (CANDIDATES, MINED)]
    sieves = [
        Figure(name, about, Markup(line_chart(points, name=f"sieve-out rate, {name}")))
        for name, about, points in _by_rounds({label: _sieve_out(table) for label, table in curves.items()})
    ]
    rates = TextTable([_RATES, *([_rate_cells(found)] if found else [])], 0)
    by_method = _loss_figures({Cell("", 0.0, method, 0): table for method, table in losses.items()})
    return FalseNegatives(rates, TextTable([_QUALITY, *judges], 1), by_method, sieves)


def of_bench(
    mining: Mapping[Cell, pa.Table], losses: Mapping[Cell, pa.Table], curves: Mapping[Cell, pa.Table]
) -> FalseNegatives:
    """The arms' MINING_QUALITY, LOSS_GROUPS, and sieves' CURVES."""
    qualities = mining_quality(mining)
    rates = TextTable([[*_ARM, *_RATES, "seeds"], *_rate_rows(qualities)], len(_ARM))
    quality = TextTable([[*_ARM, *_QUALITY, "seeds"], *_judge_rows(qualities)], len(_ARM) + 1)
    return FalseNegatives(rates, quality, _loss_figures(losses), _sieve_figures(curves))


def _by_rounds(
    curves: Mapping[str, Sequence[tuple[float, float]]],
) -> Iterator[tuple[str, str, list[tuple[float, float]]]]:
    """Name, remark and points of each method's sieves; several rounds, METHOD@NUMBER, follow each other."""
    rounds: dict[str, list[Sequence[tuple[float, float]]]] = {}
    for label, points in curves.items():
        if points:
            rounds.setdefault(label.partition("@")[0], []).append(points)
    for name, found in rounds.items():
        by = "epoch" if len(found) == 1 else "round"
        last = [1.0 if by == "epoch" else points[-1][0] or 1.0 for points in found]
        row = [(number + epoch / last[number], rate) for number, points in enumerate(found) for epoch, rate in points]
        yield name, f"by {by}, last {row[-1][1]:.3f}", row


def mining_markdown(found: FalseNegatives) -> str:
    """The tables as Markdown, without charts."""
    return "\n".join(markdown_table(table.rows, left=table.left) for table in (found.rates, found.quality) if table)


def _rate_rows(qualities: Sequence[MiningQuality]) -> list[list[str]]:
    arms: dict[tuple[str, float, tuple[str, ...]], dict[str, MiningQuality]] = {}
    for quality in qualities:
        arms.setdefault((quality.mechanism, quality.rate, quality.arms), {})[quality.system] = quality
    return [
        [mechanism, rate_as_set(rate), _named(names), *_rate_cells(found), str(len(next(iter(found.values())).by_seed))]
        for (mechanism, rate, names), found in arms.items()
    ]


def _judge_rows(qualities: Sequence[MiningQuality]) -> list[list[str]]:
    """One row for each filter and judge; equal arms share one, called "all" if all that have it agree."""
    judges = [quality for quality in qualities if quality.system not in (CANDIDATES, MINED)]
    rows = []
    for quality in equal_arms_together(judges):
        same = (quality.mechanism, quality.rate, quality.system)
        having = sum((other.mechanism, other.rate, other.system) == same for other in judges)
        arms = "all" if len(quality.arms) == having > 1 else _named(quality.arms)
        where = [quality.mechanism, rate_as_set(quality.rate), arms]
        rows.append([*where, *_judge_cells(quality), str(len(quality.by_seed))])
    return rows


def _named(arms: Sequence[str]) -> str:
    """The arms' names; a dash for the only arm, which has none."""
    return ", ".join(arms) or NONE


def _rate_cells(found: Mapping[str, MiningQuality]) -> list[str]:
    candidates, mined = found.get(CANDIDATES), found.get(MINED)
    return [
        _count(candidates, "count"),
        _share(candidates, "relevant"),
        _count(mined, "slots"),
        _share(mined, "false_negative_rate"),
    ]


def _judge_cells(quality: MiningQuality) -> list[str]:
    ranking = [number(quality.mean(name)) for name in ("AUROC", "AP", "AP_query")]
    shares = [percent(quality.mean(name), 2) for name in ("caught", "lost")]
    return [quality.system, _count(quality, "count"), *ranking, *shares]


def _count(quality: MiningQuality | None, measure: str) -> str:
    mean = quality.mean(measure) if quality else None
    return NONE if mean is None else f"{mean:,.0f}"


def _share(quality: MiningQuality | None, measure: str) -> str:
    """A mean with its standard deviation over seeds, in percent."""
    mean = quality.mean(measure) if quality else None
    if quality is None or mean is None:
        return NONE
    std = quality.std(measure)
    return percent(mean, 2) if std is None else f"{100 * mean:.2f} ± {percent(std, 2)}"


def _loss_figures(losses: Mapping[Cell, pa.Table]) -> list[Figure]:
    """A chart of each arm's first seed, all over one axis; captions are of all seeds."""
    arms: dict[tuple[str, float, str], list[Losses]] = {}
    for cell, table in losses.items():
        arms.setdefault((cell.mechanism, cell.rate, cell.method), []).append(read_losses(table))
    if not arms:
        return []
    spans = [of_seeds[0].span for of_seeds in arms.values()]
    span = min(low for low, _ in spans), max(high for _, high in spans)
    return [
        Figure(
            arm or mechanism,
            "; ".join(filter(None, (_condition(mechanism, rate), _overlap(of_seeds)))),
            Markup(loss_chart(of_seeds[0], span, name=", ".join(filter(None, (arm, _condition(mechanism, rate)))))),
        )
        for (mechanism, rate, arm), of_seeds in arms.items()
    ]


@dataclass(frozen=True)
class Histogram:
    """One group's losses: bins (low, high, share), count and median."""

    bins: Sequence[tuple[float, float, float]]
    count: int
    median: float


@dataclass(frozen=True)
class Losses:
    """The groups with passages, and the AUROC of false against hard negatives, if known."""

    groups: Mapping[str, Histogram]
    auroc: float | None

    @property
    def span(self) -> tuple[float, float]:
        """The least and the greatest loss of all groups."""
        bins = [bin_ for group in self.groups.values() for bin_ in group.bins if bin_[2]]
        return min(low for low, _, _ in bins), max(high for _, high, _ in bins)


def _overlap(of_seeds: Sequence[Losses]) -> str:
    known = [losses.auroc for losses in of_seeds if losses.auroc is not None]
    return f"false below hard {mean_with_std(known)}" if known else ""


def _condition(mechanism: str, rate: float) -> str:
    """The kind and rate of noise; nothing in a run, which has one condition."""
    return f"{mechanism} {rate_as_set(rate)}" if mechanism else ""


def _sieve_figures(curves: Mapping[Cell, pa.Table]) -> list[Figure]:
    """A chart for each kind and rate of noise, a line an arm; arms with equal lines share one."""
    found: dict[_Noise, dict[str, dict[float, list[float]]]] = {}
    for cell, table in curves.items():
        by_epoch = found.setdefault((cell.mechanism, cell.rate), {}).setdefault(cell.method, {})
        for epoch, value in _sieve_out(table):
            by_epoch.setdefault(epoch, []).append(value)
    figures = []
    for (mechanism, rate), arms in found.items():
        named: dict[tuple[Point, ...], list[str]] = {}
        for arm, values_by_epoch in arms.items():
            points = tuple(Point(epoch, *mean_and_std(values)) for epoch, values in sorted(values_by_epoch.items()))
            if points:
                named.setdefault(points, []).append(arm or mechanism)
        if named:
            lines = [Line(", ".join(names), "other", points) for points, names in named.items()]
            chart = Markup(epoch_chart(lines, name="sieve-out rate"))
            figures.append(Figure("Sieve-out rate", f"{mechanism} {rate_as_set(rate)}, by epoch of the sieve", chart))
    return figures


def _sieve_out(curves: pa.Table) -> list[tuple[float, float]]:
    rows = curves.filter(pc.equal(curves["name"], "sieve_out_rate")).sort_by("step")
    return list(zip(rows["epoch"].to_pylist(), rows["value"].to_pylist(), strict=True))


def read_losses(table: pa.Table) -> Losses:
    """The rows of LOSS_GROUPS."""
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
    """A row for each group: its density, scaled to the row, and a line at its median; `span` is the axis of losses."""
    height = _TOP + _ROW * len(losses.groups) + _BOTTOM
    x = Scale(*span, _LEFT, _WIDTH - _RIGHT)
    parts = _axis(x, height)
    for row, (group, histogram) in enumerate(losses.groups.items(), start=1):
        parts += _row(group, histogram, x, _TOP + _ROW * row)
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
