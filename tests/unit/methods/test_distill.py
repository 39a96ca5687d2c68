"""Distillation as pipelines use it: what a temperature is told to be, and `auto` trying it."""

import logging

import pytest

from noisyir.app.runs import Execution, run_experiment
from noisyir.engine.plan import Choice
from noisyir.engine.runtime import Runtime
from noisyir.engine.store import Store
from noisyir.methods import experiments
from noisyir.methods.plans.retrievers import train_retriever
from tests.tiny import SETTINGS, tiny_data

SMALL = ("pool.depth=12", "lists.size=6", "noise.rate=0.4", "train.epochs=1")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("distill")
    return tiny_data(folder / "data"), Store(folder / "store", home=folder)


@pytest.fixture
def run(world):
    """`run("methods=[distill]", ...)`: notes by stage."""
    settings, store = world

    def go(*changes):
        exp = experiments.load("demo", [*SETTINGS, *settings, *SMALL, *changes])
        execution = Execution(store=store, runtime=Runtime(device="cpu", threads=1))
        outcome = run_experiment(exp, Choice(), execution, train_retriever)
        return {result.meta.stage: result.meta.notes for result in outcome.results.values()}

    return go


def test_a_temperature_at_which_the_teachers_softmax_underflows_is_told_with_the_cure(run, caplog):
    with caplog.at_level(logging.WARNING, "noisyir"):
        notes = run("methods=[distill]", "teacher=bm25", "distill.teacher_temperature=0.001")
    found = notes["train_distill"]["temperatures"]
    (said,) = [record.getMessage() for record in caplog.records if "underflows" in record.getMessage()]
    assert found["underflow"] > 0.9 and f"{found['spread'] / 4:.4g}" in said
    caplog.clear()
    with caplog.at_level(logging.WARNING, "noisyir"):
        cured = run("methods=[distill]", "teacher=bm25", f"distill.teacher_temperature={found['spread'] / 4:.4g}")
    assert cured["train_distill"]["temperatures"]["underflow"] == 0.0
    assert not [record for record in caplog.records if "underflows" in record.getMessage()]


def test_auto_tries_distillation_where_it_is_named(run):
    auto = "methods=[{kind: auto, candidates: [distill_contrast], seeds: 2}]"
    notes = run(auto, "teacher=bm25")
    assert notes["choose_model"]["chosen"] in ("dpr", "distill_contrast")
