"""The noise bench's page and Markdown: what is bold, what is said of a test, the charts, and that no text is markup."""

import re
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisyir.base.pages.charts import Line, epoch_chart, rate_chart, spread_out
from noisyir.engine.meta import Meta
from noisyir.evaluation.artifacts import BENCH_SUMMARY, LOSS_GROUPS, MINING_QUALITY
from noisyir.evaluation.bench import Cell
from noisyir.evaluation.bench_quality import Quality
from noisyir.evaluation.pages.bench import (
    Bench,
    Entry,
    Point,
    Table,
    curves_by_setting,
    headlines,
    markdown,
    render,
    starred,
    tables,
    word,
)
from noisyir.evaluation.pages.history import environment, facts, settings
from noisyir.evaluation.pages.mining import loss_chart, of_bench, read_losses
from noisyir.evaluation.settings import NoiseTableParams
from noisyir.training.artifacts import CURVES
from tests.unit.evaluation.test_report import outline
from tests.unit.evaluation.world import SCRIPT

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


def meta(stage="train_dpr", seed=1, commit="abc", **params):
    return Meta(stage, 1, "k", "b", params, seed, {}, {}, 90.0, "", {}, commit, {"numpy": "2.0"})


def mining(**systems):
    rows = [{"system": s, "measure": m, "value": v} for s, values in systems.items() for m, v in values.items()]
    return pa.Table.from_pylist(rows, schema=MINING_QUALITY.schema)


def cells(values, mechanism="hidden", rate=0.5):
    """{(arm, seed): table} by the cells of one kind and rate of noise."""
    return {Cell(mechanism, rate, arm, seed): table for (arm, seed), table in values.items()}


def losses(low, high, auroc=0.8):
    """Two groups, each in one bin of its own; the bins between them are empty."""
    rows = [("false", "share", low, low + 1, 1.0), ("false", "share", high - 1, high, 0.0)]
    rows += [("hard", "share", low, low + 1, 0.0), ("hard", "share", high - 1, high, 1.0)]
    rows += [(group, measure, None, None, 3.0) for group in ("false", "hard") for measure in ("count", "q50")]
    rows += [("positive", "count", None, None, 0.0), ("false", "auroc", None, None, auroc)]
    return pa.table(list(zip(*rows, strict=True)), schema=LOSS_GROUPS.schema)


def curve(*values, name="sieve_out_rate"):
    points = [(name, step, float(step), value) for step, value in enumerate(values)]
    return pa.table(list(zip(*points, strict=True)), schema=CURVES.schema)


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
    ("low", "high", "p_holm", "seeds", "said", "shown"),
    [
        (0.01, 0.03, 0.04, 5, "better", "better*"),
        (-0.03, -0.01, 0.04, 5, "worse", "worse*"),
        (0.01, 0.03, 0.04, 4, "suggests better", "suggests better"),  # fewer than five seeds claim nothing
        (0.01, 0.03, 0.05, 5, "unclear", "unclear"),  # p must be below alpha
        (-0.01, 0.03, 0.01, 5, "unclear", "unclear"),  # the interval holds zero
        (0.0, 0.0, 1.0, 5, "equal", "equal"),
    ],
)
def test_what_is_said_of_a_test(low, high, p_holm, seeds, said, shown):
    row = {"against": "dpr", "difference_low": low, "difference_high": high, "p_holm": p_holm, "seeds": seeds}
    assert word(row, 0.05) == said and starred(said) == shown


def test_markdown_opens_with_the_conclusion_and_a_verdict_for_each_method():
    title, conclusion, *verdicts = markdown(PARAMS, bench()).split("\n\n")[:5]
    assert (title, conclusion) == (
        "# Training on wrong pairs",
        "At 50 % uniform noise, npc is better than dpr (RR@10 +0.070).",
    )
    assert verdicts[0].startswith("- npc against dpr, 2 conditions: BETTER in 1, THE SAME in 1; mean ")
    rows = [{**row, "p_holm": row["p_holm"] and 0.5} for row in summary().to_pylist()]
    unclear = markdown(PARAMS, bench(pa.Table.from_pylist(rows, schema=BENCH_SUMMARY.schema)))
    assert (
        "npc and dpr are not told apart (" in unclear and "intervals over queries and seeds, which are not" in unclear
    )
    assert "- npc against dpr, 2 conditions: NOT TOLD APART in 1, THE SAME in 1; mean " in unclear


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
    assert f"| drop | {DASH} | 0.450 ± 0.002 better* |" in markdown(PARAMS, bench(table))
    outline(render(PARAMS, bench(table)))


@pytest.mark.parametrize(("rates", "charts"), [((0.5,), 0), ((0.0, 0.5), 2)])
def test_there_is_a_chart_for_each_kind_of_noise_with_several_rates(rates, charts):
    page = render(PARAMS, bench(summary(rates, ("uniform", "neighbour"))))
    assert page.count('<svg class="chart rates"') == charts


