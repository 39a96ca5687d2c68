"""Gradient caching is exact, and dropout leaves torch's generators alone."""

import numpy as np
import pytest
import torch

from noisyir.models import lean_dropout, lean_linear
from noisyir.models.at_once import keep_fewer_activations, tune_for_training
from noisyir.training import gradients
from noisyir.training.batches import assemble
from noisyir.training.losses.dpr import pair_nll
from noisyir.training.settings import TrainDprParams
from tests.tiny_models import tiny_encoder
from tests.unit.training.toy import toy_pairs


def batch_and_loss(encoder):
    batch = assemble(toy_pairs(encoder, negatives=1), np.arange(10), np.arange(10, 20)[:, None])
    positive, ignored = torch.from_numpy(batch.positive), torch.from_numpy(batch.ignored)
    return batch, lambda q, p: pair_nll(20.0 * q @ p.T, positive, ignored).mean()


def gradient_of(encoder):
    found = [weight.grad.to_dense().flatten() for weight in encoder.parameters()]
    encoder.zero_grad(set_to_none=True)
    return torch.cat(found)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("backbone", ["transformer", "static"])
def test_the_cached_gradient_is_the_plain_one(bert, backbone, shared):
    encoder = tiny_encoder(bert, backbone=backbone, shared=shared)  # evaluation mode: no dropout
    batch, loss = batch_and_loss(encoder)
    plain = gradients.backward(encoder, batch, loss, seed=1, bf16=False)
    wanted = gradient_of(encoder)
    for chunk_size in (1, 3, 100):
        cached = gradients.cached_backward(encoder, batch, loss, seed=1, bf16=False, chunk_size=chunk_size)
        assert cached == pytest.approx(plain, abs=1e-6)
        torch.testing.assert_close(gradient_of(encoder), wanted, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("tokens", [1, 20, 60, 10_000])
def test_the_gradient_in_pieces_is_the_plain_one(bert, shared, tokens, monkeypatch):
    monkeypatch.setitem(gradients._TOKENS_AT_ONCE, "cpu", tokens)
    encoder, read = tiny_encoder(bert, backbone="transformer", shared=shared), []
    batch, loss = batch_and_loss(encoder)
    plain = loss(*encoder.embed_both(batch.queries, batch.passages))
    plain.backward()
    wanted = gradient_of(encoder)
    for tower in encoder.transformers:
        tower.register_forward_pre_hook(lambda _, __, given: read.append(given["input_ids"].shape), with_kwargs=True)
    params = TrainDprParams(batch_size=10, hard_negatives=1)
    found = gradients.BatchGradient(encoder, batch.passages, params, 30).compute(batch, loss, seed=1)
    assert found == pytest.approx(plain.item(), abs=1e-6)
    torch.testing.assert_close(gradient_of(encoder), wanted, atol=1e-6, rtol=1e-5)
    assert all(rows == 1 or rows * length <= tokens for rows, length in read)
    assert (len(read) > 2) == (tokens < 100)


@pytest.mark.parametrize("again", [False, True])
def test_lean_linear_layers_keep_less_and_have_the_same_gradient_to_the_bit(bert, monkeypatch, again):
    encoder, packed, found = tiny_encoder(bert, backbone="transformer").train(), lean_linear._packed, {}
    batch, loss = batch_and_loss(encoder)
    kept = []

    def pack(tensor):
        kept.append(packed(tensor))
        return kept[-1]

    monkeypatch.setattr(lean_linear, "_packed", pack)
    for name in ("plain", "lean"):
        if name == "lean":
            list(map(lean_linear.replace_linear, encoder.transformers))
        if again:
            keep_fewer_activations(encoder.transformers)
        torch.manual_seed(0)
        value = loss(*encoder.embed_both(batch.queries, batch.passages))
        value.backward()
        found[name] = value.item(), gradient_of(encoder)
    assert found["lean"][0] == found["plain"][0] and torch.equal(found["lean"][1], found["plain"][1])
    left = sum(isinstance(one, lean_linear.Again) for one in kept)
    assert left == 0 if again else left >= 5 * sum(tower.config.num_hidden_layers for tower in encoder.transformers)


def test_an_output_that_was_changed_in_place_is_kept_by_a_lean_linear_layer():
    model, given = torch.nn.Sequential(torch.nn.GELU(), torch.nn.Linear(4, 2)), torch.randn(3, 5, 4)
    lean_linear.replace_linear(model)
    for change in (lambda output: output, lambda output: output.mul_(2)):
        model.zero_grad()
        read = change(model[0](given.clone().requires_grad_()))
        model[1](read).square().sum().backward()
        weight = model[1].weight.detach().requires_grad_()
        torch.nn.functional.linear(read.detach(), weight, model[1].bias.detach()).square().sum().backward()
        torch.testing.assert_close(model[1].weight.grad, weight.grad)


@pytest.mark.parametrize("masked", [False, True])
def test_lean_attention_has_the_gradient_of_attention_and_drops_the_wanted_share(monkeypatch, masked):
    torch.manual_seed(0)
    query, key, value = (torch.randn(3, 2, 5, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    mask = (torch.arange(5) < torch.tensor([5, 3, 4])[:, None])[:, None, None].expand(3, 1, 5, 5) if masked else None
    bits, rate = lean_dropout._bits(torch.Size((3, 2, 5, 5)), 0.1)
    monkeypatch.setattr(lean_dropout, "_bits", lambda shape, dropout: (bits, rate))

    def lean(*parts):
        return lean_dropout.attend(torch.nn.Module(), *parts, mask, dropout=0.1)[0]

    wanted = (query @ key.transpose(-1, -2) / 2).masked_fill(~mask if masked else torch.tensor(False), -torch.inf)
    wanted = (wanted.softmax(-1) * bits / (1 - rate)) @ value
    torch.testing.assert_close(lean(query, key, value), wanted.transpose(1, 2))
    assert torch.autograd.gradcheck(lean, (query, key, value))
    monkeypatch.undo()
    drawn, rate = lean_dropout._bits(torch.Size((1000, 1001)), 0.1)
    assert drawn.float().mean().item() == pytest.approx(0.9, abs=1e-3) and rate == pytest.approx(0.1, abs=1e-5)


def test_lean_dropout_drops_the_wanted_share_backwards_as_forwards_and_nothing_in_evaluation():
    model = torch.nn.Sequential(torch.nn.Dropout(0.1))
    lean_dropout.replace_dropout(model)
    assert type(model[0]) is lean_dropout.Dropout
    given = torch.ones(1000, 1001, requires_grad=True)
    found = model(given)
    found.sum().backward()
    assert torch.equal(found, given.grad) and found.unique().tolist() == pytest.approx([0, 1 / 0.9], rel=1e-4)
    assert found.mean().item() == pytest.approx(1, abs=1e-3)
    assert torch.equal(model.eval()(given), given)
    assert not lean_dropout.Dropout(1.0)(given).any()


def test_in_bf16_on_a_cpu_texts_have_few_widths(bert):
    """A processor compiles a product for each new shape; in fp32 it does not."""
    encoder = tiny_encoder(bert, backbone="transformer").eval()
    tokens = encoder.tokenize(["w1 w2 w3", "w4"], "passage")
    tower = encoder.passage_tower
    exact = encoder.embed(tokens, "passage")
    assert tower.padded(tokens)[0].shape[1] == tokens.lengths.max()
    with torch.autocast("cpu", torch.bfloat16):
        ids, mask = tower.padded(tokens)
        torch.testing.assert_close(encoder.embed(tokens, "passage"), exact, atol=0.05, rtol=0.05)
    assert ids.shape == mask.shape == (2, min(32, encoder.transformers[0].config.max_position_embeddings))
    assert mask.sum(dim=1).tolist() == tokens.lengths.tolist()


def test_a_tuned_model_has_the_gradient_of_before_where_nothing_is_dropped(bert):
    encoder = tiny_encoder(bert, backbone="transformer")
    batch, loss = batch_and_loss(encoder)
    gradients.backward(encoder, batch, loss, seed=3, bf16=False)
    wanted = gradient_of(encoder)
    tune_for_training(encoder.transformers, encoder.device, "fp32")
    assert encoder.transformers[0].config._attn_implementation == lean_dropout.NAME
    gradients.backward(encoder, batch, loss, seed=3, bf16=False)
    torch.testing.assert_close(gradient_of(encoder), wanted, atol=1e-7, rtol=1e-6)


def test_the_cached_gradient_replays_dropout(bert, monkeypatch):
    """The oracle embeds the same chunks with the same dropout in one graph, and lets autograd do the rest."""
    encoder = tiny_encoder(bert, backbone="transformer").train()
    batch, loss = batch_and_loss(encoder)
    cached = gradients.cached_backward(encoder, batch, loss, seed=7, bf16=False, chunk_size=4)
    found = gradient_of(encoder)

    number, vectors = 0, {}
    for side, tokens in (("query", batch.queries), ("passage", batch.passages)):
        order = np.argsort(-tokens.lengths, kind="stable")
        parts = []
        for start in range(0, len(order), 4):
            with gradients.seeded(encoder.device, 7, number):
                parts.append(encoder.embed(tokens.take(order[start : start + 4]), side))
            number += 1
        vectors[side] = torch.cat(parts)[torch.from_numpy(np.argsort(order))]
    value = loss(vectors["query"], vectors["passage"])
    value.backward()
    assert cached == pytest.approx(value.item(), abs=1e-6)
    torch.testing.assert_close(found, gradient_of(encoder), atol=1e-6, rtol=1e-5)


def test_dropout_follows_the_seed_and_leaves_the_global_generator_as_it_was(bert):
    encoder = tiny_encoder(bert, backbone="transformer").train()
    batch, loss = batch_and_loss(encoder)
    before = torch.get_rng_state()
    first = gradients.backward(encoder, batch, loss, seed=1, bf16=False)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)
    assert gradients.backward(encoder, batch, loss, seed=1, bf16=False) == first
    assert gradients.backward(encoder, batch, loss, seed=2, bf16=False) != first


def test_bf16_is_near_fp32_and_leaves_float32_gradients(bert):
    encoder = tiny_encoder(bert, backbone="transformer")
    batch, loss = batch_and_loss(encoder)
    exact = gradients.backward(encoder, batch, loss, seed=1, bf16=False)
    encoder.zero_grad(set_to_none=True)
    half = gradients.backward(encoder, batch, loss, seed=1, bf16=True)
    assert half == pytest.approx(exact, rel=0.05)
    assert half != exact
    assert {weight.grad.dtype for weight in encoder.parameters()} == {torch.float32}
