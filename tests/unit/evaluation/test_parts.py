"""The parts of the report: text tables, charts, history, data-flow graph, dataset card."""

import re
from itertools import pairwise

import pyarrow as pa
import pytest

from noisyir.base.pages.cells import markdown_table, p_value, signed
from noisyir.base.pages.charts import Estimate, interval_chart, line_chart, nice_ticks, thin
from noisyir.data.dataset_page import example_pairs, exclusion_rows, read_corpus, split_rows
from noisyir.engine.meta import Contents, Meta
from noisyir.evaluation.artifacts import COMPARISON
from noisyir.evaluation.pages.history import Build, essential_sources, flow_graph, name_builds
from noisyir.evaluation.pages.queries import largest_changes
from noisyir.evaluation.pages.summary import difference_rows, summary_rows


def comparison(*rows: dict[str, object]) -> pa.Table:
    common = {"queries": 10, "low": 0.1, "high": 0.3, "baseline": None}
    return pa.Table.from_pylist([{**common, **row} for row in rows], schema=COMPARISON.schema)


def test_summary_has_one_row_a_system_and_names_the_split_only_where_there_are_several():
    tested = {"baseline": "a", "difference": -0.0004, "difference_low": -0.1, "difference_high": 0.1, "p_holm": 0.0002}
    rows = [
        {"system": "a", "measure": "AP", "split": "test", "mean": 0.2},
        {"system": "b", "measure": "AP", "split": "test", "mean": 0.25, "wins": 1200, "losses": 3, **tested},
    ]
    assert summary_rows(comparison(*rows)) == [
        ["system", "AP"],
        ["a", "0.200 [0.100, 0.300]"],
        ["b", "0.250 [0.100, 0.300]"],
    ]
    assert difference_rows(comparison(*rows))[1][4:] == [
        "0.000",
        "[\N{MINUS SIGN}0.100, +0.100]",
        "<0.001",
        "1,200",
        "3",
    ]
    both = comparison(rows[0], {**rows[0], "split": "dev"})
    assert summary_rows(both)[0] == ["system", "AP (test)", "AP (dev)"]


def test_numbers_are_shown_with_a_true_minus_and_p_is_never_zero():
    assert (signed(-0.25), signed(0.25), signed(-0.0001)) == ("\N{MINUS SIGN}0.250", "+0.250", "0.000")
    assert (p_value(0.0), p_value(0.0494)) == ("<0.001", "0.049")


def test_markdown_cells_cannot_break_the_table():
    assert markdown_table([["a|b", "n"], ["x\ny", "1"]], left=1) == "| a\\|b | n |\n| :-- | --: |\n| x y | 1 |\n"


@pytest.mark.parametrize(("low", "high"), [(0, 0.83), (0.11, 0.12), (-3, 7), (0, 0), (5, 5), (1e-9, 2e-9), (0, 12345)])
def test_ticks_are_even_and_enclose_the_values(low: float, high: float):
    ticks = nice_ticks(low, high, 4)
    assert ticks[0] <= low and ticks[-1] >= high and 2 <= len(ticks) <= 8
    steps = [b - a for a, b in pairwise(ticks)]
    assert max(steps) == pytest.approx(min(steps))


def test_a_long_curve_is_thinned_to_means():
    points = [(float(n), float(n % 2)) for n in range(1600)]
    assert thin(points)[0] == (4.5, 0.5) and len(thin(points)) == 160
    assert thin(points[:100]) == points[:100]


def test_charts_escape_names_and_draw_one_mark_a_value():
    chart = interval_chart([Estimate("<b>", 0.5, 0.4, 0.6), Estimate("last", 0.1, 0.1, 0.1)])
    assert "<b>" not in chart and chart.count("<circle") == 2 and chart.count('circle class="dot accent"') == 1
    assert line_chart([(0.0, 1.0)], name='"<i>').count("<circle") == 1
    assert "<i>" not in line_chart([(0.0, 1.0), (1.0, 0.5)], name="<i>")


def meta(stage: str, key: str, *sources: Meta, params: dict[str, object] | None = None) -> Meta:
    inputs = {f"in{number}": vars(source.ref("out")) for number, source in enumerate(sources)}
    contents = {"out": Contents(1, f"digest-{key}", None, {})}
    return Meta(stage, 1, key, f"build-{key}", params or {}, None, inputs, contents, 1.0, "", {}, "abc", {})


