"""The report page: one self-contained HTML file, without scripts and requests, every text escaped."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import yaml
from markupsafe import Markup

from noisyir.base.durations import duration
from noisyir.base.pages import charts
from noisyir.base.pages.cells import Figure, Section, TextTable, badge, p_value, signed, templates
from noisyir.data.dataset_page import Corpus, exclusion_rows, lengths, snippet, split_rows, word_counts
from noisyir.evaluation.pages.advice import against, named, reason
from noisyir.evaluation.pages.detection import detection_rows, flag_warnings
from noisyir.evaluation.pages.history import Build, flow_graph
from noisyir.evaluation.pages.mining import FalseNegatives
from noisyir.evaluation.pages.queries import RankChanges
from noisyir.evaluation.pages.settings import ReportParams
from noisyir.evaluation.pages.summary import published_rows, trial_rows
from noisyir.evaluation.recommendation import Recommendation, model_of, recommendation
from noisyir.evaluation.ruler import Ruler
from noisyir.evaluation.significance import verdict

_SHOWN_PACKAGES = 24
_RECALL = "dev_r@"
_ALIKE = {"equal": "the same on every query", "unclear": "not told apart",
          "slight": "told apart, but the gain is smaller than report.min_gain"}  # fmt: skip


@dataclass(frozen=True)
class Results:
    """Measurements on the page."""

    comparison: pa.Table
    curves: Mapping[str, pa.Table]
    changes: RankChanges | None
    detection: pa.Table | None
    trials: pa.Table | None
    false_negatives: FalseNegatives
    standings: pa.Table | None = None
    further: Sequence[Section] = ()
    subject: str = "retrieval"
    correction: Ruler | None = None


@dataclass(frozen=True)
class Dataset:
    """The data; `corpus` holds the texts of all shown documents."""

    corpus: Corpus
    queries: pa.Table
    pairs: pa.Table
    qrels: pa.Table
    excluded: pa.Table
    examples: Sequence[tuple[str, str]]


def render(params: ReportParams, results: Results, dataset: Dataset, builds: Sequence[Build]) -> str:
    """The page as HTML text; the same input gives the same text."""
    comparison = results.comparison.to_pylist()
    systems = list(dict.fromkeys(row["system"] for row in comparison))
    title = params.title or "Retrieval report"
    confidence = next((build.meta.params["confidence"] for build in builds if build.meta.stage == "compare"), 0.95)
    best = recommendation([results.standings], confidence) if results.standings else None
    kept = params.settings.get("keep") or systems[-1].removesuffix("_reranked")
    doubt = best and against(best, kept, str(params.settings.get("name", title)))
    pages = templates("noisyir.evaluation.pages", signed=signed, p_value=p_value, seconds=duration, badge=badge)
    said, correction = verdicts(comparison, params), results.correction
    return pages.get_template("report.html").render(
        title=title,
        conclusion=conclusion(best, said),
        reason=best and reason(best),
        typed=best and shlex.quote(f"{params.settings.get('name', title)}:best"),
        systems=systems,
        headline=comparison[0],
        verdicts=said,
        gate=params,
        confidence=confidence,
        splits=_result_tables(comparison, systems, best),
        named=named,
        tests=[row for row in comparison if row["baseline"] is not None],
        published=published_rows(results.comparison, params.published),
        curves={name: curve_charts(table) for name, table in results.curves.items()},
        detection=detection_rows(results.detection) if results.detection else [],
        warnings=flag_warnings(results.detection) if results.detection else [],
        trials=trial_rows(results.trials) if results.trials else [],
        mining=results.false_negatives,
        further=results.further,
        subject=results.subject,
        changes=results.changes,
        best=best,
        doubts=[one for one in (doubt, correction and correction.turned) if one],
        correction=correction and [*correction.told()],
        corrected=correction and TextTable(correction.rows(), left=2),
        to_judge=None if correction else to_judge(params.settings.get("name", title), comparison, results.subject),
        query_texts=_query_texts(dataset, results),
        **_dataset_card(dataset, builds),
        **_history(params, builds, systems),
    )


def verdicts(comparison: Sequence[Mapping[str, Any]], params: ReportParams) -> list[dict[str, Any]]:
    """Verdicts on the last system against every other but hybrids, on the first measure and split, by one seed."""
    last, measure, split = comparison[-1]["system"], comparison[0]["measure"], comparison[0]["split"]
    ends = ("difference_low", "difference_high", "p_holm")
    return [
        {**row, "verdict": verdict(*(row[e] for e in ends), seeds=1, alpha=params.alpha, min_gain=params.min_gain)}
        for row in comparison
        if row["baseline"] is not None and model_of(row["baseline"]) == row["baseline"]
        if (row["system"], row["measure"], row["split"]) == (last, measure, split)
    ]


def conclusion(best: Recommendation | None, verdicts: Sequence[Mapping[str, Any]]) -> list[str]:
    """The result in two sentences: the system to use, and the last one against the first that it is compared with."""
    sentences = []
    if best is not None:
        level = best.level(best.best)
        sentences.append(
            f"Use {named(best.best)}: {best.measure} {level.mean:.3f} [{level.low:.3f}, {level.high:.3f}] on "
            f"{len(best.groups):,} {best.told_on} queries."
        )
    if verdicts:
        row = verdicts[-1]
        word, one, other = row["verdict"].removeprefix("suggests "), named(row["system"]), named(row["baseline"])
        size = f"{row['measure']} {signed(row['difference'])}"
        ends = f"[{signed(row['difference_low'])}, {signed(row['difference_high'])}]"
        found = f"By one seed, {one} seems {word} than {other}"
        if word in _ALIKE:
            found = f"{one} and {other} are {_ALIKE[word]}"
        if not found.startswith(row["system"]):  # a name that one types stays as it is
            found = found[:1].upper() + found[1:]
        sentences.append(f"{found} ({size} {ends}, corrected p {p_value(row['p_holm'])}).")
    return sentences


def to_judge(name: str, comparison: Sequence[Mapping[str, Any]], subject: str) -> dict[str, str] | None:
    """The command that asks people to judge the run's pools, and its folder; None if no test labels rank systems."""
    measured = [row for row in comparison if row["split"] == "test" and not row["measure"].startswith("AnswerMatch")]
    first, last = comparison[0]["system"], comparison[-1]["system"]
    if subject != "retrieval" or not measured or first == last:
        return None
    words = ["noisyir", "compare", f"{name}:{first}", f"{name}:{last}", "--corrected", f"{name}-pools"]
    return {"command": shlex.join(words), "setting": shlex.quote(f"report.corrected={name}-pools")}


