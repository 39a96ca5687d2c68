"""The methods and the backbone that `noisyir init` writes: by size, by judgements and by time."""

import csv
from pathlib import Path

import pytest
import yaml

from noisyir.app import init
from noisyir.app.init import TimedPairs, experiment_file, run_seconds
from noisyir.base.errors import ConfigError
from noisyir.engine.store import Store
from noisyir.methods import experiments
from noisyir.methods.plans.left_out import TRIED_FROM, trials_pay


def pairs_file(folder: Path, count: int) -> Path:
    path = folder / "faq.csv"
    with path.open("w", newline="", encoding="utf-8") as out:
        csv.writer(out).writerows(
            [("question", "answer"), *((f"what is {n}", f"{n} is a number") for n in range(count))]
        )
    return path


def written(tmp_path: Path, count: int, **given) -> dict:
    store, target = Store(tmp_path / "store", home=tmp_path), tmp_path / "faq.yaml"
    experiment_file(str(pairs_file(tmp_path, count)), target, store, **given)
    return yaml.safe_load(target.read_text())


@pytest.mark.parametrize(("pairs", "methods"), [(TRIED_FROM - 1, ["dpr"]), (TRIED_FROM, ["dpr", "auto"])])
def test_trials_are_written_where_there_are_pairs_enough(tmp_path, pairs, methods):
    assert written(tmp_path, pairs)["methods"] == methods


def test_trials_do_not_pay_where_people_found_few_wrong_pairs():
    assert trials_pay("static", 20_000)[0] and trials_pay("static", 20_000, 0.3)[0]
    assert not trials_pay("static", 20_000, 0.04)[0] and not trials_pay("transformer", 20_000)[0]


def test_judgements_of_an_audit_are_read(tmp_path, monkeypatch):
    """The upper end of the rate's interval, as the audit's notes have it."""
    notes = type("Audit", (), {"notes": {"judgements": {"interval": [0.02, 0.01, 0.04]}}})
    monkeypatch.setattr(init, "kept_by_run", lambda store, name, result: notes if result == "audit" else None)
    assert written(tmp_path, TRIED_FROM)["methods"] == ["dpr"]


def test_the_backbone_is_the_one_that_the_time_is_enough_for(tmp_path, monkeypatch):
    monkeypatch.setattr(init, "time_pairs", lambda data: TimedPairs(0.02, "CPU", "bf16"))  # 0.02 * 500 * 14 = 140 s
    found = written(tmp_path, 500, budget="3m")
    assert found["model"]["backbone"] == "transformer" and found["train"] == {"precision": "bf16"}
    (tmp_path / "faq.yaml").unlink()
    found = written(tmp_path, 500, budget="2m")
    assert found["model"]["backbone"] == "static" and found["methods"] == ["dpr"] and "train" not in found
    assert run_seconds(500, 3, 0.02) == pytest.approx(170)


@pytest.mark.parametrize("budget", ["20s", "soon", "10", "-5m"])
def test_a_time_that_is_too_small_or_none_is_refused_before_work_with_what_is_enough(tmp_path, budget):
    with pytest.raises(ConfigError, match="--budget") as refused:
        written(tmp_path, 500, budget=budget)
    assert not (tmp_path / "faq.yaml").exists() and "\n" not in str(refused.value)
    if budget == "20s":
        enough = str(refused.value).split("--budget ")[-1].split()[0]
        assert written(tmp_path, 500, budget=enough)["model"]["backbone"] == "static"


def test_a_pair_is_timed_on_the_packaged_model(tmp_path):
    from noisyir.methods.experiments import from_settings

    exp = from_settings({"name": "x", "data": {"kind": "pairs", "path": str(pairs_file(tmp_path, 4))}}, [])
    timed = init.time_pairs(exp.data)
    assert 0 < timed.seconds < 60 and timed.device in ("CPU", "GPU") and timed.precision in ("fp32", "bf16")


def test_bf16_is_chosen_only_where_it_pays_in_every_pair_of_timings():
    assert init.faster_precision([1.0, 1.2, 1.0], [0.5, 0.6, 0.8]) == "bf16"
    assert init.faster_precision([1.0, 1.2, 1.0], [0.5, 0.6, 0.95]) == "fp32", "one timing that was disturbed"


def test_columns_that_were_named_are_written_and_read_again(tmp_path):
    file, target = tmp_path / "odd.csv", tmp_path / "odd.yaml"
    file.write_text("a,b\n" + "".join(f"what is {n},{n} is a number\n" for n in range(9)))
    given = ["data.columns={query: a, document: b}"]
    experiment_file(str(file), target, Store(tmp_path / "store", home=tmp_path), overrides=given)
    assert dict(experiments.load(str(target)).data.open().columns) == {"query": "a", "document": "b"}
