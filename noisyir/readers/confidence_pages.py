"""Reader confidences on pages: how well they identify correct labels, and cases as in the paper's Table 4."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from markupsafe import Markup

from noisyir.base.pages.cells import (
    Figure,
    TextTable,
    mean_and_std,
    mean_with_std,
    number,
    p_value,
    percent,
    signed,
    templates,
)
from noisyir.base.pages.charts import Line, Point, epoch_chart, line_chart, spark_line
from noisyir.engine.tables import semi_join
from noisyir.evaluation.bench import Cell

_SPAN = ("query_id", "doc_id", "start", "end")
_INSTANCES, _CONFUSING = 6, 3  # shown per case
_AROUND = 200  # characters on each side of the answer
_QUALITY = {"auroc": "AUROC", "auroc_within": "AUROC by question", "right_first": "right first"}


@dataclass(frozen=True)
class Instance:
    """A labelled span on the page: its passage, whether that is relevant, and its confidence over time.

    Attributes:
        confidence: Values at every update.
        counterfactual: Whether Eq. 2 contrasts it with the case's first instance.
    """

    doc_id: str
    start: int
    end: int
    is_right: bool
    score: float
    confidence: Sequence[float]
    counterfactual: bool = False
    text: tuple[str, str, str] = ("", "", "")

    @property
    def moved(self) -> tuple[float, float, float]:
        """The confidence at the start, half-way and at the end."""
        return self.confidence[0], self.confidence[len(self.confidence) // 2], self.confidence[-1]

    @property
    def chart(self) -> Markup:
        """A sparkline of the confidence over the updates."""
        return Markup(spark_line(self.confidence))


@dataclass(frozen=True)
class Case:
    """One question's instances, most trusted first, and confusing passages of the first one.

    Attributes:
        gain: Confidence gained by instances in relevant passages, from start to end.
        others: Number of instances not shown.
    """

    query_id: str
    gain: float
    instances: Sequence[Instance]
    others: int
    confusing: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Labels:
    """Confidences for a page; `system` is the method that the cases come from."""

    quality: TextTable
    figures: Sequence[Figure]
    system: str
    gained: Sequence[Case]
    lost: Sequence[Case]


def label_page(labels: Labels, questions: Mapping[str, str]) -> str:
    """Render the report's section as HTML."""
    return templates("noisyir.readers").get_template("distant_labels.html").render(labels=labels, query_texts=questions)


def bench_page(table: TextTable, figures: Sequence[Figure]) -> str:
    """Render the bench's section as HTML."""
    page = templates("noisyir.readers").get_template("bench_confidences.html")
    return page.render(labels=table, label_figures=figures)


def quality_table(quality: pa.Table) -> TextTable:
    """Return CONFIDENCE_QUALITY with one row per method: each measure at the start and at the end."""
    rows = [["method", "updates", *_QUALITY.values(), "right labels", "questions with both kinds"]]
    for system, values in _by_system(quality).items():
        first, last = values[0], values[max(values)]
        changes = [f"{number(first.get(name))} → {number(last.get(name))}" for name in _QUALITY]
        share = percent(first.get("true_rate"), 1)
        rows.append([system, str(max(values)), *changes, share, f"{first['contested']:,.0f}"])
    return TextTable(rows, 1)


def bench_quality(quality: Mapping[Cell, pa.Table]) -> TextTable:
    """Return CONFIDENCE_QUALITY with one row per method: AUROC by question at start and end, over the seeds."""
    rows = [["method", "start", "end", "change", "seeds better", "largest p", "seeds"]]
    by_method: dict[str, list[tuple[float, float, float]]] = {}
    for cell, table in quality.items():
        for values in _by_system(table).values():
            first, last = values[0], values[max(values)]
            if "auroc_within" in first:
                found = first["auroc_within"], last["auroc_within"], last["p_value"]
                by_method.setdefault(cell.method, []).append(found)
    for method, seeds in by_method.items():
        start, end, p_values = np.array(seeds).T
        means = [mean_with_std(start), mean_with_std(end), signed((end - start).mean())]
        better = f"{(end > start).sum()} of {len(seeds)}"
        rows.append([method, *means, better, p_value(p_values.max()), str(len(seeds))])
    return TextTable(rows, 1)


def bench_figures(quality: Mapping[Cell, pa.Table]) -> list[Figure]:
    """Plot AUROC by question over the updates: one line per method, averaged over seeds."""
    found: dict[str, dict[int, list[float]]] = {}
    for cell, table in quality.items():
        for row in table.to_pylist():
            if row["measure"] == "auroc_within":
                found.setdefault(cell.method, {}).setdefault(row["update"], []).append(row["value"])
    lines = [
        Line(method, "other", [Point(at, *mean_and_std(values)) for at, values in sorted(by_update.items())])
        for method, by_update in found.items()
        if len(by_update) > 1
    ]
    if not lines:
        return []
    chart = Markup(epoch_chart(lines, name="AUROC by question", axis="update"))
    return [Figure("AUROC by question", "mean over seeds, by update of the confidences", chart)]


