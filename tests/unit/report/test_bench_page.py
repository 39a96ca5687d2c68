"""The noise bench's page and Markdown: what is bold, what is said of a test, the charts, and that no text is markup."""

import re
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisyir.builds import Meta
from noisyir.config import NoiseTableParams
from noisyir.eval.bench_detection import Quality
from noisyir.report.bench import Bench, headlines, markdown, render, tables, word
from noisyir.report.bench_chart import Line, Point, rate_chart, spread_out
from noisyir.report.bench_history import environment, facts, settings
from noisyir.schemas import BENCH_SUMMARY
from tests.unit.report.test_report import outline
from tests.unit.report.world import SCRIPT

PARAMS = NoiseTableParams()
DASH = "\N{EN DASH}"
MEANS = {  # by rate
    "dpr": {0.0: 0.5, 0.5: 0.4},
    "npc": {0.0: 0.5, 0.5: 0.47},
    "drop": {0.0: 0.48, 0.5: 0.45},
    "oracle": {0.0: 0.5, 0.5: 0.49},
}


def row(method, rate, against, *, mechanism="uniform", measure="RR@10", seeds=5):
    """A row whose difference is that of the means; significant when it is not 0."""
    mean = MEANS[method][rate]
    found = {"mechanism": mechanism, "rate": rate, "method": method, "measure": measure, "split": "dev"}
    found |= {"seeds": seeds, "queries": 1000, "mean": mean, "low": mean - 0.01, "high": mean + 0.01}
    found |= {"seed_std": 0.002 if seeds > 1 else None, "against": against}
    if against is not None:
        gain = mean - MEANS[against][rate]
        half = 0.004 if gain else 0.0
        found |= {"difference": gain, "difference_low": gain - half, "difference_high": gain + half}
        found |= {"p_value": 1e-9 if gain else 1.0, "p_holm": 1e-8 if gain else 1.0}
        found |= {"seeds_better": seeds if gain > 0 else 0, "difference_seed_std": 0.001 if seeds > 1 else None}
    return found


def summary(rates=(0.0, 0.5), mechanisms=("uniform",), **about):
    pairs = [("dpr", None), ("npc", "dpr"), ("drop", "dpr"), ("oracle", "dpr"), ("npc", "oracle"), ("drop", "oracle")]
    rows = [row(m, r, against, mechanism=k, **about) for k in mechanisms for r in rates for m, against in pairs]
    return pa.Table.from_pylist(rows, schema=BENCH_SUMMARY.schema)


def quality(detector="npc", **means):
    return Quality("uniform", 0.5, detector, "first", (1, 1, 2), means, 2, 3)


def bench(table=None, detection=(), builds=()):
    return Bench(summary() if table is None else table, detection, [0, 1, 2, 3, 4], 40, builds)


def meta(stage="warm_up", seed=1, commit="abc", **params):
    return Meta(stage, 1, "k", "b", params, seed, {}, {}, 90.0, "", {}, commit, {"numpy": "2.0"})


def test_the_best_mean_is_bold_and_the_oracle_never():
    (table,) = tables(PARAMS, summary())["uniform"]
    bold = {(method, rate) for method, _, entries in table.rows
            for rate, entry in zip(table.rates, entries, strict=True) if entry.best}  # fmt: skip
    assert bold == {("dpr", 0.0), ("npc", 0.0), ("npc", 0.5)}
    page = render(PARAMS, bench())
    assert "<strong>0.470</strong>" in page and "<strong>0.490</strong>" not in page
    assert "**0.470** ± 0.002 better" in markdown(PARAMS, bench())


def test_without_a_reference_every_method_may_be_best():
    only = summary().filter(pa.compute.not_equal(summary()["against"].fill_null(""), "oracle"))
    (table,) = tables(NoiseTableParams(reference=None), only)["uniform"]
    best = [method for method, _, entries in table.rows if entries[-1].best]
    assert best == ["oracle"] and table.gaps == []


