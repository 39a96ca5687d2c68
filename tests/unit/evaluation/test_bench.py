"""The noise bench's numbers: cells and their labels, half-run benches, means, spreads, tests and intervals by hand."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisyir.base.errors import ConfigError, DataError
from noisyir.evaluation.artifacts import DETECTION
from noisyir.evaluation.bench import Cell, by_cell, compared, read_blocks, summarise
from noisyir.evaluation.bench_quality import detection_quality
from noisyir.evaluation.significance import crossed_t_test
from tests.refusals import refuses

NAMES = st.text(st.characters(exclude_characters=":", exclude_categories=["Cs"]))


@given(NAMES, st.floats(0, 1), NAMES, st.integers(-(2**31), 2**31 - 1))
def test_a_label_says_which_cell_it_is(mechanism, rate, method, seed):
    cell = Cell(mechanism, rate, method, seed)
    assert Cell.parse(str(cell)) == cell


def test_the_form_of_a_label_is_fixed():
    assert str(Cell("uniform", 0.5, "npc", 1)) == "uniform:0.5:npc:1"
    assert Cell.parse("uniform:0:npc:1") == Cell("uniform", 0.0, "npc", 1)


@pytest.mark.parametrize(
    "label", ["npc", "uniform:0.5:npc", "uniform:half:npc:1", "uniform:0.5:npc:first", "a:1:b:2:c"]
)
def test_other_labels_are_refused(label):
    with refuses(ConfigError, "evaluation.bad_cell_label"):
        Cell.parse(label)
    with refuses(ConfigError, "evaluation.colon_in_name"):
        Cell("uniform", 0.5, "npc:late", 1)


def metrics(values, measures=("RR@10",), split="dev"):
    """One run's table: the same values for each measure, in an order that is not that of the ids, with the means."""
    ids = [f"q{number}" for number in range(len(values))]
    rows = [(m, split, i, v) for m in measures for i, v in reversed(list(zip(ids, values, strict=True)))]
    rows += [(m, split, None, float(np.mean(values))) for m in measures]
    return pa.table(dict(zip(("measure", "split", "query_id", "value"), zip(*rows, strict=True), strict=True)))


def bench(**methods):
    """`bench(dpr=[[values of seed 0], [of seed 1]])`: under one kind and rate of noise."""
    cells = {
        f"uniform:0.5:{name}:{seed}": metrics(v) for name, seeds in methods.items() for seed, v in enumerate(seeds)
    }
    return by_cell(cells)


def summary(cells, **settings):
    rows = summarise(read_blocks(cells), **{"baseline": "dpr", **settings}).to_pylist()
    return {(row["mechanism"], row["rate"], row["method"], row["measure"], row["against"]): row for row in rows}


def test_cells_come_by_mechanism_and_rising_rate():
    labels = ["group:0.5:a:0", "uniform:0.5:a:0", "group:0.2:a:0", "uniform:0.0:a:0"]
    ordered = [str(cell) for cell in by_cell(dict.fromkeys(labels))]
    assert ordered == ["group:0.2:a:0", "group:0.5:a:0", "uniform:0.0:a:0", "uniform:0.5:a:0"]


def test_a_half_run_bench_is_refused_with_the_missing_cells():
    labels = ["uniform:0.2:dpr:0", "uniform:0.2:dpr:1", "uniform:0.2:npc:1", "uniform:0.5:dpr:0"]
    with refuses(DataError, "evaluation.missing_cells", missing=2, cells=6):
        by_cell(dict.fromkeys(labels))


def test_other_rates_may_have_other_seeds():
    labels = ["uniform:0.2:dpr:0", "uniform:0.2:dpr:1", "uniform:0.5:dpr:0"]
    assert len(by_cell(dict.fromkeys(labels))) == 3


def test_one_cell_under_two_labels_is_refused():
    with refuses(DataError, "evaluation.repeated_cells", labels=2, cells=1):
        by_cell(dict.fromkeys(["uniform:0.5:dpr:0", "uniform:0.50:dpr:0"]))


