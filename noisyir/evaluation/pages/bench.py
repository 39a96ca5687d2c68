"""The noise bench's page and its Markdown: a table per kind of noise and measure, detection, and settings."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import pyarrow as pa
from markupsafe import Markup

from noisyir.base.pages.cells import (
    NONE,
    Section,
    badge,
    difference_cells,
    markdown_table,
    p_value,
    rate_as_set,
    signed,
    templates,
)
from noisyir.base.pages.charts import Line, Point, Role, epoch_chart, rate_chart
from noisyir.engine.meta import Meta
from noisyir.evaluation.bench_quality import Quality
from noisyir.evaluation.pages.detection import bench_rows
from noisyir.evaluation.pages.history import environment, facts, settings
from noisyir.evaluation.pages.mining import NOTHING, FalseNegatives, mining_markdown
from noisyir.evaluation.settings import OWN, NoiseTableParams
from noisyir.evaluation.significance import SEEDS_OF_A_CLAIM, Verdict, verdict

Row = Mapping[str, Any]
_TITLE = "Training on wrong pairs"
_VARIED = re.compile(r"(?:(?P<line>.+)_)?(?P<setting>[A-Za-z]+)_(?P<at>\d+(\.\d+)?)")  # an arm's name
_EQUAL_COST = 1.25  # greatest cost, in the baseline's passes, that counts as equal


@dataclass(frozen=True)
class Bench:
    """Contents of the page; `summary` is a BENCH_SUMMARY, empty if nothing was trained."""

    summary: pa.Table
    detection: Sequence[Quality]
    seeds: Sequence[int]
    cells: int
    builds: Sequence[Meta]
    false_negatives: FalseNegatives = NOTHING
    further: Sequence[Section] = ()


def word(row: Row, alpha: float) -> Verdict | None:
    """The verdict of a row's test, if it has one."""
    if row["against"] is None:
        return None
    ends = row["difference_low"], row["difference_high"], row["p_holm"]
    return verdict(*ends, seeds=row["seeds"], alpha=alpha)


@dataclass(frozen=True)
class Entry:
    """A table's cell: its comparison, the verdict, and whether its mean is the best."""

    row: Row
    word: Verdict | None
    best: bool


@dataclass(frozen=True)
class Table:
    """One measure under one kind of noise: a row for each method, an entry for each rate (None: not run).

    `rows` compare with the baseline, `gaps` with the reference.
    """

    measure: str
    split: str
    queries: int
    rates: tuple[float, ...]
    rows: Sequence[tuple[str, Role, Sequence[Entry | None]]]
    gaps: Sequence[tuple[str, Sequence[Entry | None]]]


def render(params: NoiseTableParams, bench: Bench) -> str:
    """The page as HTML text; the same input gives the same text."""
    sections = tables(params, bench.summary)
    rows = bench.summary.to_pylist()
    pages = templates(
        "noisyir.evaluation.pages",
        signed=signed,
        p_value=p_value,
        percent=rate_as_set,
        spread=_spread,
        seeds=_seeds,
        badge=badge,
    )
    return pages.get_template("bench.html").render(
        tests_note=_tests_note,
        title=params.title or _TITLE,
        params=params,
        methods=list(dict.fromkeys(row["method"] for row in rows)),
        seeds=bench.seeds,
        cells=bench.cells,
        queries=dict.fromkeys((row["split"], row["queries"]) for row in rows),
        headlines=headlines(params, bench.summary),
        conclusion=_conclusion(params, bench),
        sections={name: [(table, _charts(params, table)) for table in found] for name, found in sections.items()},
        in_words=in_words(params, bench.summary),
        tests=[(row, word(row, params.alpha)) for row in rows if row["against"] is not None],
        detection=bench_rows(bench.detection),
        mining=bench.false_negatives,
        further=bench.further,
        column=lambda rate, mechanism="": f"{rate_as_set(rate)} noise" if _is_put_in(params, mechanism) else "mean",
        facts=facts(bench.builds),
        settings=settings(bench.builds),
        environment=environment(bench.builds),
    )


def markdown(params: NoiseTableParams, bench: Bench) -> str:
    """The same tables as Markdown, short enough for a terminal."""
    said = [_conclusion(params, bench), *(f"- {one}" for one in in_words(params, bench.summary))]
    parts = [f"# {params.title or _TITLE}\n", *(f"{one}\n" for one in said if one), f"{_seeds(bench.seeds)}.\n"]
    for mechanism, found in tables(params, bench.summary).items():
        for table in found:
            parts.append(f"## {mechanism}: {table.measure} ({table.split}, {table.queries:,} queries)\n")
            parts.append(markdown_table(_mean_rows(params, table, mechanism), left=1))
    if (tests := _test_rows(params, bench.summary))[1:]:
        parts += ["## Differences\n", markdown_table(tests, left=6), f"{_tests_note(params, len(tests) - 1)}\n"]
    if bench.detection:
        parts += ["## Detection\n", markdown_table(bench_rows(bench.detection), left=3)]
    for section in bench.further:
        parts += [f"## {section.heading}\n", section.markdown] if section.markdown else []
    if tables_of_mining := mining_markdown(bench.false_negatives):
        parts += ["## False negatives\n", tables_of_mining]
    return "\n".join(parts)


