"""Compiled transformers give the same vectors and gradients, dropout included, under the same names."""

import copy
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from noisyir.models.at_once import compile_in_place, keep_fewer_activations, tune_for_training
from noisyir.models.bi_encoder import load_bi_encoder
from noisyir.models.transformer_tower import read_encoder
from noisyir.readers.model import Spans
from noisyir.training.gradients import cached_backward, seeded
from tests.tiny_models import static_encoder, tiny_encoder
from tests.unit.training.reader_world import tiny_reader
from tests.unit.training.test_gradients import batch_and_loss, gradient_of

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(shutil.which(os.environ.get("CXX", "g++")) is None, reason="no C++ compiler on this machine")
def test_the_compiled_gradient_is_the_plain_one_and_names_stay(bert, tmp_path):
    encoder = tiny_encoder(bert, backbone="transformer", layers=1).train()
    batch, loss = batch_and_loss(encoder)
    names = list(encoder.state_dict())

    def gradient():
        value = cached_backward(encoder, batch, loss, seed=7, bf16=False, chunk_size=4)
        return value, gradient_of(encoder)

    plain, wanted = gradient()
    compile_in_place(encoder.transformers, encoder.device)
    compiled, found = gradient()
    assert encoder.query_tower.encoder._compiled_call_impl is not None
    assert compiled == pytest.approx(plain, abs=1e-5)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)
    assert list(encoder.state_dict()) == names
    encoder.save(tmp_path / "model")
    assert list(load_bi_encoder(tmp_path / "model", "cpu").state_dict()) == names
    assert copy.deepcopy(encoder).query_tower.encoder._compiled_call_impl is None


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(shutil.which(os.environ.get("CXX", "g++")) is None, reason="no C++ compiler on this machine")
def test_a_compiled_reader_has_the_plain_one_s_gradient(bert):
    reader = tiny_reader(bert)
    questions = reader.tokenizer.questions(["w1 w2", "w3 w4 w5"])
    passages = reader.tokenizer.passages(["w4 w5 w6", "w7 w8 w9 w1"]).tokens
    spans = Spans(np.array([0, 1]), np.array([0, 1]), np.array([1, 2]))

    def gradient():
        reads = reader(questions, passages, spans)
        loss = reads.start.log_softmax(dim=1)[:, 0].sum() + reads.answer.sum() + reads.context.pow(2).sum()
        reader.zero_grad()
        loss.backward()
        found = [weight.grad.flatten() for weight in reader.parameters() if weight.grad is not None]
        return loss.item(), torch.cat(found)

    plain, wanted = gradient()
    compile_in_place(reader.transformers, reader.device)
    compiled, found = gradient()
    assert compiled == pytest.approx(plain, abs=1e-4)
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.slow
def test_without_a_compiler_it_says_what_to_install():
    code = (
        "import torch\nfrom noisyir.base.errors import ConfigError\n"
        "from noisyir.models.at_once import compile_in_place\n"
        "try:\n    compile_in_place([torch.nn.Linear(1, 1)], torch.device('cpu'))\n"
        "except ConfigError as error:\n    print(error)\n"
    )
    env = {**os.environ, "CXX": "no-such-compiler", "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, cwd=ROOT, check=True)
    assert done.stdout.startswith("runtime.compile=true does not work here")
    assert "set runtime.compile=false" in done.stdout


def test_a_static_model_has_nothing_to_compile():
    encoder = static_encoder(torch.eye(3))
    assert encoder.transformers == []
    compile_in_place(encoder.transformers, encoder.device)


@pytest.mark.parametrize("shared", [True, False])
def test_fewer_activations_give_the_same_gradient_dropout_included(bert, shared):
    encoder = tiny_encoder(bert, backbone="transformer", shared=shared).train()
    assert len(encoder.transformers) == (1 if shared else 2)
    tokens = encoder.tokenize(["w1 w2 w3", "w4", "w5 w6"], "passage")
    kept = []

    def gradient():
        with torch.autograd.graph.saved_tensors_hooks(lambda t: (kept.append(t.numel()), t)[1], lambda t: t):
            with seeded(encoder.device, 3):
                vectors = (encoder.embed(tokens, "passage"), encoder.embed(tokens, "query"))
            (vectors[0] * vectors[1].roll(1, 0)).sum().backward()
        found, count = gradient_of(encoder), sum(kept)
        kept.clear()
        return found, count

    wanted, all_of_them = gradient()
    keep_fewer_activations(encoder.transformers)
    found, fewer = gradient()
    torch.testing.assert_close(found, wanted, atol=1e-6, rtol=1e-5)
    assert fewer < all_of_them / 2, "the layers keep next to nothing"


def test_plain_attention_gives_the_fused_ones_gradient_and_is_for_bf16_without_dropout_on_a_cpu_alone(bert):
    encoders = [read_encoder(bert).eval() for _ in range(3)]
    tune_for_training(encoders[2:], torch.device("cpu"), "bf16")
    for encoder in encoders[:2]:
        encoder.config.attention_probs_dropout_prob = 0.0
    tune_for_training(encoders[:1], torch.device("cpu"), "bf16")
    tune_for_training(encoders[1:2], torch.device("cpu"), "fp32")
    assert [encoder.config._attn_implementation for encoder in encoders] == ["eager", "lean", "lean"]
    ids = torch.arange(4, 16).view(2, 6)
    for encoder in encoders:
        encoder(input_ids=ids).last_hidden_state.square().sum().backward()
    for one, other in zip(*(encoder.parameters() for encoder in encoders[:2]), strict=True):
        if one.grad is not None:
            torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-4)