def test_cells_scored_on_different_queries_are_refused():
    message = r"RR@10 of dev: uniform:0.5:dpr:0 was scored on 2 queries and uniform:0.5:npc:0 on 3.*'q2'"
    with pytest.raises(DataError, match=message):
        read_blocks(bench(dpr=[[0.5, 0.1]], npc=[[0.5, 0.1, 0.2]]))


def test_a_measure_that_one_cell_lacks_is_refused():
    cells = {"uniform:0.5:dpr:0": metrics([0.5]), "uniform:0.5:npc:0": metrics([0.5], ("RR@10", "AP"))}
    with refuses(DataError, "evaluation.different_queries", measure="AP", split="dev"):
        read_blocks(by_cell(cells))


def test_means_spreads_and_the_test_are_over_queries_and_seeds():
    dpr = np.array([[0.1, 0.5, 0.3, 0.9], [0.3, 0.5, 0.1, 0.7]])
    npc = np.array([[0.6, 0.4, 0.5, 1.0], [0.8, 0.5, 0.4, 0.8]])
    rows = summary(bench(dpr=dpr, npc=npc))
    alone, row = (rows["uniform", 0.5, method, "RR@10", against] for method, against in (("dpr", None), ("npc", "dpr")))
    assert (row["seeds"], row["queries"], row["seeds_better"]) == (2, 4, 2)
    assert alone["mean"] == pytest.approx((0.45 + 0.4) / 2) and alone["seed_std"] == pytest.approx(0.05 / 2**0.5)
    assert row["mean"] == pytest.approx(0.625) and row["seed_std"] == pytest.approx(0.0)
    assert row["difference"] == pytest.approx(0.2) and row["difference_seed_std"] == pytest.approx(0.05 / 2**0.5)
    test = crossed_t_test((npc - dpr).T)
    assert row["p_value"] == pytest.approx(test.p_value)
    assert (row["difference_low"], row["difference_high"]) == pytest.approx((test.low, test.high))
    assert alone["low"] < alone["mean"] < alone["high"]
    assert alone["p_holm"] is None


def test_one_seed_has_no_spread():
    rows = summary(bench(dpr=[[0.1, 0.2]], npc=[[0.3, 0.3]])).values()
    assert {row["seed_std"] for row in rows} == {row["difference_seed_std"] for row in rows} == {None}


def test_intervals_are_paired_and_of_the_size_that_theory_says():
    rng = np.random.default_rng(3)
    easy = rng.random(500)
    rows = summary(bench(dpr=[easy], npc=[easy + 0.25], drop=[easy + rng.normal(0, 0.1, 500)]))
    shifted, noisy = (rows["uniform", 0.5, method, "RR@10", "dpr"] for method in ("npc", "drop"))
    assert shifted["difference_low"] == pytest.approx(0.25) and shifted["difference_high"] == pytest.approx(0.25)
    assert noisy["difference_high"] - noisy["difference_low"] == pytest.approx(2 * 1.96 * 0.1 / 500**0.5, rel=0.1)


def test_queries_of_one_document_count_as_one_draw_and_promotion_is_left_out():
    rng = np.random.default_rng(3)
    gains = np.repeat(rng.normal(0.1, 0.2, 10), 4)
    cells = bench(dpr=[np.zeros(40)], npc=[gains])
    grouped = {
        cell: table.append_column(
            "group", pa.array([q and f"d{int(q[1:]) // 4}" for q in table["query_id"].to_pylist()])
        )
        for cell, table in cells.items()
    }
    (apart,), (together,) = ([row for row in summary(found).values() if row["against"]] for found in (cells, grouped))
    assert together["difference"] == apart["difference"] and together["p_value"] > apart["p_value"]
    assert together["p_value"] == pytest.approx(crossed_t_test(gains[::4, None]).p_value)
    kept = {cell: pa.concat_tables([table, metrics([0.9] * 3, split="promotion")]) for cell, table in cells.items()}
    assert {row["split"] for row in summary(kept).values()} == {"dev"}


