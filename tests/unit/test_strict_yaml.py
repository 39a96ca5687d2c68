"""Settings that do not mean what they seem to are refused, with place and remedy."""

import re
import time

import pytest

from noisyir.base.errors import ConfigError
from noisyir.methods import experiments
from noisyir.methods.experiments import parse_yaml

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("train: {epochs: 1}\nseed: 2\ntrain: {epochs: 3}", "file line 3: 'train' is already at line 1"),
        ("epochs: 010", r"file line 1: 010 is 8 to YAML: write that"),
        ("epochs: 0x1F", r"file line 1: 0x1F is 31 to YAML"),
        ("seed: 1:30", r"file line 1: YAML reads 1:30 as minutes and seconds, 90"),
        ("a: &x [*x]", "an alias contains itself"),
        (BOMB, "aliases mean .* values"),
        ("[" * 5000 + "]" * 5000, "nested too deeply"),
        ("a: [", "file is not YAML"),
        ("a: 2001-99-99", "file line 1: month must be in"),
        ("seed: " + "9" * 5000, "digits"),
        ("? [a]\n: 1", "file is not YAML"),
    ],
)
def test_what_is_ambiguous_is_refused(text: str, message: str):
    began = time.process_time()
    with pytest.raises(ConfigError, match=message) as caught:
        parse_yaml(text, "file")
    assert "\n" not in str(caught.value) and time.process_time() - began < 5


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("3", 3),
        ("-1.5", -1.5),
        ("0", 0),
        ("1e-3", "1e-3"),
        ('"010"', "010"),
        ("12:30 today", "12:30 today"),
    ],
)
def test_what_is_plain_is_read(text: str, value: object):
    assert parse_yaml(text, "file") == value


def test_an_override_behind_an_alias_changes_one_of_its_places(tmp_path):
    (tmp_path / "x.yaml").write_text("name: x\ntrain: &t {epochs: 2, batch_size: 64}\nmine: {per_query: 2}\n")
    parsed = parse_yaml("a: &t {epochs: 2}\nb: *t", "file")
    parsed["a"]["epochs"] = 3
    assert parsed["b"]["epochs"] == 2


@pytest.mark.parametrize(
    "override",
    [
        "data.min_relevance=true",
        "train.epochs=true",
        "reader.train.learning_rate=false",
        "seed=true",
        "train.patience=true",
    ],
)
def test_a_switch_is_no_number(override: str):
    setting = re.escape(override.partition("=")[0])
    with pytest.raises(ConfigError, match=rf"^demo: {setting} is a number, not (true|false)$"):
        experiments.load("demo", [override])


def test_switches_and_numbers_stay_what_they_are():
    exp = experiments.load("demo", ["train.gradient_checkpointing=true", "train.epochs=3", "train.patience=null"])
    assert exp.train.gradient_checkpointing is True and exp.train.epochs == 3 and exp.train.patience is None