@pytest.mark.parametrize(
    ("low", "high", "p_holm", "said"),
    [
        (0.01, 0.03, 0.04, "better"),
        (-0.03, -0.01, 0.04, "worse"),
        (0.01, 0.03, 0.05, "unclear"),  # p must be below alpha
        (-0.01, 0.03, 0.01, "unclear"),  # the interval holds zero
        (0.0, 0.0, 1.0, "equal"),
    ],
)
def test_what_is_said_of_a_test(low, high, p_holm, said):
    assert word({"against": "dpr", "difference_low": low, "difference_high": high, "p_holm": p_holm}, 0.05) == said


def test_verdicts_are_words_on_the_page():
    page = render(PARAMS, bench())
    assert re.findall(r'class="badge (\w+)">(\w+)<', page) == [("better", "BETTER")]
    main = page[page.index('id="noise-1"') : page.index('id="tests"')]
    words = re.findall(r'<span class="word (\w+)">(\w+)</span>', main)
    assert {css == text for css, text in words} == {True}
    assert [text for _, text in words] == [
        "equal",
        "better",
        "worse",
        "better",
        "equal",
        "better",
        *"equal worse worse worse".split(),
    ]


def test_a_significant_difference_that_some_seeds_contradict_says_so():
    rows = [
        {**r, "seeds_better": 4 if (r["seeds_better"] or 0) > 0 else r["seeds_better"]} for r in summary().to_pylist()
    ]
    page = render(PARAMS, bench(pa.Table.from_pylist(rows, schema=BENCH_SUMMARY.schema)))
    assert page.count("better in 4 of 5 seeds") == 3 + 1  # npc, drop and oracle at 50 %, and the headline
    assert "better in 4 of 5" not in render(PARAMS, bench())


def test_the_headline_is_the_best_method_at_the_highest_rate_of_each_mechanism():
    found = headlines(PARAMS, summary(mechanisms=("uniform", "neighbour")))
    assert [(h["mechanism"], h["entry"].row["method"], h["entry"].row["rate"]) for h in found] == [
        ("uniform", "npc", 0.5),
        ("neighbour", "npc", 0.5),
    ]
    assert found[0]["gap"].row["against"] == "oracle" and found[0]["gap"].word == "worse"


def test_a_method_that_was_not_run_at_a_rate_is_a_dash():
    kept = [r for r in summary().to_pylist() if not (r["method"] == "drop" and r["rate"] == 0.0)]
    table = pa.Table.from_pylist(kept, schema=BENCH_SUMMARY.schema)
    assert f"| drop | {DASH} | 0.450 ± 0.002 better |" in markdown(PARAMS, bench(table))
    outline(render(PARAMS, bench(table)))


@pytest.mark.parametrize(("rates", "charts"), [((0.5,), 0), ((0.0, 0.5), 2)])
def test_there_is_a_chart_for_each_kind_of_noise_with_several_rates(rates, charts):
    page = render(PARAMS, bench(summary(rates, ("uniform", "neighbour"))))
    assert page.count('<svg class="chart rates"') == charts


def test_one_seed_is_shown_without_spread():
    text = markdown(PARAMS, bench(summary(seeds=1)))
    assert "±" not in text and "| npc | **0.500** equal | **0.470** better |" in text
    assert "±" not in re.sub(r"<p class=.note.>.*?</p>", "", render(PARAMS, bench(summary(seeds=1))), flags=re.DOTALL)


def test_detection_shows_the_estimate_beside_the_truth():
    given = quality(auroc=0.97, rate=0.493, rate_low=0.481, rate_high=0.506, true_rate=0.5)
    cells = ["uniform", "50 %", "npc", "1 to 2 (first)", "0.970", DASH, DASH, "49.3 % [48.1, 50.6]", "50.0 %", "2 of 3"]
    assert f"| {' | '.join(cells)} | 3 |" in markdown(PARAMS, bench(detection=[given]))
    assert "49.3 % [48.1, 50.6]" in render(PARAMS, bench(detection=[given]))