def quality_figures(quality: pa.Table) -> list[Figure]:
    """Plot AUROC by question over the updates, one figure per method."""
    figures = []
    for system, values in _by_system(quality).items():
        points = [(float(at), found["auroc_within"]) for at, found in sorted(values.items()) if "auroc_within" in found]
        if len(points) > 1:
            chart = Markup(line_chart(points, name=f"AUROC by question, {system}", width=330))
            figures.append(Figure(system, f"AUROC by question, last {points[-1][1]:.3f}", chart))
    return figures


def find_cases(confidences: pa.Table, spans: pa.Table, relevant: pa.Table, count: int) -> tuple[list[Case], list[Case]]:
    """Find the questions with the largest confidence gains and losses in relevant passages, `count` of each at most.

    Only questions with instances in both relevant and other passages qualify.
    """
    first = confidences.filter(pc.equal(confidences["update"], 0)).sort_by([(name, "ascending") for name in _SPAN])
    final = pc.max(confidences["update"])
    last = confidences.filter(pc.equal(confidences["update"], final)).sort_by([(name, "ascending") for name in _SPAN])
    question = first["query_id"].combine_chunks().dictionary_encode()
    number, right = question.indices.to_numpy(), semi_join(first, relevant)
    change = np.where(right, last["value"].to_numpy() - first["value"].to_numpy(), 0.0)
    gains = np.bincount(number, change, len(question.dictionary))
    share = np.bincount(number, right, len(gains)) / np.maximum(np.bincount(number, minlength=len(gains)), 1)
    contested = np.flatnonzero((share > 0) & (share < 1))
    best = [row for row in contested[np.argsort(-gains[contested], kind="stable")][:count] if gains[row] > 0]
    worst = [row for row in contested[np.argsort(gains[contested], kind="stable")][:count] if gains[row] < 0]
    names = question.dictionary.to_pylist()
    found = _instances([names[row] for row in (*best, *worst)], confidences, spans, relevant)

    def case(row: int) -> Case:
        instances = found[names[row]]
        return Case(names[row], float(gains[row]), instances[:_INSTANCES], max(0, len(instances) - _INSTANCES))

    return [case(row) for row in best], [case(row) for row in worst]


def with_texts(case: Case, texts: Mapping[str, str], confusing: Sequence[str]) -> Case:
    """Return the case with text around the answers, and the beginnings of confusing passages."""
    instances = [replace(one, text=around(texts[one.doc_id], one.start, one.end)) for one in case.instances]
    shown = [(doc_id, around(texts[doc_id], 0, 0)[2]) for doc_id in confusing]
    return replace(case, instances=instances, confusing=shown)


def confusing_of(case: Case, confusing: pa.Table) -> list[str]:
    """Return the first confusing passages of the case's first instance."""
    mine = pc.and_(
        pc.equal(confusing["query_id"], case.query_id), pc.equal(confusing["doc_id"], case.instances[0].doc_id)
    )
    shown: list[str] = confusing.filter(mine).sort_by("rank")["confusing"].to_pylist()[:_CONFUSING]
    return shown


def around(text: str, start: int, end: int) -> tuple[str, str, str]:
    """Return the text before, inside and after a span, as much as the page shows."""
    before, behind = text[:start], text[end:]
    head = "… " + before[-_AROUND:].lstrip() if len(before) > _AROUND else before
    tail = behind[:_AROUND].rstrip() + " …" if len(behind) > _AROUND else behind
    return head, text[start:end], tail


def _instances(
    query_ids: Sequence[str], confidences: pa.Table, spans: pa.Table, relevant: pa.Table
) -> dict[str, list[Instance]]:
    """Return the instances of these questions, by final confidence, descending."""
    from noisyir.readers.cds import counterfactual

    wanted = pa.array(query_ids, pa.string())
    rows = confidences.filter(pc.is_in(confidences["query_id"], value_set=wanted)).sort_by("update")
    values: dict[tuple[Any, ...], list[float]] = {}
    chances: dict[tuple[Any, ...], float | None] = {}
    for row in rows.to_pylist():
        place = tuple(row[name] for name in _SPAN)
        values.setdefault(place, []).append(row["value"])
        chances[place] = row["chance"]
    given = spans.filter(pc.is_in(spans["query_id"], value_set=wanted))
    right = semi_join(given, relevant)
    scores = {tuple(row[name] for name in _SPAN): row["score"] for row in given.to_pylist()}
    rights = dict(zip(scores, right.tolist(), strict=True))
    found: dict[str, list[Instance]] = {}
    for query_id in query_ids:
        places = sorted((place for place in values if place[0] == query_id), key=lambda one: (-values[one][-1], one))
        last = np.array([np.nan if (chance := chances[place]) is None else chance for place in places], np.float64)
        against = np.zeros(len(places), bool) if np.isnan(last).any() else counterfactual(last)[0]
        found[query_id] = [
            Instance(place[1], place[2], place[3], rights[place], scores[place], values[place], bool(counter))
            for place, counter in zip(places, against, strict=True)
        ]
    return found


def _by_system(quality: pa.Table) -> dict[str, dict[int, dict[str, float]]]:
    found: dict[str, dict[int, dict[str, float]]] = {}
    for row in quality.to_pylist():
        found.setdefault(row["system"], {}).setdefault(row["update"], {})[row["measure"]] = row["value"]
    return found
