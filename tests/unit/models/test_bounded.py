"""Models and machines that would never get done are refused in seconds, with a reason that is the right one."""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from noisyir.base.errors import DataError, NoisyirError
from noisyir.engine.outside_errors import in_our_words
from noisyir.models.bi_encoder import initial_bi_encoder
from noisyir.models.settings import InitModelParams
from noisyir.models.soundness import opening
from tests.refusals import refuses
from tests.tiny_models import tiny_bert


def changed(path: Path, **values: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def load(folder: Path, backbone: str = "transformer") -> None:
    initial_bi_encoder(folder, InitModelParams(weights=str(folder), backbone=backbone, passage_max_len=64))


@pytest.mark.parametrize("values, said", [
    ({"num_hidden_layers": 1_000_000}, "num_hidden_layers is 1,000,000, and the file has 37 weights"),
    ({"hidden_dropout_prob": float("nan")}, "hidden_dropout_prob is NaN"),
    ({"encoder": {"n_layers": 10**9}}, "n_layers is 1,000,000,000"),
])  # fmt: skip
def test_settings_of_a_model_that_no_model_has(tmp_path: Path, values, said: str):
    folder = tiny_bert(tmp_path / "bert")
    load(folder)
    changed(folder / "config.json", **values)
    began = time.process_time()
    with pytest.raises(DataError, match=said):
        load(folder)
    assert time.process_time() - began < 5


@pytest.mark.parametrize("backbone", ["static", "transformer"])
def test_a_tokenizer_that_blows_texts_up(tmp_path: Path, backbone: str):
    folder = tiny_bert(tmp_path / "bert")
    once = {"type": "Replace", "pattern": {"String": "e"}, "content": "e" * 300}
    few = {"type": "Sequence", "normalizers": [{**once, "content": "ee"}, {"type": "Lowercase"}]}
    changed(folder / "tokenizer.json", normalizer=few)
    load(folder, backbone)
    changed(folder / "tokenizer.json", normalizer={"type": "Sequence", "normalizers": [once] * 4})
    with refuses(DataError, "models.unreadable"):
        load(folder, backbone)


def test_too_little_memory_is_not_told_as_a_broken_model(tmp_path: Path):
    folder = tiny_bert(tmp_path / "bert")
    for error in (MemoryError(), OSError(12, "Cannot allocate memory"), RuntimeError("unable to mmap 9 bytes")):
        with pytest.raises(NoisyirError, match="the memory does not suffice") as raised, opening(folder):
            raise error
        assert "get the model again" not in str(raised.value)
    assert "the memory does not suffice" in str(in_our_words(RuntimeError("unable to mmap 90868376 bytes from file")))


_JAVA = """
import resource, sys
import noisyir.retrieval.java as java
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2)
try:
    print(java.java_class("java.lang.String", sys.argv[2]))
except Exception as error:
    print(type(error).__name__, error)
"""


def test_java_that_gets_no_memory_is_not_tried_and_less_of_it_is_as_advised(tmp_path: Path):
    def start(heap: str) -> str:
        given = [sys.executable, "-c", _JAVA, str(4 << 30), heap]
        done = subprocess.run(given, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    said = start("4g")
    assert said.startswith("NoisyirError the memory does not suffice for Java") and "lower runtime.java_heap" in said
    assert "java.lang.String" in start("512m")
    assert resource.getrlimit(resource.RLIMIT_AS)[0] != 4 << 30
