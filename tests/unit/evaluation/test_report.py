"""The report stage on a small finished run."""

import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import yaml
from pyarrow import csv

from noisyir.base.errors import ConfigError, DataError
from noisyir.base.pages.cells import badge
from noisyir.engine.store import Store
from noisyir.evaluation.artifacts import MINING_QUALITY
from noisyir.evaluation.pages.mining import of_run
from noisyir.evaluation.pages.report import conclusion, curve_charts, to_judge, verdicts, whole_curves
from noisyir.evaluation.pages.settings import ReportParams
from noisyir.evaluation.ruler import Pooled, draw_into, pooled, pools_digest
from noisyir.evaluation.stages.report import REPORT
from noisyir.methods.experiments import load
from noisyir.methods.plans.experiment import Experiment
from noisyir.methods.plans.left_out import filled_in
from noisyir.training.artifacts import CURVES
from tests.refusals import refuses
from tests.unit.evaluation.world import RANKS, SCRIPT, Nothing, plan_report, report_folder, run_plan, run_step, stage

VOID = {"meta", "link", "br", "img", "line", "circle", "rect", "path", "polyline"}


class Outline(HTMLParser):
    """Collects tags and attributes, and checks that every element is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag


def outline(page: str) -> Outline:
    parsed = Outline()
    parsed.feed(page)
    assert parsed.open == []
    return parsed


@pytest.fixture
def folder(store: Store) -> Path:
    return report_folder(store)


def test_text_from_data_cannot_become_markup(store: Store):
    folder = report_folder(store, ReportParams(title=SCRIPT))
    page = (folder / "report.html").read_text()
    parsed = outline(page)
    assert SCRIPT not in page and "script" not in parsed.tags
    assert page.count("&lt;script&gt;") > 20  # title, queries, documents, exclusions, settings: shown as text
    assert not any(name.startswith("on") for name, _ in parsed.attributes)


def test_the_page_needs_nothing_from_outside(folder: Path):
    page = (folder / "report.html").read_text()
    parsed = outline(page)
    assert not {"script", "link", "img", "iframe"} & set(parsed.tags)
    assert all((value or "").startswith("#") for name, value in parsed.attributes if name in ("href", "src"))
    assert "url(" not in page.replace("url(#hatch)", "")  # a pattern of the page's own
    assert "@import" not in page and "http://" not in page and "https://" not in page
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in parsed.attributes


def test_the_page_shows_every_part(folder: Path):
    page = (folder / "report.html").read_text()
    anchors = re.findall(r'href="#(\w+)"', page)
    assert anchors == ["results", "training", "data", "queries", "time", "provenance", "reproduce"]
    assert all(f'id="{anchor}"' in page for anchor in anchors)
    assert "are not told apart" in page or "By one seed, " in page
    badges = re.findall(r'class="badge ([\w ]+)">([\w ()]+)<', page)
    assert badges == [("unclear", "NOT TOLD APART"), ("suggests better", "BETTER (1 SEED)")]  # 8 won and 4 lost
    (tests,) = re.findall(r"Differences: (\d+) tests", page)
    assert f"p is corrected for all {tests} tests of the table below, and intervals are not" in page
    for text in ("search@trained", "score@zero_shot", "train_dpr", "+0.165", "Holm", "dev_RR@10"):
        assert text in page, text


@pytest.mark.parametrize(("low", "shown"), [(0.010, "+0.010"), (-0.010, "\N{MINUS SIGN}0.010")])
def test_a_difference_that_may_be_chance_is_not_told_as_none(low: float, shown: str):
    row = {"system": "dpr", "baseline": "zero_shot", "measure": "nDCG@10", "difference": 0.043, "p_holm": 0.144}
    row |= {"difference_low": low, "difference_high": 0.077, "verdict": "unclear"}
    size = f"(nDCG@10 +0.043 [{shown}, +0.077], corrected p 0.144)"
    assert conclusion(None, [row]) == [f"dpr and the untrained model are not told apart {size}."]


def test_a_gain_that_is_told_apart_and_is_small_is_not_told_as_none():
    row = {"system": "dpr", "baseline": "zero_shot", "measure": "nDCG@10", "split": "test", "difference": 0.004}
    row |= {"difference_low": 0.002, "difference_high": 0.006, "p_holm": 0.001}
    (found,) = verdicts([row], ReportParams())
    (said,) = conclusion(None, [found])
    assert badge(found["verdict"]) == "TOLD APART, BUT SMALL"
    assert said.startswith("dpr and the untrained model are told apart, but the gain is smaller than report.min_gain (")


def test_curves_of_the_kept_model_are_open_and_of_others_folded(folder: Path):
    page = (folder / "report.html").read_text()
    training = page[page.index('id="training"') : page.index('id="data"')]
    assert re.findall(r"<details( open)?><summary>(\w+)</summary>", training) == [(" open", "trained"), ("", "other")]
    assert training.count("<figcaption>loss ") == 2


def test_without_curves_there_is_no_training_section(store: Store):
    page = (report_folder(store, curves=False) / "report.html").read_text()
    assert 'id="training"' not in page and 'id="results"' in page


def test_equal_input_gives_equal_bytes(store: Store):
    plan = plan_report(ReportParams())
    done = run_plan(plan, store)
    again = run_step(plan.steps[-1], plan, store, done, refresh=True)
    assert again.meta.artifacts["report"].digest == done["report"].meta.artifacts["report"].digest
    assert again.meta.build == done["report"].meta.build  # equal bytes are not stored twice


def test_won_and_lost_queries_show_the_ranks_of_the_relevant_document(folder: Path):
    page = (folder / "report.html").read_text()
    lost = page[page.index("<h3>Lost</h3>") : page.index('id="time"')]
    rows = re.findall(r'<td class="num"[^>]*>(.*?)</td>', lost)
    assert len(rows) == 4 * 4  # four queries lost; a rank for each system, and the gain
    assert [re.sub("<.*?>", "", cell) for cell in rows[:3]] == ["2", "\N{EN DASH}", "5"]


def test_the_settings_shown_are_an_experiment(store: Store, tmp_path: Path):
    given = {"name": "small", "seed": 7, "audit": {}, "methods": ["dpr", "npc"], "npc": {"final": "teacher"}}
    given |= {"detectors": {"one": {"kind": "pair_nll", "folds": 2}}}
    exp = Experiment.model_validate(given)
    params = ReportParams(settings=exp.model_dump(mode="json", exclude_defaults=True))
    page = (report_folder(store, params) / "report.html").read_text()
    page = page[page.index('id="reproduce"') :]
    shown = unescape(re.findall(r'<pre class="code">(.*?)</pre>', page, re.DOTALL)[0])
    assert yaml.safe_load(shown).keys() == given.keys()
    (tmp_path / "experiment.yaml").write_text(shown)
    assert load(str(tmp_path / "experiment.yaml")) == filled_in(exp)


def test_the_tables_are_also_markdown_and_csv(folder: Path):
    first, second = (folder / "summary.md").read_text().split("\n\n")
    assert first.splitlines()[0] == "| system | nDCG@10 | RR@10 | R@100 |"
    assert [line.split(" | ")[0] for line in first.splitlines()[2:]] == [f"| {name}" for name in RANKS]
    assert len(second.splitlines()) == 2 + 9
    table = csv.read_csv(folder / "comparison.csv")
    assert table.num_rows == 12 and pa.types.is_floating(table["p_holm"].type)


@pytest.mark.parametrize("examples", [0, 2])
def test_the_number_of_examples_is_a_setting(store: Store, examples: int):
    page = (report_folder(store, ReportParams(examples=examples)) / "report.html").read_text()
    lost = page[page.index("<h3>Lost</h3>") : page.index('id="time"')]
    assert lost.count('class="query"') == examples


def mining(job):
    values = [("candidates", "count", 1200.0), ("candidates", "relevant", 0.031), ("mined", "slots", 80.0),
              ("mined", "false_negative_rate", 0.1), (SCRIPT, "AUROC", 0.75), (SCRIPT, "caught", 0.5)]  # fmt: skip
    job.write("mining_quality", pa.table(list(zip(*values, strict=True)), schema=MINING_QUALITY.schema))


def sieving(job):
    points = [("sieve_out_rate", 10, 1.0, 0.48), ("sieve_out_rate", 0, 0.0, 0.44), ("loss", 5, 0.5, 2.0)]
    job.write("curves", pa.table(list(zip(*points, strict=True)), schema=CURVES.schema))


def test_false_negatives_have_a_section_where_they_were_scored(store: Store):
    plan = plan_report(ReportParams(), curves=False)
    scored = plan.add(stage("score_negatives", {}, [MINING_QUALITY], mining), Nothing())["mining_quality"]
    sieve = plan.add(stage("sieve", {}, [CURVES], sieving), Nothing())["curves"]
    plain = next(step for step in plan.steps if step.name == "report")
    plan.add(REPORT, ReportParams(), "mined", **plain.inputs, mining=scored, sieve_curves={SCRIPT: sieve})
    done = run_plan(plan, store)
    page, before = ((store.builds.folder(done[name].meta.ref("report")) / "report.html").read_text()
                    for name in ("report@mined", "report"))  # fmt: skip
    assert 'id="negatives"' not in before and 'href="#negatives"' in page and "script" not in outline(page).tags
    section = page[page.index('id="negatives"') : page.index('id="data"')]
    rows = [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in re.findall(r"<tr>(<td.*?)</tr>", section)]
    dash = "\N{EN DASH}"
    assert rows[0] == ["1,200", "3.10 %", "80", "10.00 %"]
    assert [unescape(cell) for cell in rows[1]] == [SCRIPT, dash, "0.750", dash, dash, "50.00 %", dash]
    assert "from 0.44 to 0.48" in section and "last 0.480" in section
    assert ">sieve<" in page  # among the builds


def test_the_rounds_of_a_method_are_one_curve_and_its_recalls_one_chart():
    def round_of(first):
        names = ("retriever_loss", "dev_r@1", "dev_r@100")
        rows = [(name, step, step / 2, step / 100) for name in names for step in (first, first + 1)]
        return pa.table(list(zip(*rows, strict=True)), schema=CURVES.schema)

    last = round_of(2)
    whole = whole_curves({"dpr": round_of(0), "ar2@0": round_of(0), "ar2@1": last, "ar2": last})
    assert list(whole) == ["dpr", "ar2"] and whole["ar2"]["step"].to_pylist()[:2] == [0, 1] and len(whole["ar2"]) == 12
    loss, recall = curve_charts(whole["ar2"])
    assert (loss.name, loss.about) == ("retriever_loss", "by epoch, last 0.03")
    assert "recall on dev by step: R@1 0.000 to 0.030, R@100 0.000 to 0.030" in recall.chart


def test_the_sieves_of_several_rounds_stand_in_a_row():
    def sieved(*rates):
        rows = [("sieve_out_rate", 5 * epoch, float(epoch), rate) for epoch, rate in enumerate(rates)]
        return pa.table(list(zip(*rows, strict=True)), schema=CURVES.schema)

    (figure,) = of_run(None, {}, {"ar2@0": sieved(0.4, 0.44, 0.5), "ar2@1": sieved(0.3, 0.35)}).sieves
    assert (figure.name, figure.about) == ("ar2", "by round, last 0.350")
    assert figure.chart.count("<circle") == 5


def pools(store: Store, folder: Path, name: str = "small", others: bool = False) -> Path:
    """A folder with all documents of this world's pools judged: the right one of each query is called wrong."""
    done = run_plan(plan_report(ReportParams()), store)
    scored = {f"{name}:{label}": done[f"score@{label}"].meta.ref("metrics") for label in sorted(RANKS)}
    pool = pooled(store, scored, [f"{name}:bm25", f"{name}:trained"])
    if others:  # another experiment's system, between this one's by name, finds one document that no other does
        extra = {"more:dpr": {query: ["d11", "d0", "d10"] for query in pool.labels}}
        pool = Pooled(pool.named, extra | pool.tops, pool.labels)
    draw_into(folder / "drawing.npz", pool, {}, {})
    rows = [f"{query},{doc},{'wrong' if doc in pool.labels[query] else 'right'}" for query, doc in pool.pairs]
    (folder / "sample.csv").write_text("\n".join(["query_id,doc_id,verdict", *rows]) + "\n")
    return folder