def tables(params: NoiseTableParams, summary: pa.Table) -> dict[str, list[Table]]:
    """The tables of each mechanism, in the order of its measures."""
    rows = summary.to_pylist()
    found: dict[str, list[Table]] = {}
    for mechanism, measure, split in dict.fromkeys((row["mechanism"], row["measure"], row["split"]) for row in rows):
        of_table = [
            row for row in rows if (row["mechanism"], row["measure"], row["split"]) == (mechanism, measure, split)
        ]
        found.setdefault(mechanism, []).append(_table(params, of_table))
    return found


def headlines(params: NoiseTableParams, summary: pa.Table) -> list[dict[str, Any]]:
    """For each mechanism the best method, by the first measure at the highest rate, against baseline and reference."""
    found = []
    for mechanism, (first, *_) in tables(params, summary).items():
        last = {name: entries[-1] for name, role, entries in first.rows if role == "other"}
        if contest := {name: entry for name, entry in last.items() if entry is not None}:
            name = max(contest, key=lambda method: float(contest[method].row["mean"]))
            gap = next((entries[-1] for method, entries in first.gaps if method == name), None)
            found.append({"mechanism": mechanism, "entry": contest[name], "gap": gap})
    return found


def _conclusion(params: NoiseTableParams, bench: Bench) -> str:
    """The first headline as sentences, with a caveat if seeds are few; empty without comparisons."""
    if not (first := headlines(params, bench.summary)):
        return ""
    entry, seeds = first[0]["entry"], len(bench.seeds)
    row, said = entry.row, (entry.word or "unclear").removeprefix("suggests ")
    put_in = _is_put_in(params, row["mechanism"])
    where = f"At {rate_as_set(row['rate'])} {row['mechanism']} noise, " if put_in else ""
    size = f"{row['measure']} {signed(row['difference'])}"
    found = f"{row['method']} is {said} than {row['against']}"
    if said not in ("better", "worse"):
        found = f"{row['method']} and {row['against']} are not told apart"
    few = "" if seeds >= SEEDS_OF_A_CLAIM else f" Fewer than {SEEDS_OF_A_CLAIM} seeds are a hint only."
    return f"{where}{found} ({size}).{few}"


def _table(params: NoiseTableParams, rows: Sequence[Row]) -> Table:
    rates = tuple(sorted({row["rate"] for row in rows}))
    own = [row for row in rows if row["method"] != params.reference]
    best = {rate: max((row["mean"] for row in own if row["rate"] == rate), default=None) for rate in rates}
    entries: dict[tuple[str, bool, float], Entry] = {}
    for row in rows:
        is_best = row["method"] != params.reference and row["mean"] == best[row["rate"]]
        is_gap = params.reference is not None and row["against"] == params.reference
        entries[row["method"], is_gap, row["rate"]] = Entry(row, word(row, params.alpha), is_best)
    roles: dict[str | None, Role] = {params.reference: "reference", params.baseline: "baseline"}
    main = [
        (method, roles.get(method, "other"), [entries.get((method, False, rate)) for rate in rates])
        for method in dict.fromkeys(row["method"] for row in rows)
    ]
    compared = dict.fromkeys(method for method, is_gap, _ in entries if is_gap)
    gaps = [(method, [entries.get((method, True, rate)) for rate in rates]) for method in compared]
    first = rows[0]
    return Table(first["measure"], first["split"], first["queries"], rates, main, gaps)


def _charts(params: NoiseTableParams, table: Table) -> list[tuple[str, Markup]]:
    """Charts of means by rate: methods at the baseline's cost, then costlier ones; of a single rate, by settings."""
    if len(table.rates) < 2:
        return curves_by_setting(table)
    lines: dict[bool, list[Line]] = {False: [], True: []}
    for method, role, entries in table.rows:
        rows = [entry.row for entry in entries if entry is not None]
        line = Line(method, role, [Point(row["rate"], row["mean"], row["seed_std"] or 0.0) for row in rows])
        costly = (_cost(params, method) or 0.0) > _EQUAL_COST
        for chart in (False, True) if role != "other" else (costly,):
            lines[chart].append(line)
    known, others = bool(params.passes), any(line.role == "other" for line in lines[True])
    charts = [(", at equal cost" if known else "", Markup(rate_chart(lines[False], name=table.measure)))]
    return charts + ([(", at more cost", Markup(rate_chart(lines[True], name=table.measure)))] if others else [])