def test_text_from_data_cannot_become_markup():
    rows = [{**r, "mechanism": SCRIPT, "measure": SCRIPT, "split": SCRIPT} for r in summary().to_pylist()]
    rows = [{**r, "method": r["method"].replace("npc", SCRIPT)} for r in rows]
    builds = [meta(SCRIPT, note=SCRIPT, commit=SCRIPT), meta("ingest", dataset=SCRIPT)]
    given = bench(pa.Table.from_pylist(rows, schema=BENCH_SUMMARY.schema), [quality(SCRIPT)], builds)
    page = render(NoiseTableParams(title=SCRIPT), given)
    parsed = outline(page)
    assert SCRIPT not in page and "script" not in parsed.tags and page.count("&lt;script&gt;") > 20
    assert not any(name.startswith("on") for name, _ in parsed.attributes)
    lines = markdown(PARAMS, bench(pa.Table.from_pylist([{**r, "method": r["method"] + "|\n"} for r in rows],
                                                        schema=BENCH_SUMMARY.schema))).splitlines()  # fmt: skip
    assert all(line.endswith("|") for line in lines if line.startswith("|"))


def test_the_page_needs_nothing_from_outside_and_its_links_lead_somewhere():
    page = render(PARAMS, bench(detection=[quality()], builds=[meta()]))
    parsed = outline(page)
    assert not {"script", "link", "img", "iframe"} & set(parsed.tags)
    assert "url(" not in page and "http://" not in page and "https://" not in page
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in parsed.attributes
    anchors = [value[1:] for name, value in parsed.attributes if name == "href"]
    assert anchors == ["noise-1", "tests", "detection", "making"]
    assert set(anchors) == {value for name, value in parsed.attributes if name == "id"}


def test_settings_that_differ_among_builds_are_marked():
    builds = [meta(seed=1, epochs=5, rate=0.2), meta(seed=2, epochs=5, rate=0.5), meta("ingest", None, dataset="squad")]
    ((stage, values), (_, data)) = settings(builds)
    assert stage == "warm_up" and values == [
        ("seed", "1 | 2", True),
        ("epochs", "5", False),
        ("rate", "0.2 | 0.5", True),
    ]
    assert data == [("dataset", '"squad"', False)]
    assert facts(builds) == {"data": "squad", "epochs": "5", "builds": "3", "computing time": "4 min"}
    assert environment([*builds, meta(commit="def")]) == {"code": "abc, def", "numpy": "2.0"}


@given(st.lists(st.floats(0, 100), min_size=1, max_size=10))
def test_labels_keep_apart_in_their_order_and_inside(places):
    moved = spread_out(places, 10.0, 0.0, 100.0)
    ordered = [moved[number] for number in sorted(range(len(places)), key=lambda number: places[number])]
    assert all(later - earlier >= 10 - 1e-6 for earlier, later in pairwise(ordered))
    assert min(moved) >= -1e-6 and max(moved) <= 100 + 1e-6


def test_labels_that_are_apart_stay_where_they_are():
    assert spread_out([50.0, 10.0, 30.0], 10.0, 0.0, 100.0) == [50.0, 10.0, 30.0]


def test_a_chart_tells_its_lines_apart_and_says_what_it_shows():
    points = [Point(0.0, 0.5, 0.0), Point(0.5, 0.4, 0.01)]
    chart = rate_chart([Line("dpr", "baseline", points), Line("a<b", "other", points), Line("c", "other", points),
                        Line("oracle", "reference", points)], name="RR@10")  # fmt: skip
    assert re.findall(r'<g class="series ([^"]+)">', chart) == ["baseline", "s0 d0", "s1 d0", "reference"]
    assert 'aria-label="RR@10 by noise rate: dpr 0.500 to 0.400, a&lt;b 0.500' in chart and "a<b" not in chart
    assert chart.count('class="whisker"') == 4 and "<polygon" in chart  # only where there is a spread; one square


def test_equal_input_gives_equal_text():
    given = bench(detection=[quality(auroc=0.9)], builds=[meta()])
    assert render(PARAMS, given) == render(PARAMS, given) and markdown(PARAMS, given) == markdown(PARAMS, given)
