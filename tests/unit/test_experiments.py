import shlex
from pathlib import Path

import pytest

from noisyir.base.errors import ConfigError
from noisyir.corruption.kinds.other_documents import AnyDocument
from noisyir.data.formats.beir import Beir
from noisyir.front.cli import main
from noisyir.methods import experiments
from noisyir.methods.plans.experiment import Experiment
from tests.refusals import refuses


@pytest.mark.parametrize("name", experiments.names())
def test_every_shipped_experiment_loads_under_its_own_name(name: str):
    exp = experiments.load(name)
    assert exp.name == name and exp.description


def test_overrides_are_yaml_and_reach_nested_settings():
    exp = experiments.load("demo", ["train.epochs=3", "score.splits=[dev, test]", "seed=7", "data.max_documents=null"])
    assert (exp.train.epochs, exp.score.splits, exp.seed) == (3, ("dev", "test"), 7)


@pytest.mark.parametrize(
    ("name", "overrides", "message"),
    [
        ("dmo", [], r"no experiment 'dmo' \(did you mean demo\?\), or give a .yaml"),
        ("demo", ["train.epoch=3"], r"unknown key train.epoch \(did you mean train.epochs\?\); known here: .*batch"),
        ("squad_cds_small", ["task.train.epochs=1"], r"task.train and reader.train are both given: .*under reader"),
        ("demo", ["trian.epochs=3"], r"unknown key trian \(did you mean train\?\)"),
        ("demo", ["train.epochs=many"], r"train.epochs: .*integer.*got 'many'"),
        ("demo", ["noise.rate=1.5"], r"noise.rate: .*less than or equal to 1.*got 1.5"),
        ("demo", ["train.epochs"], r"write an override as key=value.*got 'train.epochs'"),
        ("demo", ["seed.x=1"], r"seed is a value, not a group|unknown key|seed"),
        ("missing.yaml", [], r"there is no missing.yaml: name a .yaml file that is there"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(name, overrides, message):
    with pytest.raises(ConfigError, match=message):
        experiments.load(name, overrides)


def test_an_experiment_that_is_not_written_yet_is_written_as_advised(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("my pairs.csv").write_text("query,document\n" + "".join(f"how is {n},it is {n}\n" for n in range(60)))
    with refuses(ConfigError, "methods.no_experiment_file", cure="noisyir init 'my pairs.csv' writes it") as caught:
        experiments.load("my pairs.yaml")
    assert main([*shlex.split(str(caught.value.values["cure"]).removesuffix(" writes it"))[1:]]) == 0
    assert experiments.load("my pairs.yaml").name == "my pairs"
    with refuses(ConfigError, "methods.no_experiment_file", cure="name a .yaml file that is there"):
        experiments.load("other.yaml")


@pytest.mark.parametrize(
    ("text", "message"), [("a: [", "is not YAML"), ("- a", "must hold settings"), ("", "must hold")]
)
def test_a_file_that_is_no_experiment_is_refused(tmp_path: Path, text: str, message: str):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        experiments.load(str(path))


def test_a_users_file_takes_its_name_from_the_file(tmp_path: Path):
    path = tmp_path / "mine.yaml"
    path.write_text("data: {kind: beir, path: /data/x}")
    assert experiments.load(str(path)).name == "mine"


def test_where_the_data_lies_does_not_enter_a_key_but_everything_else_does():
    here, there = Beir(path="/a"), Beir(path="/b")
    assert here.key_values() == there.key_values() and "path" not in here.key_values()
    assert AnyDocument(rate=0.1).key_values() != AnyDocument(rate=0.2).key_values()


def test_the_machine_is_set_apart_from_the_experiment():
    assert experiments.load_runtime(["runtime.threads=2", "runtime.device=cpu"]).threads == 2
    with pytest.raises(ConfigError, match=r"unknown key thread \(did you mean threads\?\)"):
        experiments.load_runtime(["runtime.thread=2"])
    with pytest.raises(ConfigError, match="unknown key runtime"):
        experiments.load("demo", ["runtime.threads=2"])


def test_an_experiment_is_frozen():
    exp = Experiment(name="x")
    with pytest.raises(ValueError, match="frozen"):
        exp.seed = 1  # type: ignore[misc]
