"""The stage noise_table, run for real: its three outputs from labelled metrics and detection."""

import numpy as np
import pyarrow as pa
import pytest

from noisyir.config import NoiseTableParams
from noisyir.errors import ConfigError, DataError
from noisyir.schemas import DETECTION
from noisyir.stages.noise_table import NOISE_TABLE

PARAMS = NoiseTableParams(resamples=100)
GAIN = {"dpr": 0.0, "npc": 0.4, "oracle": 0.5}


def metrics(method, rate, seed, queries=40):
    values = np.random.default_rng(seed).random(queries) + GAIN[method] * rate
    ids = [*(f"q{number}" for number in range(queries)), None]
    columns = {"measure": ["RR@10"] * len(ids), "split": ["dev"] * len(ids), "query_id": ids}
    return pa.table({**columns, "value": [*values, values.mean()]})


def runs(rates=(0.0, 0.5), seeds=(0, 1)):
    return {f"uniform:{r}:{m}:{s}": metrics(m, r, s) for r in rates for s in seeds for m in GAIN}


def detection(rate):
    values = {"auroc": 0.97, "rate": rate, "rate_low": rate - 0.01, "rate_high": rate + 0.01, "true_rate": rate}
    rows = [{"system": "npc", "epoch": 1, "measure": name, "value": value} for name, value in values.items()]
    return pa.Table.from_pylist(rows, schema=DETECTION.schema)


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
    assert "50.0 % [49.0, 51.0]" in (folder / "bench.md").read_text()
    page = (folder / "bench.html").read_text()
    assert 'id="detection"' in page and '<span class="muted">builds</span> 14' in page  # 12 runs, 2 detections


def test_there_may_be_no_detection_and_no_reference(run_stage_on):
    given = {label: table for label, table in runs(rates=(0.5,), seeds=(3,)).items() if "oracle" not in label}
    with pytest.raises(ConfigError, match=r"table\.reference"):
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


def test_equal_seeds_give_equal_bytes_and_others_other_intervals(run_stage_on, tmp_path):
    first, again, other = (
        run_stage_on(NOISE_TABLE, PARAMS, {"metrics": runs(), "detection": {}}, seed=seed)["bench_summary"]
        for seed in (1, 1, 2)
    )
    assert first.equals(again) and not first["low"].equals(other["low"]) and first["mean"].equals(other["mean"])


def test_a_bench_without_cells_or_with_missing_ones_is_refused(run_stage_on):
    with pytest.raises(DataError, match="no cell"):
        run_stage_on(NOISE_TABLE, PARAMS, {"metrics": {}, "detection": {}})
    given = runs()
    del given["uniform:0.5:npc:1"]
    with pytest.raises(DataError, match=r"1 of the bench's 12 cells are missing: uniform:0.5:npc:1"):
        run_stage_on(NOISE_TABLE, PARAMS, {"metrics": given, "detection": {}})