def _result_tables(
    comparison: Sequence[Mapping[str, Any]], systems: Sequence[str], recommended: Recommendation | None
) -> list[dict[str, Any]]:
    """A table for each split: measures, rows of estimates with the best marked, and a figure of the first measure."""
    tables = []
    for split in dict.fromkeys(row["split"] for row in comparison):
        estimates: dict[str, dict[str, charts.Estimate]] = {}
        for row in comparison:
            if row["split"] == split:
                of_measure = estimates.setdefault(row["measure"], {})
                of_measure[row["system"]] = charts.Estimate(named(row["system"]), row["mean"], row["low"], row["high"])
        best = {measure: max(found.values(), key=lambda e: e.mean).mean for measure, found in estimates.items()}
        rows = [
            (system, [(found[system], found[system].mean == best[measure]) for measure, found in estimates.items()])
            for system in systems
        ]
        pictures = [(m, Markup(charts.interval_chart(list(found.values())))) for m, found in estimates.items()]
        first = next(iter(estimates))
        told = recommended if recommended and (recommended.measure, recommended.told_on) == (first, split) else None
        figure = _figure(estimates[first], told)
        tables.append({"split": split, "measures": list(estimates), "rows": rows, "charts": pictures, "figure": figure})
    return tables


def _figure(estimates: Mapping[str, charts.Estimate], best: Recommendation | None) -> dict[str, Any]:
    """Systems from the best test value down, on one axis in percent; gains of the recommended one, and dev values."""
    ticks = charts.nice_ticks(
        min(0.0, *(e.low for e in estimates.values())), max(e.high for e in estimates.values()), 4
    )
    x, rows = charts.Scale(ticks[0], ticks[-1], 1, 99), []
    for system, one in sorted(estimates.items(), key=lambda item: -item[1].mean):
        known = best if best and system in best.standings else None
        gain = known.gain(known.best, system) if known and system != known.best else None
        ends = {end: x(getattr(one, end)) for end in ("low", "mean", "high")}
        dev, chosen = known and known.chosen_mean(system), bool(known and system == known.best)
        rows.append({"system": system, "value": one, "gain": gain, "dev": dev, "chosen": chosen, **ends})
    return {"rows": rows, "ends": (ticks[0], ticks[-1])}


