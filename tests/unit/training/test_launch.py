"""Whole stages in two processes: the same build, and what a process that fails leaves to go on from."""

import numpy as np
import pytest

from noisyir.base.errors import DataError, NoisyirError
from noisyir.engine.build_stage import run_stage
from noisyir.engine.plan import Plan
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Observer
from noisyir.engine.store import Store
from noisyir.models.bi_encoder import load_bi_encoder
from noisyir.training.settings import TrainDprParams
from noisyir.training.stages.train_dpr import TRAIN_DPR
from tests.refusals import refuses
from tests.tiny_models import tiny_encoder
from tests.unit.training.fragile_stage import FRAGILE, STEPS, FragileParams
from tests.unit.training.test_training_stages import MINED, TABLES

TWO = Runtime(device="cpu", threads=2, processes=2, peer_seconds=60)
ONE = Runtime(device="cpu", threads=1)


class Watched(Observer):
    """Notes the steps whose loss was told, and how far the run was said to be."""

    def __init__(self):
        self.steps, self.done = [], []

    def metric(self, step, name, value, at):
        if name == "train_loss":
            self.steps.append(at)

    def progress(self, step, done, total, unit):
        self.done.append((done, total))


def trained(store, bert, runtime, observer=None):
    """The build, its learning curves, and its vectors of some texts."""
    plan = Plan(3)
    plan.add(FRAGILE, FragileParams(bert=str(bert)))
    meta = run_stage(plan.steps[0], {}, store=store, runtime=runtime, observer=observer).meta
    curves = store.builds.table(meta.ref("curves")).to_pylist()
    return meta, [(row["name"], row["step"]) for row in curves], np.array([row["value"] for row in curves])


def vectors(folder):
    encoder = load_bi_encoder(folder, "cpu")
    return encoder.embed(encoder.tokenize(TABLES["corpus"]["text"].to_pylist(), "passage"), "passage").detach().numpy()


def test_warm_up_in_two_processes_gives_the_model_of_one(run_stage_on, store, bert, tmp_path):
    tiny_encoder(bert, shared=False).save(tmp_path / "start")
    params = TrainDprParams(epochs=2, batch_size=7, learning_rate=0.02, hard_negatives=1)
    given = {**TABLES, "model": tmp_path / "start", "negatives": MINED}
    alone = run_stage_on(TRAIN_DPR, params, given, seed=1, runtime=ONE)
    expected = alone["curves"].to_pylist(), vectors(alone["model"])
    store.builds.remove(store.builds.all()[-1])  # the same key: the number of processes is no part of it
    shared = run_stage_on(TRAIN_DPR, params, given, seed=1, runtime=TWO)
    np.testing.assert_allclose(vectors(shared["model"]), expected[1], atol=1e-4)
    for found, wanted in zip(shared["curves"].to_pylist(), expected[0], strict=True):
        assert found == {**wanted, "value": pytest.approx(wanted["value"], abs=1e-4)}
    assert vectors(tmp_path / "start") != pytest.approx(expected[1], abs=0.01)
    notes = store.builds.all()[-1].notes
    assert notes["processes"] == 2 and notes["training_pairs"] == 15
    assert not list((store.home / "store" / ".staging").iterdir())


def test_a_killed_process_ends_the_run_and_another_number_goes_on(store, bert, monkeypatch, capfd):
    monkeypatch.setenv("NOISYIR_TEST_FAIL", "1 7 kill")
    before = Watched()
    with refuses(NoisyirError, "engine.process_rank_others_were", rank=1):
        trained(store, bert, TWO, before)
    assert before.steps == list(range(1, 1 + len(before.steps))) and len(before.steps) <= 8
    assert not store.builds.all()

    monkeypatch.delenv("NOISYIR_TEST_FAIL")
    after = Watched()
    meta, points, values = trained(store, bert, ONE, after)
    assert after.steps[0] >= 7 and after.steps[-1] == STEPS
    assert after.done[-1] == (STEPS, STEPS)
    assert meta.notes["resumed_with_processes"] == {"before": 2, "now": 1}
    store.builds.remove(meta)
    _, wanted_points, wanted = trained(store, bert, ONE)
    assert points == wanted_points
    np.testing.assert_allclose(values, wanted, atol=1e-4)


def test_the_error_of_one_process_is_that_of_the_run_and_two_go_on_from_one(store, bert, monkeypatch, capfd):
    monkeypatch.setenv("NOISYIR_TEST_FAIL", "0 9 raise")
    with pytest.raises(DataError, match=r"^rank 0 does not like step 9$"):
        trained(store, bert, ONE)
    monkeypatch.setenv("NOISYIR_TEST_FAIL", "1 13 raise")
    told = Watched()
    with pytest.raises(DataError, match=r"^rank 1 does not like step 13"):
        trained(store, bert, TWO, told)
    assert told.steps[0] == 9
    assert "training goes on with 2 processes; its checkpoint is of 1" in capfd.readouterr().err


@pytest.mark.slow
def test_another_machine_goes_on_from_the_checkpoint_in_the_store(bucket, bert, tmp_path, monkeypatch):
    one, two = (Store(bucket, home=tmp_path / home) for home in ("one", "two"))
    monkeypatch.setenv("NOISYIR_TEST_FAIL", "0 15 raise")
    with pytest.raises(DataError, match="rank 0 does not like step 15"):
        trained(one, bert, ONE)
    monkeypatch.delenv("NOISYIR_TEST_FAIL")
    after = Watched()
    meta, points, values = trained(two, bert, ONE, after)
    assert 1 < after.steps[0] <= 15 and after.steps[-1] == STEPS
    two.builds.remove(meta)
    _, wanted_points, wanted = trained(two, bert, ONE)
    assert points == wanted_points and (values == wanted).all()


@pytest.mark.slow
def test_two_that_go_on_from_two_end_in_the_same_bits(store, bert, monkeypatch):
    whole, _, values = trained(store, bert, TWO)
    store.builds.remove(whole)
    monkeypatch.setenv("NOISYIR_TEST_FAIL", "0 11 kill")
    with pytest.raises(NoisyirError, match="rank 0 was killed by SIGKILL"):
        trained(store, bert, TWO)
    monkeypatch.delenv("NOISYIR_TEST_FAIL")
    resumed, _, values_again = trained(store, bert, TWO)
    assert "resumed_with_processes" not in resumed.notes
    assert resumed.artifacts["model"].digest == whole.artifacts["model"].digest
    np.testing.assert_array_equal(values, values_again)
