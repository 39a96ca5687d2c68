"""The stage noise_table, run for real: its three outputs from labelled metrics and detection."""

import numpy as np
import pyarrow as pa
import pytest

from noisyir.base.errors import ConfigError, DataError
from noisyir.evaluation.artifacts import DETECTION, LOSS_GROUPS, MINING_QUALITY
from noisyir.evaluation.settings import NoiseTableParams
from noisyir.evaluation.stages.noise_table import NOISE_TABLE
from noisyir.training.artifacts import CURVES
from tests.refusals import refuses
from tests.world import table

PARAMS = NoiseTableParams()
GAIN = {"dpr": 0.0, "npc": 0.4, "oracle": 0.5}


def metrics(method, rate, seed, queries=40):
    values = np.random.default_rng(seed).random(queries) + GAIN[method] * rate
    ids = [*(f"q{number}" for number in range(queries)), None]
    columns = {"measure": ["RR@10"] * len(ids), "split": ["dev"] * len(ids), "query_id": ids, "group": ids}
    return pa.table({**columns, "value": [*values, values.mean()]})


def runs(rates=(0.0, 0.5), seeds=(0, 1)):
    return {f"uniform:{r}:{m}:{s}": metrics(m, r, s) for r in rates for s in seeds for m in GAIN}


def detection(rate):
    values = {"auroc": 0.97, "rate": rate, "rate_low": rate - 0.01, "rate_high": rate + 0.01, "true_rate": rate}
    return table(DETECTION, [{"system": "npc", "epoch": 1, "measure": name, "value": values[name]} for name in values])


def mining(**systems):
    """A table of {system: {measure: value}}."""
    rows = [(system, measure, value) for system, values in systems.items() for measure, value in values.items()]
    return table(MINING_QUALITY, rows)


def mined(rate, sieve=0.75):
    """10,000 candidates, 500 draws of which `rate` are relevant, and a judge of this AUROC."""
    return mining(
        candidates={"count": 10_000, "queries": 100, "relevant": 0.08},
        mined={"slots": 500, "false_negative_rate": rate},
        sieve={"count": 3_000, "AUROC": sieve, "AP": 0.4, "AP_query": 0.5, "caught": 0.6, "lost": 0.45},
    )


def losses(auroc):
    rows = []
    for place, group in enumerate(("positive", "false", "hard", "in_batch")):
        rows += [(group, "share", float(n), n + 1.0, float(n == place)) for n in range(4)]
        rows += [(group, "count", None, None, 50.0), (group, "q50", None, None, place + 0.5)]
    rows.append(("false", "auroc", None, None, auroc))
    return table(LOSS_GROUPS, rows)


def sieved(*rates):
    points = [("sieve_out_rate", 10 * epoch, float(epoch), rate) for epoch, rate in enumerate(rates)]
    return table(CURVES, [*points, ("loss", 5, 0.5, 3.0)])


def test_values_summary_and_page_are_written(run_stage_on):
    given = {"metrics": runs(), "detection": {f"uniform:0.5:npc:{seed}": detection(0.5) for seed in (0, 1)}}
    out = run_stage_on(NOISE_TABLE, PARAMS, given)
    values = out["bench_values"]
    assert values.num_rows == 2 * 2 * 3 * 40 and values["query_id"].null_count == 0
    cell = [row for row in values.to_pylist() if (row["rate"], row["method"], row["seed"]) == (0.5, "npc", 1)]
    assert [row["value"] for row in cell] == metrics("npc", 0.5, 1)["value"].to_pylist()[:-1]
    rows = out["bench_summary"].to_pylist()
    differences = {(r["rate"], r["method"], r["against"]): r["difference"] for r in rows if r["against"]}
    assert differences == {
        (0.0, "npc", "dpr"): 0.0, (0.0, "oracle", "dpr"): 0.0, (0.0, "npc", "oracle"): 0.0,
        (0.5, "npc", "dpr"): pytest.approx(0.2), (0.5, "oracle", "dpr"): pytest.approx(0.25),
        (0.5, "npc", "oracle"): pytest.approx(-0.05),
    }  # fmt: skip
    folder = out["bench_page"]
    assert sorted(path.name for path in folder.iterdir()) == ["bench.html", "bench.md"]
    assert "50.0 %; all made-up pairs 49.0 % to 51.0 %" in (folder / "bench.md").read_text()
    page = (folder / "bench.html").read_text()
    assert 'id="detection"' in page and '<span class="muted">builds</span> 14' in page  # 12 runs, 2 detections


def test_there_may_be_no_detection_and_no_reference(run_stage_on):
    given = {label: table for label, table in runs(rates=(0.5,), seeds=(3,)).items() if "oracle" not in label}
    with refuses(ConfigError, "evaluation.unknown_method", setting="reference"):
        run_stage_on(NOISE_TABLE, PARAMS, {"metrics": given, "detection": {}})
    params = PARAMS.model_copy(update={"reference": None})
    out = run_stage_on(NOISE_TABLE, params, {"metrics": given, "detection": {}})
    assert out["bench_summary"]["against"].to_pylist() == [None, "dpr"]
    assert 'id="detection"' not in (out["bench_page"] / "bench.html").read_text()