def corrected_page(store: Store, folder: Path, name: str = "small") -> str:
    plan = plan_report(ReportParams(settings={"name": name}, corrected=str(folder)))
    return (store.builds.folder(run_plan(plan, store)["report"].meta.ref("report")) / "report.html").read_text()


@pytest.mark.parametrize("others", [False, True])
def test_judged_pools_give_both_values(store: Store, tmp_path: Path, others: bool):
    page = corrected_page(store, pools(store, tmp_path, others=others))
    assert outline(page) and page.index('href="#corrected"') < page.index('href="#training"')
    section = page[page.index('id="corrected"') : page.index('id="training"')]
    rows = [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in re.findall(r"<tr>(<td.*?)</tr>", section)]
    of = {row[1]: row for row in rows if row[0] == "nDCG@10"}
    assert list(of) == ["more:dpr"] * others + ["BM25", "trained", "the untrained model"]
    assert float(of["trained"][2]) == pytest.approx((8 + 4 / np.log2(6)) / 12, abs=5e-4)
    assert float(of["the untrained model"][2]) == 0 and float(of["the untrained model"][4]) > float(of["BM25"][4])
    told = re.search(r"Judgements change the order: (.*?)\.", section)[1].split(", ")
    assert {"the untrained model is above BM25", "the untrained model is above trained"} <= {*told}
    assert page.count("Judgements change the order") == 2, "at the top, too"
    assert "noisyir compare" not in page