def curves_by_setting(table: Table) -> list[tuple[str, Markup]]:
    """A chart for each setting that several arms of a single rate vary: topk_n_4 is on the line `topk` at n = 4."""
    found: dict[str, dict[str, list[Point]]] = {}
    for arm, _, (entry,) in table.rows:
        if entry and (named := _VARIED.fullmatch(arm)):
            point = Point(float(named["at"]), entry.row["mean"], entry.row["seed_std"] or 0.0)
            found.setdefault(named["setting"], {}).setdefault(named["line"] or table.measure, []).append(point)
    drawn = {
        setting: [Line(name, "other", sorted(points, key=lambda point: point.at)) for name, points in lines.items()]
        for setting, lines in found.items()
        if all(len(points) > 1 for points in lines.values())
    }
    return [
        (f", by {setting}", Markup(epoch_chart(lines, name=table.measure, axis=setting)))
        for setting, lines in drawn.items()
    ]


def _cost(params: NoiseTableParams, method: str) -> float | None:
    """A method's passes in units of the baseline's; None if either is unknown."""
    plain, own = params.passes.get(params.baseline), params.passes.get(method)
    return own / plain if plain and own else None


def in_words(params: NoiseTableParams, summary: pa.Table) -> list[str]:
    """A sentence on each method against the baseline, over all conditions and measures, and its cost."""
    found: dict[str, list[Row]] = {}
    for row in summary.to_pylist():
        if row["against"] == params.baseline:
            found.setdefault(row["method"], []).append(row)
    return [_words_on(params, method, rows) for method, rows in found.items()]


def _words_on(params: NoiseTableParams, method: str, rows: Sequence[Row]) -> str:
    said = Counter(word(row, params.alpha) for row in rows)
    counts = [f"{badge(verb, rows[0]['seeds'])} in {said[verb]}" for verb in get_args(Verdict) if said[verb]]
    cost = _cost(params, method)
    at = f", at {cost:.3g} times its passes" if cost else ", at a cost that is not known"
    of = f"{len(rows)} condition{'s' if len(rows) != 1 else ''}"
    mean = sum(row["difference"] for row in rows) / len(rows)
    worst = min(rows, key=lambda row: float(row["difference"]))
    of_worst = f" {rate_as_set(worst['rate'])}" if _is_put_in(params, worst["mechanism"]) else ""
    where = f"{worst['mechanism']}{of_worst}"
    lowest = f"; least {signed(worst['difference'])} ({where})" if len(rows) > 1 else ""
    return f"{method} against {params.baseline}, {of}: {', '.join(counts)}; mean {signed(mean)}{lowest}{at}."


def _is_put_in(params: NoiseTableParams, mechanism: str) -> bool:
    return params.conditions == "noise" and not mechanism.endswith(f" {OWN}")


def _mean_rows(params: NoiseTableParams, table: Table, mechanism: str) -> list[list[str]]:
    rows = [["method", *(rate_as_set(rate) if _is_put_in(params, mechanism) else "mean" for rate in table.rates)]]
    for method, _, entries in table.rows:
        rows.append([method, *(_mean_cell(entry) for entry in entries)])
    return rows


def _mean_cell(entry: Entry | None) -> str:
    if entry is None:
        return NONE
    mean = f"{entry.row['mean']:.3f}"
    spread = entry.row["seed_std"]
    shown = f"**{mean}**" if entry.best else mean
    return (
        shown
        + (f" ± {_spread(spread)}" if spread is not None else "")
        + (f" {starred(entry.word)}" if entry.word else "")
    )


def _test_rows(params: NoiseTableParams, summary: pa.Table) -> list[list[str]]:
    of_test = ["rate", "measure", "split", "method", "against", "difference", "interval", "p (Holm)", "seeds better"]
    return [[params.conditions, *of_test, "verdict"]] + [
        [
            row["mechanism"],
            rate_as_set(row["rate"]) if _is_put_in(params, row["mechanism"]) else NONE,
            row["measure"],
            row["split"],
            row["method"],
            row["against"],
            *difference_cells(row),
            f"{row['seeds_better']} of {row['seeds']}",
            starred(word(row, params.alpha)),
        ]
        for row in summary.to_pylist()
        if row["against"] is not None
    ]


def _tests_note(params: NoiseTableParams, tests: int) -> str:
    return (
        f"t-tests over queries and seeds, queries of one document counted as one draw; one family: p is corrected by "
        f"Holm for all {tests} tests of this table; {100 * params.confidence:g} % intervals over queries and seeds, "
        f"which are not corrected. better, worse (*): corrected p below {params.alpha:g} and the interval on that side "
        f"of zero, with {SEEDS_OF_A_CLAIM} seeds or more; with fewer it suggests, without a star; "
        "unclear: not told apart."
    )


def starred(said: Verdict | None) -> str:
    """A verdict, with a star if it is a claim about methods."""
    return f"{said}*" if said in ("better", "worse") else said or ""


def _seeds(seeds: Sequence[int]) -> str:
    return f"{len(seeds)} seed{'s' if len(seeds) != 1 else ''} ({', '.join(map(str, seeds))})"


def _spread(value: float) -> str:
    """A standard deviation with three decimals, or four if three would show 0."""
    return f"{value:.4f}" if 0 < value < 0.0005 else f"{value:.3f}"