def test_the_baseline_alone_is_a_table_without_tests(run_stage_on):
    given = {label: table for label, table in runs().items() if "dpr" in label}
    params = PARAMS.model_copy(update={"reference": None})
    out = run_stage_on(NOISE_TABLE, params, {"metrics": given, "detection": {}})
    assert set(out["bench_summary"]["against"].to_pylist()) == {None}
    assert "## Differences" not in (out["bench_page"] / "bench.md").read_text()


def test_equal_values_give_equal_bytes(run_stage_on):
    first, again = (
        run_stage_on(NOISE_TABLE, PARAMS, {"metrics": runs(), "detection": {}})["bench_summary"] for _ in range(2)
    )
    assert first.equals(again)


def test_a_bench_without_cells_or_with_missing_ones_is_refused(run_stage_on):
    with refuses(DataError, "evaluation.empty_bench"):
        run_stage_on(NOISE_TABLE, PARAMS, {"metrics": {}, "detection": {}})
    given = runs()
    del given["uniform:0.5:npc:1"]
    with refuses(DataError, "evaluation.missing_cells", missing=1, cells=12):
        run_stage_on(NOISE_TABLE, PARAMS, {"metrics": given, "detection": {}})


def test_a_bench_that_trains_nothing_shows_its_mining(run_stage_on):
    given = {f"hidden:0.5:{arm}:{seed}": mined(0.1 + 0.02 * seed) for arm in ("uniform", "simans") for seed in (0, 1)}
    given["hidden:0.5:simans:0"] = mined(0.2)
    out = run_stage_on(NOISE_TABLE, PARAMS, {"metrics": {}, "detection": {}, "mining": given})
    assert out["bench_values"].num_rows == out["bench_summary"].num_rows == 0
    text = (out["bench_page"] / "bench.md").read_text()
    assert "| hidden | 50 % | uniform | 10,000 | 8.00 ± 0.00 % | 500 | 11.00 ± 1.41 % | 2 |" in text
    assert "| hidden | 50 % | simans | 10,000 | 8.00 ± 0.00 % | 500 | 16.00 ± 5.66 % | 2 |" in text
    sieve = "sieve | 3,000 | 0.750 | 0.400 | 0.500 | 60.00 % | 45.00 % | 2 |"
    assert f"| hidden | 50 % | all | {sieve}" in text  # the two arms have the same judge
    page = (out["bench_page"] / "bench.html").read_text()
    assert "Mining alone, 2 seeds (0, 1), 4 cells of noise, arm and seed." in page
    assert 'id="negatives"' in page and ">baseline<" not in page and 'id="noise-1"' not in page


def test_the_inputs_that_a_bench_lacks_may_be_left_out(run_stage_on):
    out = run_stage_on(NOISE_TABLE, PARAMS, {"mining": {"hidden:0.5::3": mined(0.1)}})
    assert (
        "| hidden | 50 % | \N{EN DASH} | 10,000 | 8.00 % | 500 | 10.00 % | 1 |"
        in (out["bench_page"] / "bench.md").read_text()
    )
    with refuses(DataError, "evaluation.empty_bench"):
        run_stage_on(NOISE_TABLE, PARAMS, {})


def test_false_negatives_stand_beside_what_was_trained(run_stage_on):
    given = {"metrics": runs(), "detection": {}}
    plain = run_stage_on(NOISE_TABLE, PARAMS, given)
    given["mining"] = {f"uniform:{rate}:npc:{seed}": mined(0.1) for rate in (0.0, 0.5) for seed in (0, 1)}
    given["losses"] = {f"uniform:0.5:{arm}:{seed}": losses(0.8 + 0.02 * seed) for arm in ("npc", "dpr")
                       for seed in (0, 1)}  # fmt: skip
    given["sieve_curves"] = {f"uniform:0.5:npc:{seed}": sieved(0.4, 0.45 + 0.02 * seed) for seed in (0, 1)}
    out = run_stage_on(NOISE_TABLE, PARAMS, given)
    assert out["bench_summary"].equals(plain["bench_summary"]) and out["bench_values"].equals(plain["bench_values"])
    page, before = ((found["bench_page"] / "bench.html").read_text() for found in (out, plain))
    assert 'id="negatives"' in page and 'id="negatives"' not in before
    assert page.count('<svg class="chart losses"') == 2 and "false below hard 0.810 ± 0.014" in page
    assert 'aria-label="sieve-out rate by epoch: npc 0.400 to 0.460"' in page
    assert '<span class="muted">builds</span> 22' in page  # 12 runs, 4 of mining, 4 of losses, 2 of sieves


def test_a_mining_that_lacks_a_seed_is_refused(run_stage_on):
    given = {f"hidden:0.5:{arm}:{seed}": mined(0.1) for arm in ("uniform", "simans") for seed in (0, 1)}
    del given["hidden:0.5:simans:1"]
    with refuses(DataError, "evaluation.missing_cells", missing=1, cells=4):
        run_stage_on(NOISE_TABLE, PARAMS, {"mining": given})