def test_holm_covers_all_tests_of_the_table():
    rng = np.random.default_rng(5)
    cells = {
        f"{mechanism}:{rate}:{method}:0": metrics(rng.random(30) + gain, ("RR@10", "AP"))
        for mechanism in ("uniform", "group")
        for rate in (0.2, 0.5)
        for method, gain in (("dpr", 0.0), ("npc", 0.2), ("oracle", 0.3))
    }
    rows = [row for row in summary(by_cell(cells), reference="oracle").values() if row["against"]]
    assert len(rows) == 2 * 2 * 2 * 3
    ordered = sorted(rows, key=lambda row: row["p_value"])
    so_far = 0.0
    for rank, row in enumerate(ordered):
        so_far = max(so_far, (len(rows) - rank) * row["p_value"])
        assert row["p_holm"] == pytest.approx(min(1.0, so_far))


def test_every_pair_is_tested_once():
    pairs = compared(["dpr", "npc", "oracle", "drop"], "dpr", "oracle")
    assert pairs == [
        ("dpr", None), ("npc", "dpr"), ("oracle", "dpr"), ("drop", "dpr"), ("npc", "oracle"), ("drop", "oracle"),
    ]  # fmt: skip
    assert compared(["npc", "dpr"], "dpr", None) == [("npc", "dpr"), ("dpr", None)]


def test_an_unknown_baseline_or_reference_is_named():
    with refuses(ConfigError, "evaluation.unknown_method", setting="baseline", name="drp"):
        compared(["dpr", "npc"], "drp", None)
    with refuses(ConfigError, "evaluation.unknown_method", setting="reference", name="oracle"):
        compared(["dpr", "npc"], "dpr", "oracle")


def detected(**systems):
    """`detected(npc={1: {"auroc": 0.9}})`: a DETECTION table, values by system and epoch."""
    rows = [
        {"system": system, "epoch": epoch, "measure": name, "value": value}
        for system, epochs in systems.items()
        for epoch, values in epochs.items()
        for name, value in values.items()
    ]
    return pa.Table.from_pylist(rows, schema=DETECTION.schema)


def test_detection_is_averaged_over_seeds_for_the_first_and_the_last_epoch():
    low, high = {"true_rate": 0.5, "rate_low": 0.4, "rate": 0.45}, {"auroc": 0.9}
    tables = {
        "uniform:0.5:all:0": detected(npc={1: {**low, **high, "rate_high": 0.5}, 2: {"auroc": 0.1}, 3: {"auroc": 0.7}}),
        "uniform:0.5:all:1": detected(npc={1: {**low, "rate_high": 0.49}, 3: {"auroc": 0.9}}),
    }
    first, last = detection_quality(by_cell(tables))
    assert (first.detector, first.when, first.epochs) == ("npc", "first", (1, 1))
    assert first.means["auroc"] == 0.9 and first.means["rate_high"] == pytest.approx(0.495)  # one seed, two seeds
    assert (first.covered, first.intervals) == (1, 2)  # 0.5 is the first interval's end, and above the second
    assert (last.when, last.epochs, last.intervals) == ("last", (3, 3), 0)
    assert last.means == {"auroc": pytest.approx(0.8)}


def test_detectors_are_named_by_their_labels_where_those_differ():
    values = {0: {"auroc": 0.9}}
    one_label = {"uniform:0.5:detection:0": detected(npc=values, bm25=values)}
    assert [quality.detector for quality in detection_quality(by_cell(one_label))] == ["npc", "bm25"]
    each = {f"uniform:0.5:{name}:0": detected(flags=values) for name in ("margin", "pair_nll")}
    assert [quality.detector for quality in detection_quality(by_cell(each))] == ["margin", "pair_nll"]
    mixed = {"uniform:0.5:a:0": detected(a=values, x=values), "uniform:0.5:b:0": detected(x=values)}
    assert [quality.detector for quality in detection_quality(by_cell(mixed))] == ["a", "a x", "b"]
    assert {quality.when for quality in detection_quality(by_cell(mixed))} == {"only"}
