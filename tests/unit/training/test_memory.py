"""A step that finds too little memory is taken again in smaller parts, and its gradient is the same."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from noisyir.methods.ar2.rounds import RetrieverLearner
from noisyir.training.bi_encoder import BiEncoderLearner, train
from noisyir.training.learner import Contrastive
from noisyir.training.ranker import RankerLearner
from noisyir.training.settings import TrainAr2Params, TrainDprParams
from tests.tiny_models import tiny_encoder
from tests.unit.training.ar2_world import SETTINGS, material, toy_ranker
from tests.unit.training.crew import without_dropout
from tests.unit.training.test_ar2 import BATCH, gradients
from tests.unit.training.toy import toy_pairs, training_context


def limit(module, room, monkeypatch, name):
    """Let a model fail as a full GPU does once more than `room` texts pass through it with a graph."""
    whole = getattr(module, name)

    def limited(texts, *args):
        if torch.is_grad_enabled() and len(texts) > room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return whole(texts, *args)

    monkeypatch.setattr(module, name, limited)


def a_learner(bert, tmp_path, **settings):
    encoder = without_dropout(tiny_encoder(bert, backbone="transformer", layers=1)).train()
    params = TrainDprParams(batch_size=8, hard_negatives=1, epochs=2, **settings)
    pairs = toy_pairs(encoder, negatives=2)
    return BiEncoderLearner(encoder, pairs, None, params, Contrastive(), training_context(tmp_path).rng)


def test_a_batch_is_halved_until_it_fits(bert, tmp_path, monkeypatch):
    whole, halved = a_learner(bert, tmp_path), a_learner(bert, tmp_path, chunk_size="auto")
    batch = whole.batches[0]
    limit(halved.encoder, 5, monkeypatch, "embed")
    assert halved.descend(batch, seed=0) == pytest.approx(whole.descend(batch, seed=0), rel=1e-6)
    assert halved.gradient.chunks.size == 3, "24 texts a step, 12, 6, 3"
    torch.testing.assert_close(gradients(halved.encoder), gradients(whole.encoder), rtol=1e-4, atol=1e-6)


def test_both_of_ar2s_learners_go_on_with_less(bert, tmp_path, monkeypatch):
    def learners(**settings):
        encoder = without_dropout(tiny_encoder(bert, backbone="transformer", layers=1))
        ranker = without_dropout(toy_ranker(bert))
        params, given = TrainAr2Params(**{**SETTINGS, **settings}), material(encoder)
        context = training_context(tmp_path)
        of_ranker = RankerLearner(ranker, given.lists, params, context.rng, batch_size=6, learning_rate=1e-3, steps=10)
        return of_ranker, RetrieverLearner(encoder, ranker, given, params, context.rng)

    whole, less = learners(), learners(lists_at_once="auto", chunk_size="auto")
    limit(less[0].ranker, 4, monkeypatch, "forward")  # one list
    limit(less[1].encoder, 5, monkeypatch, "embed")
    for one, other in zip(whole, less, strict=True):
        found = [learner.descend(BATCH, seed=0) for learner in (other, one)]
        assert found[0] == pytest.approx(found[1], rel=1e-4)
        torch.testing.assert_close(gradients(other.model), gradients(one.model), rtol=1e-4, atol=1e-6)
        assert other.tokens == one.tokens > 0
    assert less[0].at_once.size == 1 and less[1].gradient.chunks.size == 4


def test_checkpointed_training_is_that_without(bert, tmp_path):
    def weight(**settings):
        encoder = tiny_encoder(bert, backbone="transformer", layers=1)
        params = TrainDprParams(epochs=1, batch_size=8, learning_rate=0.002, **settings)
        train(encoder, toy_pairs(encoder), None, params, Contrastive(), training_context(tmp_path))
        return {name: value.detach() for name, value in encoder.named_parameters()}

    torch.testing.assert_close(weight(gradient_checkpointing=True), weight(), rtol=1e-3, atol=1e-5)


def test_rates_are_told_while_training_and_kept_in_the_end(bert, tmp_path):
    told, kept = {}, {}
    context = training_context(tmp_path, metric=lambda name, value, step: told.setdefault(name, []).append(value))
    encoder = tiny_encoder(bert)
    train(
        encoder,
        toy_pairs(encoder),
        None,
        TrainDprParams(epochs=2, batch_size=8),
        Contrastive(),
        replace(context, note=kept.__setitem__),
    )
    assert len(told["pairs_per_second"]) == len(told["tokens_per_second"]) == 6
    mean = kept["throughput"]
    assert min(told["pairs_per_second"]) <= mean["pairs_per_second"] <= max(told["pairs_per_second"])
    assert mean["chunk_size"] is None and np.isfinite(mean["tokens_per_second"])
