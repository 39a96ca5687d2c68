"""Confidences on the pages: which questions are shown, what is said of them, and that no text is markup."""

import numpy as np
import pyarrow as pa
import pytest
from markupsafe import Markup

from noisyir.base.pages.cells import Section
from noisyir.base.pages.charts import spark_line
from noisyir.data.artifacts import QRELS
from noisyir.evaluation.artifacts import BENCH_SUMMARY
from noisyir.evaluation.bench import Cell
from noisyir.evaluation.pages.bench import Bench, markdown, render
from noisyir.evaluation.settings import NoiseTableParams
from noisyir.readers.artifacts import CONFIDENCE_QUALITY, CONFIDENCES, CONFUSING, SPANS
from noisyir.readers.confidence_pages import (
    Labels,
    around,
    bench_figures,
    bench_page,
    bench_quality,
    confusing_of,
    find_cases,
    label_page,
    quality_figures,
    quality_table,
    with_texts,
)
from tests.unit.evaluation.world import SCRIPT
from tests.world import table

NEITHER = "\N{EN DASH} → \N{EN DASH}"
# question: (passage, start, score, confidence at the updates 0 to 2, chance at the end); passage r is relevant
WORLD = {
    "gains": [
        ("r", 0, 1.0, (0.2, 0.5, 0.7), 0.6), ("x", 5, 2.0, (0.5, 0.3, 0.2), 0.1), ("y", 5, 2.0, (0.3, 0.2, 0.1), 0.5),
    ],
    "loses": [("r", 0, 3.0, (0.6, 0.3, 0.1), 0.1), ("x", 5, 1.0, (0.4, 0.7, 0.9), 0.2)],
    "gains_more": [
        ("r", 0, 1.0, (0.1, 0.1, 0.5), None), ("r", 9, 1.0, (0.1, 0.2, 0.4), 0.1), ("x", 5, 1.0, (0.8, 0.7, 0.1), 0.1),
    ],
    "all_right": [("r", 0, 1.0, (0.2, 0.3, 0.9), 0.1), ("r", 9, 1.0, (0.8, 0.7, 0.1), 0.1)],
    "unjudged": [("x", 0, 1.0, (0.2, 0.3, 0.9), 0.1), ("y", 9, 1.0, (0.8, 0.7, 0.1), 0.1)],
}  # fmt: skip
PLACES = [(query, *place) for query, places in WORLD.items() for place in places]
SPANS_TABLE = table(SPANS, [(q, d, start, start + 3, "abc", score) for q, d, start, score, *_ in PLACES])
CONFIDENCES_TABLE = table(
    CONFIDENCES,
    [(q, d, start, start + 3, at, value, chance if at else None)
     for q, d, start, _, values, chance in PLACES for at, value in enumerate(values)],
)  # fmt: skip
QRELS_TABLE = table(QRELS, [(query, "r", 1) for query in WORLD if query != "unjudged"])


def cases(count=5, confidences=CONFIDENCES_TABLE):
    return find_cases(confidences, SPANS_TABLE, QRELS_TABLE, count)


def test_the_questions_that_gain_and_lose_most_are_shown_where_both_kinds_are_there():
    gained, lost = cases()
    assert [case.query_id for case in gained] == ["gains_more", "gains"] and [case.query_id for case in lost] == [
        "loses"
    ]
    assert [case.gain for case in gained] == pytest.approx([0.7, 0.5]) and lost[0].gain == pytest.approx(-0.5)
    assert [case.query_id for case in cases(1)[0]] == ["gains_more"]


def test_a_case_has_its_instances_the_most_trusted_first_with_all_their_confidences():
    _, (case,) = cases()
    assert [(one.doc_id, one.is_right, one.score) for one in case.instances] == [("x", False, 1.0), ("r", True, 3.0)]
    assert case.instances[0].moved == pytest.approx((0.4, 0.7, 0.9)) and case.others == 0


def test_counterfactual_is_what_eq_2_sets_against_the_first_where_all_chances_are_known():
    (more, gains), _ = cases()
    # the margin is max - median = .6 - .5: what lies below .6 - .1 = .5 is counterfactual, and .5 itself is not
    assert [(one.doc_id, one.counterfactual) for one in gains.instances] == [("r", False), ("x", True), ("y", False)]
    assert not any(one.counterfactual for one in more.instances)


