"""The GPU bench's grid, its time box and its table."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from noisyir.engine.store import Store
from noisyir.methods.plans.method import Method


@pytest.fixture(scope="module")
def bench():
    path = Path(__file__).parents[2] / "bench" / "gpu_ar2.py"
    spec = importlib.util.spec_from_file_location("gpu_ar2", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["gpu_ar2"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["gpu_ar2"]


def kind_of(sampler):
    return sampler if isinstance(sampler, str) else sampler["kind"]


def test_arms_of_a_method_differ_in_nothing_but_what_is_mined(bench):
    toy = bench.merged(bench.SETTINGS, bench.TOY)
    for method, (known, _) in bench.ARMS.items():
        if known not in Method.variants():
            continue
        plans = {name: bench.plan_of(bench.Arm(method, name), toy, 0) for name in bench.SAMPLERS}
        for name, plan in plans.items():
            mined = [step.params for step in plan.steps if step.stage.name == "mine"]
            drawn = {params.sampler.kind for params in mined}
            own = {"uniform"} if method == "rocketqa" else set()  # its ranker's own negatives
            assert drawn - own == {kind_of(bench.SAMPLERS[name]["sampler"])} - own and drawn >= own and mined
            sieved = [step for step in plan.steps if step.stage.name == "sieve"]
            assert len(sieved) == (len(plan.named("candidates")) if "sieve" in name else 0)
            trained = [step.params for step in plan.steps if step.stage.pool == "gpu" and "train" not in step.name]
            others = [step.params for step in plans["uniform"].steps if step.stage.pool == "gpu"]
            assert all(params in others for params in trained if params not in [step.params for step in sieved])
    ccr, plain = (bench.plan_of(bench.Arm(name, "uniform"), toy, 0) for name in ("dpr+ccr", "dpr"))
    betas = [step.params.ccr.beta for plan in (ccr, plain) for step in plan.steps if step.stage.name == "train_dpr"]
    assert betas == [0.1, 0.0]


def test_both_collections_settings_are_experiments(bench):
    for name, settings in bench.DATA.items():
        made = bench.merged(bench.SETTINGS, settings, {"name": name, "data": {"path": "folder"}})
        assert bench.Suite.model_validate({"name": name, "experiment": made, "noise": [{}]})


def test_when_the_time_is_over_nothing_runs(bench, tmp_path):
    toy = bench.merged(bench.SETTINGS, bench.TOY)
    plans = bench.plans_of({"pydocs": toy}, [bench.Arm("dpr", "uniform")], range(2))
    store = Store(tmp_path / "store", home=tmp_path)
    assert bench.run(plans, store, bench.Clock(minutes=0)) == ({}, False)
    assert store.builds.all() == []


def test_the_table_compares_over_the_seeds_that_both_have(bench):
    def done(*values):
        by_query = {f"q{n}": v for n, v in enumerate(values)}
        return bench.Finished(by_query, {query: query for query in by_query}, "RR@10", {"tokens_per_second": 1234.5})

    found = {
        bench.Arm("dpr", "uniform"): {0: done(0.1, 0.2, 0.3, 0.4), 1: done(0.3, 0.4, 0.5, 0.6)},
        bench.Arm("ance", "uniform"): {0: done(0.2, 0.4, 0.3, 0.6)},
        bench.Arm("ance", "sieve"): {0: done(0.3, 0.4, 0.4, 0.7)},
    }
    head, _, dpr, uniform, sieve = bench.report(found)
    assert head.startswith("| method | sampler | RR@10 | seeds |")
    spread = np.std([0.25, 0.45], ddof=1)
    assert dpr == f"| dpr | uniform | 0.350 ± {spread:.3f} | 2 |  |  | 1,234 |"
    assert uniform.startswith("| ance | uniform | 0.375 | 1 |  | +0.125 [")  # against dpr's seed 0 alone
    assert "| 1 | +0.075 [" in sieve and "| +0.200 [" in sieve
    # three tests, Holm: the smallest p counts three times
    p_values = [float(text.split()[0]) for text in (uniform + sieve).split("p ")[1:] if text[0].isdigit()]
    raw = (
        bench.crossed_t_test(np.array([0.1, 0.0, 0.1, 0.1])[:, None]).p_value,
        bench.crossed_t_test(np.array([0.2, 0.2, 0.1, 0.3])[:, None]).p_value,
    )
    assert min(p_values) == pytest.approx(3 * raw[1], rel=0.05)
    assert 2 * raw[0] == pytest.approx(sorted(p_values)[1], rel=0.1)