def test_one_seed_is_shown_without_spread():
    text = markdown(PARAMS, bench(summary(seeds=1)))
    assert "±" not in text and "| npc | **0.500** equal | **0.470** suggests better |" in text
    assert "±" not in re.sub(r"<p class=.note.>.*?</p>", "", render(PARAMS, bench(summary(seeds=1))), flags=re.DOTALL)


def test_detection_shows_the_estimate_beside_the_truth():
    given = quality(auroc=0.97, rate=0.493, rate_low=0.481, rate_high=0.506, true_rate=0.5)
    rate = "49.3 %; all made-up pairs 48.1 % to 50.6 %"
    cells = ["uniform", "50 %", "npc", "1 to 2 (first)", "0.970", DASH, DASH, rate, "50.0 %", "2 of 3"]
    assert f"| {' | '.join(cells)} | 3 |" in markdown(PARAMS, bench(detection=[given]))
    assert "49.3 %; all made-up pairs 48.1 % to 50.6 %" in render(PARAMS, bench(detection=[given]))


def test_text_from_data_cannot_become_markup():
    rows = [{**r, "mechanism": SCRIPT, "measure": SCRIPT, "split": SCRIPT} for r in summary().to_pylist()]
    rows = [{**r, "method": r["method"].replace("npc", SCRIPT)} for r in rows]
    builds = [meta(SCRIPT, note=SCRIPT, commit=SCRIPT), meta("ingest", kind=SCRIPT)]
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
    assert "url(" not in page.replace("url(#hatch)", "")  # a pattern of the page's own
    assert "@import" not in page and "http://" not in page and "https://" not in page
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in parsed.attributes
    anchors = [value[1:] for name, value in parsed.attributes if name == "href"]
    assert anchors == ["noise-1", "words", "tests", "detection", "making"]
    assert set(anchors) == {value for name, value in parsed.attributes if name == "id"}


def test_settings_that_differ_among_builds_are_marked():
    builds = [meta(seed=1, epochs=5, rate=0.2), meta(seed=2, epochs=5, rate=0.5), meta("ingest", None, kind="squad")]
    ((stage, values), (_, data)) = settings(builds)
    assert stage == "train_dpr" and values == [
        ("seed", "1 | 2", True),
        ("epochs", "5", False),
        ("rate", "0.2 | 0.5", True),
    ]
    assert data == [("kind", '"squad"', False)]
    assert facts(builds) == {"data": "squad", "epochs": "5", "builds": "3", "computing time": "4 min 30 s"}
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


def judge(value):
    return {"count": 10, "AUROC": value, "AP": 0.5}


def test_arms_with_equal_judges_stand_in_one_row_and_others_are_never_averaged_with_them():
    given = {("a", 0): 0.6, ("a", 1): 0.8, ("b", 0): 0.6, ("b", 1): 0.8, ("c", 0): 0.6, ("c", 1): 0.9}
    found = of_bench(cells({where: mining(sieve=judge(v)) for where, v in given.items()}), {}, {})
    by_arm = {row[2]: row[3:] for row in found.quality.rows[1:]}
    assert by_arm == {
        "a, b": ["sieve", "10", "0.700", "0.500", DASH, DASH, DASH, "2"],
        "c": ["sieve", "10", "0.750", "0.500", DASH, DASH, DASH, "2"],
    }
    one = cells({("a", 0): mining(sieve=judge(0.6), max_score=judge(0.5)), ("b", 0): mining(sieve=judge(0.6))})
    other = cells({("a", 0): mining(sieve=judge(0.6)), ("b", 0): mining(sieve=judge(0.6))}, rate=0.2)
    rows = of_bench({**other, **one}, {}, {}).quality.rows[1:]
    assert [row[:4] for row in rows] == [
        ["hidden", "20 %", "all", "sieve"], ["hidden", "50 %", "all", "sieve"], ["hidden", "50 %", "a", "max_score"]
    ]  # fmt: skip


def test_the_rate_of_each_arm_stands_with_its_own_candidates_and_the_seeds_spread():
    rates = {("a", 0): (100, 0.1), ("a", 1): (100, 0.2), ("b", 0): (400, 0.1), ("b", 1): (440, 0.1)}
    given = {
        where: mining(candidates={"count": count, "relevant": 0.05}, mined={"slots": 50, "false_negative_rate": rate})
        for where, (count, rate) in rates.items()
    }
    found = of_bench(cells(given), {}, {})
    assert [row[2:] for row in found.rates.rows[1:]] == [
        ["a", "100", "5.00 ± 0.00 %", "50", "15.00 ± 7.07 %", "2"],
        ["b", "420", "5.00 ± 0.00 %", "50", "10.00 ± 0.00 %", "2"],
    ]
    nothing_drawn = of_bench(cells({("a", 0): mining(candidates={"count": 0})}), {}, {})
    assert nothing_drawn.rates.rows[1][2:] == ["a", "0", DASH, DASH, DASH, "1"]