def test_the_order_of_rows_is_of_no_account():
    order = np.random.default_rng(0).permutation(len(CONFIDENCES_TABLE))
    assert cases(confidences=CONFIDENCES_TABLE.take(order)) == cases()


def test_confusing_passages_are_those_of_the_first_instance_in_their_order():
    rows = [("loses", "x", name, rank, 1.0) for rank, name in enumerate("dcba", 1)] + [("loses", "r", "no", 1, 1.0)]
    assert confusing_of(cases()[1][0], table(CONFUSING, rows[::-1])) == ["d", "c", "b"]


def test_a_place_is_shown_with_what_stands_around_it():
    assert around("the end", 4, 7) == ("the ", "end", "")
    before, place, behind = around(f"{'x ' * 500}here{' y' * 500}", 1000, 1004)
    assert before.startswith("… x x") and place == "here" and behind.endswith("y …") and len(before + behind) < 500


def quality(*values, start=0.5, p=0.01):
    rows = [("cds", 0, "auroc_within", start), ("cds", 0, "contested", 7.0), ("cds", 0, "true_rate", 0.25)]
    for update, value in enumerate(values, 1):
        rows += [
            ("cds", update, "auroc_within", value),
            ("cds", update, "p_value", p),
            ("cds", update, "contested", 7.0),
        ]
    return table(CONFIDENCE_QUALITY, rows)


def test_the_table_and_the_pictures_go_from_the_start_to_the_last_update():
    rows = quality_table(quality(0.6, 0.75)).rows
    assert rows[1] == ["cds", "2", NEITHER, "0.500 → 0.750", NEITHER, "25.0 %", "7"]
    (figure,) = quality_figures(quality(0.6, 0.75))
    assert (figure.name, figure.about) == ("cds", "AUROC by question, last 0.750") and figure.chart.count(
        "<circle"
    ) == 3


def test_a_bench_tells_start_and_end_over_its_seeds():
    cells = {
        Cell("bm25", 0.0, "cds_sw", 0): quality(0.7),
        Cell("bm25", 0.0, "cds_sw", 1): quality(0.5, start=0.6, p=0.2),
    }
    found = bench_quality(cells)
    assert found.rows[1] == ["cds_sw", "0.550 ± 0.071", "0.600 ± 0.141", "+0.050", "1 of 2", "0.200", "2"]
    (figure,) = figures = bench_figures(cells)
    assert "AUROC by question by update: cds_sw 0.550 to 0.600" in figure.chart
    shown = Section("labels", "Confidences", Markup(bench_page(found, figures)), "| one |")
    bench = Bench(BENCH_SUMMARY.schema.empty_table(), (), [0, 1], 2, (), further=[shown])
    params = NoiseTableParams(conditions="labels")
    page = render(params, bench)
    assert "0.550 ± 0.071" in page and "by update of the confidences" in page
    assert "## Confidences\n\n| one |" in markdown(params, bench)


def test_texts_cannot_become_markup():
    gained, lost = cases()
    texts = dict.fromkeys("rxy", f"{SCRIPT}{SCRIPT}")
    shown = [[with_texts(case, texts, ["y"]) for case in some] for some in (gained, lost)]
    labels = Labels(quality_table(quality(0.7)), quality_figures(quality(0.7)), SCRIPT, *shown)
    page = label_page(labels, {"gains": SCRIPT})
    assert SCRIPT not in page and page.count("&lt;script&gt;") > 5 and "<mark>" in page
    assert page.count("<article") == page.count("</article>") == 3


def test_a_line_of_shares_rises_where_they_rise():
    line = spark_line([0.0, 1.0])
    (low, high) = (float(point.split(",")[1]) for point in line.split('points="')[1].split('"')[0].split())
    assert low > high and "from 0.000 to 1.000" in line and spark_line([0.5]).count("<circle") == 1


def test_no_cases_without_questions_of_both_kinds():
    nobody = pa.Table.from_pylist([], schema=QRELS.schema)
    assert find_cases(CONFIDENCES_TABLE, SPANS_TABLE, nobody, 3) == ([], [])
