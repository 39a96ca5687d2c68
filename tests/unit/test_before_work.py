"""What is wrong with a run is said before its first stage."""

import re

import pytest
import torch
from safetensors.torch import load_file, save_file

from noisyir.base.errors import ConfigError, DataError
from noisyir.front.cli import main
from noisyir.methods import experiments
from noisyir.methods.plans.planning import pipeline_of
from noisyir.models.bi_encoder import initial_bi_encoder
from noisyir.models.settings import InitModelParams
from noisyir.models.weights import locate_weights
from tests.refusals import refuses


@pytest.mark.parametrize("name", ["a/b", "..", ".", "", "a\0b", "a\nb", "a\\b", " "])
def test_a_name_that_no_file_can_have_is_refused(tmp_path, name: str):
    with pytest.raises(ConfigError, match="cannot be a part of a file's name"):
        experiments.from_settings({"name": name}, [])


@pytest.mark.parametrize("measures", ["[]", "[nDCG@0]", "[RR@10, 'R@-1']"])
def test_measures_that_nothing_can_be_measured_by_are_refused(measures: str):
    with pytest.raises(ConfigError, match=r"score\.measures"):
        experiments.load("demo", [f"score.measures={measures}"])


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train.learning_rate=1.0e+30", "less than or equal to 10"),
        ("train.learning_rate=.nan", "train.learning_rate"),
        ("train.scale=.inf", "finite number"),
    ],
)
def test_numbers_that_cannot_train_are_refused(override: str, message: str):
    with pytest.raises(ConfigError, match=message):
        experiments.load("demo", [override])


@pytest.mark.parametrize(
    ("override", "message"),
    [("score.measures=[BAD@x]", "'BAD@x' is not a measure"), ("runtime.device=cuda:7", "cannot be used here")],
)
def test_what_the_last_stages_need_is_checked_before_the_first(tmp_path, capsys, override: str, message: str):
    home = str(tmp_path / "store")
    assert main(["run", "demo", override, "--store", home, "--no-track"]) == 1
    assert message in capsys.readouterr().err
    assert not list((tmp_path / "store").glob("[a-z]*"))  # no stage has run


def broken(folder, change) -> None:
    """A static model whose weights are changed."""
    initial_bi_encoder(locate_weights("minilm", "model.weights"), InitModelParams()).save(folder)
    (file,) = folder.rglob("model.safetensors")
    weights = load_file(file)
    save_file({name: change(weight).contiguous() for name, weight in weights.items()}, file)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda weight: torch.where(torch.arange(len(weight))[:, None] == 7, torch.nan, weight),
            "hold NaN or infinity",
        ),
        (lambda weight: weight[:10], "have 10 rows for"),
    ],
)
def test_broken_weights_are_refused(tmp_path, change, message: str):
    broken(tmp_path / "model", change)
    with pytest.raises(DataError, match=message):
        initial_bi_encoder(tmp_path / "model", InitModelParams(weights=str(tmp_path / "model")))


@pytest.mark.parametrize("method", ["npc", "npc_flags", "npc_relabel"])
def test_a_warm_up_without_an_epoch_to_correct_is_refused_at_planning_and_its_cure_works(method: str):
    given = [f"methods=[{method}]", "train.epochs=1"]
    with refuses(ConfigError, "methods.npc_warmup_too_long", warmup_epochs=1, epochs=1, enough=2) as refused:
        pipeline_of(experiments.load("demo", given))
    (cure,) = re.findall(r"train\.epochs=\d+", str(refused.value))
    pipeline_of(experiments.load("demo", [*given, cure]))


@pytest.mark.parametrize(
    ("code", "given"),
    [
        ("methods.npc_without_negatives", "npc.hard_negatives=1"),
        ("methods.npc_teacher_or_patience", "npc.final=teacher"),
    ],
)
def test_settings_of_npc_that_contradict_others_are_refused_at_planning(code: str, given: str):
    with refuses(ConfigError, code):
        pipeline_of(experiments.load("demo", ["methods=[npc]", "train.patience=1", given]))