def test_the_key_of_a_report_has_the_drawing_and_the_verdicts(store: Store, tmp_path: Path):
    folder, key = pools(store, tmp_path), lambda: plan_report(ReportParams(corrected=str(tmp_path))).steps[-1].key
    first = key()
    (folder / "mended.qrels").write_text("q0 0 d0 0\n")
    assert key() == first != plan_report(ReportParams()).steps[-1].key
    sheet = folder / "sample.csv"
    sheet.write_text(sheet.read_text().replace("wrong", "right"))
    second = key()
    (folder / "judgements.jsonl").write_text('{"query_id": "q0", "doc_id": "d0", "verdict": "right"}\n')
    third = key()
    (folder / "drawing.npz").write_bytes(b"another")
    assert len({first, second, third, key()}) == 4


def test_pools_of_others_and_without_answers_are_refused(store: Store, tmp_path: Path):
    folder = pools(store, tmp_path, name="larger")
    drawn = "larger:bm25, larger:trained, larger:zero_shot"
    with refuses(DataError, "evaluation.pools_of_other_run", drawn=drawn):
        corrected_page(store, folder)
    table = dict(np.load(folder / "drawing.npz"))
    np.savez(folder / "drawing.npz", **table | {"heads": table["heads"][:, ::-1]})
    with refuses(DataError, "evaluation.pools_of_other_run", drawn=drawn):
        corrected_page(store, folder, "larger")
    whole = (folder / "drawing.npz").read_bytes()
    for damaged in (b"another", whole[: len(whole) // 2], b""):
        (folder / "drawing.npz").write_bytes(damaged)
        with refuses(DataError, "evaluation.unreadable_drawing", folder=str(folder)):
            corrected_page(store, folder, "larger")
    (folder / "sample.csv").write_text("query_id,doc_id,verdict\nq0,d0,\n")
    with refuses(ConfigError, "evaluation.no_judged_pools", sheet=str(folder / "sample.csv")):
        corrected_page(store, folder, "larger")
    with refuses(ConfigError, "evaluation.no_judged_pools", folder=str(tmp_path / "none")):
        pools_digest(str(tmp_path / "none"))


def test_a_report_names_no_command_for_judging_where_no_test_label_ranks_systems(store: Store):
    page = (report_folder(store, ReportParams(title="a name")) / "report.html").read_text()
    assert "noisyir compare &#39;a name:bm25&#39; &#39;a name:trained&#39; --corrected &#39;a name-pools&#39;" in page
    rows = [{"system": name, "split": "test", "measure": "nDCG@10"} for name in ("bm25", "dpr")]
    assert to_judge("x", rows, "retrieval")
    assert not to_judge("x", rows, "reading") and not to_judge("x", rows[:1], "retrieval")
    for name, value in (("split", "dev"), ("measure", "AnswerMatch@20")):
        assert not to_judge("x", [row | {name: value} for row in rows], "retrieval")
