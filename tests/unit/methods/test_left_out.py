"""What an experiment leaves out is chosen by its backbone and its data, said, and changes nothing that is set."""

import csv
import json

import pytest

from noisyir.methods import experiments
from noisyir.methods.plans.experiment import Experiment
from noisyir.methods.plans.left_out import filled_in
from noisyir.methods.plans.rules import MANY


@pytest.fixture
def data(tmp_path):
    def write(rows, *, splits=()):
        path = tmp_path / "pairs.csv"
        with path.open("w", newline="") as file:
            columns = ["question", "answer", *(["split"] if splits else [])]
            cells = [[f"q{n}", f"d{n}", *([splits[n % len(splits)]] if splits else [])] for n in range(rows)]
            csv.writer(file).writerows([columns, *cells])
        return {"kind": "pairs", "path": str(path)}

    return write


def test_a_static_model_gets_a_rate_that_trains_it_and_fewer_pairs_get_smaller_batches(data):
    small = filled_in(Experiment(name="small", data=data(500)))
    assert (small.train.learning_rate, small.train.epochs, small.train.batch_size) == (3e-3, 10, 128)
    assert small.train.patience == 2 and small.data.hold_out.shares == {"test": 0.1, "dev": 0.1}
    assert "500 pairs" in small.chosen["train.epochs"] and "no test and no dev queries" in small.chosen["data.hold_out"]
    large = filled_in(Experiment(name="large", data=data(MANY)))
    assert (large.train.epochs, large.train.batch_size) == (6, 512)
    assert filled_in(small) == small


@pytest.mark.parametrize(("freeze", "rate"), [(None, 2e-5), (0, 2e-5), (4, 1e-4)])
def test_upper_layers_of_a_transformer_learn_faster_than_all(data, freeze, rate):
    given = {"model": {"backbone": "transformer"}, "train": {"freeze": freeze}}
    exp = filled_in(Experiment(name="x", data=data(500), **given))
    assert exp.train.learning_rate == rate and ("train.learning_rate" in exp.chosen) == (rate == 1e-4)
    given["train"]["learning_rate"] = 3e-5
    assert filled_in(Experiment(name="x", data=data(500), **given)).train.learning_rate == 3e-5


def test_what_is_set_stays_even_where_it_is_the_default(data):
    given = {"learning_rate": 2e-5, "epochs": 6, "batch_size": 512, "patience": None}
    exp = filled_in(Experiment(name="x", data={**data(50), "hold_out": None}, train=given))
    assert exp.chosen == {} and exp.train.learning_rate == 2e-5 and exp.data.hold_out is None


@pytest.mark.parametrize(
    ("splits", "drawn"), [(("train", "dev", "test"), None), (("train", "test"), {"dev"}), (("train",), {"dev", "test"})]
)
def test_only_splits_that_the_file_lacks_are_drawn(data, splits, drawn):
    held = filled_in(Experiment(name="x", data=data(60, splits=splits))).data.hold_out
    assert (None if held is None else set(held.shares)) == drawn


@pytest.mark.parametrize(("other", "drawn"), [((), {"dev", "test"}), (("dev-v1.1.json",), None)])
def test_splits_are_drawn_from_a_format_of_several_files_if_it_has_training_queries_alone(tmp_path, other, drawn):
    asked = [{"id": f"q{n}", "question": f"who is {n}?", "answers": []} for n in range(60)]
    for name in ("train-v1.1.json", *other):
        paragraphs = [{"context": f"{name} says it.", "qas": [{**one, "id": f"{name}{one['id']}"} for one in asked]}]
        (tmp_path / name).write_text(json.dumps({"data": [{"title": "a", "paragraphs": paragraphs}]}))
    path = tmp_path if other else tmp_path / "train-v1.1.json"
    held = filled_in(Experiment(name="x", data={"kind": "squad", "path": str(path)})).data.hold_out
    assert (None if held is None else set(held.shares)) == drawn


def test_a_transformer_keeps_the_rate_of_the_papers(data):
    exp = filled_in(Experiment(name="x", data=data(50), model={"backbone": "transformer"}))
    assert (exp.train.learning_rate, exp.train.batch_size) == (2e-5, 64)


def test_experiments_that_ship_train_as_they_did():
    for name in experiments.names():
        as_written = experiments.from_settings(experiments._read(name), ())
        loaded = experiments.load(name)
        told = {
            name: value for name, value in loaded.train.key_values().items() if value != "auto"
        }  # the pieces of a batch
        assert told == as_written.train.key_values(), name
        assert loaded.data == as_written.data, name


def test_ranking_dev_after_each_epoch_costs_a_transformer_at_most_a_tenth_of_its_training(data):
    exp = filled_in(Experiment(name="x", data=data(500), model={"backbone": "transformer"})).train
    assert (exp.dev_queries, exp.dev_documents) == (101, 101) and exp.dev_documents / (3 * 500) < 0.1
    set_here = filled_in(
        Experiment(name="x", data=data(500), train={"dev_documents": 9}, model={"backbone": "transformer"})
    )
    assert set_here.train.dev_documents == 9
    assert filled_in(Experiment(name="x", data=data(500))).train.dev_documents == 50_000