def whole_curves(curves: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Curves by method: its rounds, METHOD@NUMBER, in a row if there are any, since their steps go on."""
    names = [label.partition("@")[0] for label in curves]
    rounds = {name: [curves[each] for each in curves if each.startswith(f"{name}@")] for name in names}
    return {name: pa.concat_tables(found) if found else curves[name] for name, found in rounds.items()}


def curve_charts(curves: pa.Table) -> list[Figure]:
    """A chart for each curve by epoch; recalls share one, by step."""
    points: dict[str, list[tuple[float, float]]] = {}
    recalls: dict[str, list[charts.Point]] = {}
    for row in curves.sort_by([("name", "ascending"), ("step", "ascending")]).to_pylist():
        name = row["name"]
        if name.startswith(_RECALL):
            recalls.setdefault(name, []).append(charts.Point(row["step"], row["value"], 0.0))
        else:
            points.setdefault(name, []).append((row["epoch"], row["value"]))
    figures = [
        Figure(name, f"by epoch, last {found[-1][1]:.4g}", Markup(charts.line_chart(found, name=name)))
        for name, found in sorted(points.items(), key=lambda item: ("loss" not in item[0], item[0]))
    ]
    if recalls:
        by_cutoff = sorted(recalls, key=lambda name: int(name.removeprefix(_RECALL)))
        lines = [charts.Line(name.removeprefix("dev_").upper(), "other", recalls[name]) for name in by_cutoff]
        chart = Markup(charts.epoch_chart(lines, name="recall on dev", axis="step"))
        figures.append(Figure("dev recall", "by step, at the start and after each round", chart))
    return figures


def _query_texts(dataset: Dataset, results: Results) -> dict[str, str]:
    shown = {query_id for query_id, _ in dataset.examples}
    shown |= {change.query_id for change in (results.changes.all() if results.changes else ())}
    wanted = dataset.queries.filter(pa.compute.is_in(dataset.queries["query_id"], pa.array(sorted(shown), pa.string())))
    texts = map(snippet, wanted["text"].to_pylist())
    return dict(zip(wanted["query_id"].to_pylist(), texts, strict=True))


def _dataset_card(dataset: Dataset, builds: Sequence[Build]) -> dict[str, Any]:
    notes = {build.meta.stage: build.meta.notes for build in builds}
    source = notes.get("ingest", {}).get("source", {})
    return {
        "source": {name: value for name, value in source.items() if not isinstance(value, dict | list)},
        "text_lengths": [
            ("documents", dataset.corpus.lengths),
            ("queries", lengths(word_counts(dataset.queries["text"]))),
        ],
        "split_rows": split_rows(dataset.queries, dataset.pairs, dataset.qrels),
        "exclusions": exclusion_rows(dataset.excluded),
        "noise": notes.get("corrupt", {}).get("noise"),
        "examples": dataset.examples,
        "doc_texts": dataset.corpus.texts,
    }


def _history(params: ReportParams, builds: Sequence[Build], systems: Sequence[str]) -> dict[str, Any]:
    metas = [build.meta for build in builds]
    return {
        "builds": builds,
        "seconds": sum(meta.seconds for meta in metas),
        "slowest": max((meta.seconds for meta in metas), default=0.0) or 1.0,
        "graph": Markup(flow_graph(builds, systems)) if builds else "",
        "environments": _environments(builds),
        "experiment": yaml.safe_dump(params.settings, sort_keys=False, allow_unicode=True, width=100),
    }


def _environments(builds: Sequence[Build]) -> list[dict[str, Any]]:
    """Each code version and set of packages, with its builds."""
    found: dict[tuple[str, tuple[tuple[str, str], ...]], list[str]] = {}
    for build in builds:
        packages = tuple(sorted(build.meta.packages.items()))[:_SHOWN_PACKAGES]
        found.setdefault((build.meta.git_commit or "an installed package", packages), []).append(build.name)
    return [{"commit": commit, "packages": packages, "names": names} for (commit, packages), names in found.items()]