def test_builds_are_named_by_the_system_that_they_serve():
    data = meta("ingest", "1")
    first, second = meta("search", "2", data), meta("search", "3", data)
    bm25 = meta("bm25", "4", data)
    again = meta("bm25", "5", data)  # mined from, for training only
    trained = meta("search", "6", again)
    systems = {"bm25": [bm25.ref("out")], "a": [first.ref("out"), second.ref("out")], "b": [trained.ref("out")]}
    names = [build.name for build in name_builds([data, first, second, bm25, again, trained], systems)]
    assert names == ["ingest", "search@a", "search@a 3", "bm25", "bm25@b", "search@b"]


def build(name: str, *sources: str, systems: tuple[str, ...] = ()) -> Build:
    return Build(name, meta(name, name), systems, sources)


def test_an_arrow_that_a_longer_path_implies_is_left_out():
    builds = [build("a"), build("b", "a"), build("c", "a", "b"), build("d", "c", "a")]
    assert essential_sources("c", builds) == ["b"] and essential_sources("d", builds) == ["c"]
    graph = flow_graph(builds, ["one"])
    assert graph.count("<path") == 3 and graph.count("<rect") == 4


def test_a_graph_of_many_rounds_is_drawn_at_once_though_its_paths_are_beyond_counting():
    builds = [build("0"), build("1", "0")]
    for number in range(2, 60):
        builds.append(build(str(number), str(number - 1), str(number - 2)))
    assert all(essential_sources(one.name, builds) == [one.sources[0]] for one in builds[1:])
    assert flow_graph(builds, ["one"]).count("<path") == 59


def test_boxes_of_the_graph_never_overlap():
    builds = [build("a"), *(build(f"b{n}", "a", systems=("one",)) for n in range(4)), build("<c>", "b0")]
    graph = flow_graph(builds, ["one", "two"])
    boxes = [(float(x), float(y)) for x, y in re.findall(r'<rect class="node ?\w*" x="([\d.]+)" y="([-\d.]+)"', graph)]
    assert len(boxes) == 6 and "<c>" not in graph
    for number, (x, y) in enumerate(boxes):
        assert all(abs(x - other_x) >= 98 or abs(y - other_y) >= 26 for other_x, other_y in boxes[:number])


def test_the_dataset_card_counts_by_split():
    queries = pa.table({"query_id": ["a", "b", "t"], "text": ["", "", ""], "split": ["test", "test", "train"]})
    pairs = pa.table({"query_id": ["t", "t"], "doc_id": ["d", "e"], "split": ["train", "train"]})
    qrels = pa.table({"query_id": ["a", "a", "b"], "doc_id": ["d", "e", "d"], "relevance": [1, 0, 0]})
    assert split_rows(queries, pairs, qrels) == [
        {"split": "train", "queries": 1, "pairs": 2, "judgements": 0, "judged": 0},
        {"split": "test", "queries": 2, "pairs": 0, "judgements": 3, "judged": 1},
    ]


def test_exclusions_are_counted_most_frequent_first():
    table = pa.table(
        {"kind": ["query", "document", "document"], "reason": ["r", "empty", "empty"], "id": ["q", "y", "x"]}
    )
    assert exclusion_rows(table) == [
        {"kind": "document", "reason": "empty", "count": 2, "example": "x"},
        {"kind": "query", "reason": "r", "count": 1, "example": "q"},
    ]


def test_the_corpus_is_streamed_and_only_wanted_texts_are_kept():
    table = pa.table({"doc_id": ["a", "b", "c"], "title": ["T", "", ""], "text": ["one two", "x" * 1000, " "]})
    corpus = read_corpus(table.to_batches(max_chunksize=1), ["a", "b"])
    assert corpus.texts == {"a": "T\none two", "b": "x" * 360 + " …"}
    assert (corpus.lengths.count, corpus.lengths.median, corpus.lengths.longest) == (3, 1, 2)


def test_example_pairs_span_the_training_pairs():
    pairs = pa.table({"query_id": list("abcdefx"), "doc_id": list("abcdefx"), "split": ["train"] * 6 + ["dev"]})
    assert example_pairs(pairs, 2) == [("a", "a"), ("f", "f")]
    assert len(example_pairs(pairs, 100)) == 6
    assert example_pairs(pairs, 0) == example_pairs(pairs.slice(6), 3) == []


def test_the_document_shown_for_a_change_is_the_relevant_one_ranked_highest():
    run = pa.table({"query_id": ["q", "q"], "doc_id": ["far", "near"], "rank": pa.array([9, 2], pa.int32())})
    qrels = pa.table({"query_id": ["q"] * 3, "doc_id": ["far", "near", "never"], "relevance": [1, 1, 1]})
    values = {"old": {"q": 0.0}, "new": {"q": 0.5}}
    changes = largest_changes(values, {"new": run}, qrels, system="new", baseline="old", count=3)
    assert [(c.doc_id, c.ranks, c.gain) for c in changes.wins] == [("near", (2,), 0.5)] and not changes.losses