def test_pictures_of_losses_have_one_axis_and_say_how_much_the_groups_overlap():
    given = cells({("a", 0): losses(2, 6, 0.7), ("a", 1): losses(0, 50, 0.9), ("b", 0): losses(4, 10)})
    found = of_bench({}, given, {}).losses
    assert [(figure.name, figure.about) for figure in found] == [
        ("a", "hidden 50 %; false below hard 0.800 ± 0.141"),
        ("b", "hidden 50 %; false below hard 0.800"),
    ]
    ticks = [re.findall(r'text-anchor="middle">([^<]+)<', str(figure.chart)) for figure in found]
    assert ticks[0] == ticks[1] == ["2", "4", "6", "8", "10", "loss, nats"]  # of the first seeds: 2 to 10


def test_a_picture_of_losses_shows_the_groups_that_have_passages():
    chart = loss_chart(read_losses(losses(0, 4)), (0, 4), name="a<b")
    assert re.findall(r'class="group (\w+)"', chart) == ["false", "hard"] and "a<b" not in chart
    assert 'aria-label="median loss under a&lt;b: false negatives 3.00, hard negatives 3.00"' in chart
    false, hard = ([tuple(map(float, point.split(","))) for point in points.split()]
                   for points in re.findall(r'class="density" points="([^"]+)"', chart))  # fmt: skip
    assert min(y for _, y in false) == 12 and min(y for _, y in hard) == 44 + 12  # each as high as its row
    assert min(false, key=lambda point: point[1])[0] < min(hard, key=lambda point: point[1])[0]


def test_what_sieves_take_out_is_a_line_an_arm_and_equal_ones_share_it():
    given = cells({("a", 0): curve(0.4, 0.5), ("b", 0): curve(0.4, 0.5), ("c", 0): curve(0.3, 0.6)})
    (figure,) = of_bench({}, {}, given).sieves
    label = "sieve-out rate by epoch: a, b 0.400 to 0.500, c 0.300 to 0.600"
    assert f'aria-label="{label}"' in figure.chart and "whisker" not in figure.chart
    seeds = cells({("a", 0): curve(0.4, 0.5), ("a", 1): curve(0.5, 0.6)})
    (figure,) = of_bench({}, {}, seeds).sieves
    assert "a 0.450 to 0.550" in figure.chart and figure.chart.count('class="whisker"') == 2
    assert not of_bench({}, {}, cells({("a", 0): curve(3.0, name="loss")}))


def test_a_long_line_is_marked_at_its_end_alone():
    points = [Point(step / 50, 0.4, 0.01) for step in range(50)]
    assert epoch_chart([Line("a", "other", points)], name="rate").count('class="mark"') == 1
    assert epoch_chart([Line("a", "other", points[:1])], name="rate").count('class="mark"') == 1


def test_false_negatives_have_a_section_and_a_link_where_there_are_any():
    given = cells({("a", 0): mining(sieve=judge(0.6), candidates={"count": 3})})
    about = of_bench(given, cells({("a", 0): losses(0, 4)}), cells({("a", 0): curve(0.4)}))
    page = render(PARAMS, Bench(summary(), (), [0], 40, (), about))
    anchors = [value[1:] for name, value in outline(page).attributes if name == "href"]
    assert anchors == ["noise-1", "words", "tests", "negatives", "making"] and 'id="negatives"' in page
    assert "## False negatives" in markdown(PARAMS, Bench(summary(), (), [0], 40, (), about))
    assert "False negatives" not in render(PARAMS, bench()) + markdown(PARAMS, bench())


def test_names_of_arms_and_judges_cannot_become_markup():
    arm = SCRIPT.replace(":", "")
    given = {(arm, 0): mining(**{SCRIPT: judge(0.6), "candidates": {"count": 3}})}
    about = of_bench(
        cells(given, SCRIPT), cells({(arm, 0): losses(0, 4)}, SCRIPT), cells({(arm, 0): curve(0.4)}, SCRIPT)
    )
    page = render(PARAMS, Bench(summary(), (), [0], 40, (), about))
    assert "script" not in outline(page).tags and page.count("&lt;script&gt;") >= 8


def test_arms_that_vary_a_setting_are_a_line_by_its_value():
    arms = {"topk_n_11": 0.4, "topk_n_1": 0.3, "tri_n_1": 0.2, "tri_n_11": 0.5, "beta_0.5": 0.6, "in_batch": 0.1}
    entries = {name: Entry({"mean": mean, "seed_std": None}, None, best=False) for name, mean in arms.items()}
    found = Table("RR@10", "dev", 9, (0.5,), [(name, "other", [entry]) for name, entry in entries.items()], [])
    ((about, chart),) = curves_by_setting(found)  # one value of beta is no line
    assert about == ", by n"
    assert "RR@10 by n: topk 0.300 to 0.400, tri 0.200 to 0.500" in chart
