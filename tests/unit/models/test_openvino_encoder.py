"""A bi-encoder whose vectors OpenVINO computes: torch's own, near them in 8 bits; static models are refused."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from noisyir.base.errors import ConfigError
from noisyir.retrieval.encode import embed_all
from tests.refusals import refuses
from tests.tiny_models import WORDS, tiny_bert, tiny_encoder

pytest.importorskip("openvino", reason="needs the extra: pip install 'noisyir[export]'")

TEXTS = ["", *(" ".join(WORDS[number : number + 1 + number % 9]) for number in range(30))]


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    return tiny_bert(tmp_path_factory.mktemp("bert"))


def vectors(model, encoder, side):
    return embed_all(model, encoder.tokenize(TEXTS, side), side, batch_tokens=40)


def test_openvino_gives_torchs_vectors_of_both_sides(weights):
    """Of two towers; of one, `test_encode_backends` compares them."""
    from noisyir.models.openvino_encoder import OpenVinoEncoder

    shape = {"shared": False, "pooling": "cls", "similarity": "dot"}
    encoder = tiny_encoder(weights, backbone="transformer", query_prefix="w1 ", **shape)
    with torch.no_grad():
        for weight in encoder.query_tower.parameters():
            weight.mul_(1.1)  # so that a tower in the other's place is seen
    model = OpenVinoEncoder(encoder)
    for side in ("query", "passage"):
        np.testing.assert_allclose(vectors(model, encoder, side), vectors(encoder, encoder, side), atol=2e-5)


@pytest.mark.slow
def test_eight_bits_are_near_and_calibrated_anew_the_same(weights):
    pytest.importorskip("nncf", reason="needs the extra: pip install 'noisyir[export]'")
    from noisyir.models.openvino_encoder import OpenVinoEncoder

    encoder = tiny_encoder(weights, backbone="transformer")
    first, second = (vectors(OpenVinoEncoder(encoder, calibration=TEXTS), encoder, "passage") for _ in range(2))
    cosines = (first * vectors(encoder, encoder, "passage")).sum(axis=1)
    assert 0.95 < cosines.min() and cosines.mean() < 1 - 1e-6, "near, and not what torch gives"
    np.testing.assert_array_equal(first, second)


@pytest.mark.slow
def test_in_eight_bits_a_text_has_its_vector_whatever_the_width_of_its_batch(weights):
    """A batch as wide as an attention head came out wrong where the rest was in bf16, on processors with AMX."""
    pytest.importorskip("nncf", reason="needs the extra: pip install 'noisyir[export]'")
    from noisyir.models.openvino_encoder import OpenVinoEncoder

    encoder = tiny_encoder(tiny_bert(weights.parent / "wide", heads=1), backbone="transformer", passage_max_len=40)
    model = OpenVinoEncoder(encoder, precision="bf16", calibration=TEXTS)
    assert model._never == 32
    texts = [" ".join(WORDS[: width - 2]) for width in (30, 31, 32, 33)]
    tokens = encoder.tokenize(texts, "passage")
    assert tokens.lengths.tolist() == [30, 31, 32, 33]
    in_torch = encoder.embed(tokens, "passage").detach()
    for number in range(4):
        alone = model.embed(tokens.take(np.array([number] * 8)), "passage")
        assert (alone @ in_torch[number]).min() > 0.97


def test_a_static_model_is_refused(weights):
    from noisyir.models.openvino_encoder import OpenVinoEncoder

    with refuses(ConfigError, "models.backend_openvino_transformers_model"):
        OpenVinoEncoder(tiny_encoder(weights, backbone="static"))


@pytest.mark.slow
def test_nobody_is_told_of_its_use(tmp_path):
    """In a process of its own, for what was imported once is imported; its telemetry would leave files in the home."""
    code = """
import socket, sys
from pathlib import Path
from noisyir.models.openvino_encoder import OpenVinoEncoder
from tests.tiny_models import tiny_bert, tiny_encoder
socket.socket.connect = lambda *where: sys.exit(f"connects to {where[1:]}")
encoder = tiny_encoder(tiny_bert(Path(sys.argv[1])), backbone="transformer")
OpenVinoEncoder(encoder, calibration=["w1 w2", "w3"])
"""
    home = tmp_path / "home"
    home.mkdir()
    words = [sys.executable, "-c", code, str(tmp_path / "bert")]
    done = subprocess.run(words, env=os.environ | {"HOME": str(home)}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not (home / "intel").exists()
