"""A step at full size with fake tensors: its FLOPs, its bytes, and that it is the step that training takes."""

import numpy as np
import pytest

from noisyir.base.errors import DataError
from noisyir.engine.known_stages import known_stages
from noisyir.models.bi_encoder import initial_bi_encoder
from noisyir.models.settings import InitModelParams, InitRankerParams
from noisyir.training.bi_encoder import BiEncoderLearner
from noisyir.training.full_size import CountedWork, bi_encoder, constant_rng, costs, full_pairs, retriever_learners
from noisyir.training.learner import Contrastive
from noisyir.training.settings import TrainDprParams, WarmUpRankerParams
from tests.refusals import refuses
from tests.tiny_models import tiny_bert

BASE = {"backbone": "transformer", "weights": "google-bert/bert-base-uncased", "pooling": "cls"}
BASE |= {"query_max_len": 32, "passage_max_len": 64}
BERT = InitModelParams(**BASE, layers=2)


def cost(start=BERT, **params):
    (found,) = costs(lambda: retriever_learners(TrainDprParams(**{"batch_size": 4, **params}), {"model": start}))
    return found


def test_flops_are_those_of_the_formula_and_weights_are_in_memory_four_times():
    whole = InitModelParams(**BASE)
    lengths = np.array([32] * 4 + [64] * 4)
    # s (6 N + 12 L H s) of a text of s tokens, with N weights outside the embeddings (Chowdhery et al., 2022, app. B)
    formula = (lengths * (6 * 85_056_000 + 12 * 12 * 768 * lengths)).sum()
    found = cost(whole)
    assert found.texts == {32: 4, 64: 4} and found.learner == "retriever" and found.precision == "fp32"
    assert found.flops == pytest.approx(formula, rel=0.02)
    assert found.weights == pytest.approx(109e6, rel=0.01)
    assert 16 * found.weights < found.memory < 18 * found.weights  # and its gradient, and two moments


@pytest.mark.slow
def test_activations_grow_with_the_batch_and_settings_that_save_memory_do():
    some, more, most = (cost(batch_size=count) for count in (256, 384, 640))
    assert most.memory - more.memory == pytest.approx(2 * (more.memory - some.memory), rel=0.05)
    large = {"batch_size": 256, "precision": "bf16"}
    plain, cached, again = (
        cost(**large, **more) for more in ({}, {"chunk_size": 32}, {"gradient_checkpointing": True})
    )
    assert max(cached.memory, again.memory) < 0.7 * plain.memory
    for dearer in (cached, again):  # a second forward pass
        assert dearer.flops == pytest.approx(plain.flops * 4 / 3, rel=0.05) and dearer.texts == plain.texts
    assert plain.memory < some.memory


def test_two_towers_have_twice_the_weights_and_frozen_layers_no_moments():
    apart = InitModelParams(**BASE, layers=2, shared=False)
    assert cost(apart).weights == 2 * cost().weights
    assert cost(freeze=1).memory < cost().memory


def test_a_fake_step_counts_what_a_real_one_does(tmp_path):
    start = InitModelParams(
        backbone="transformer", weights=str(tiny_bert(tmp_path)), pooling="mean", query_max_len=8, passage_max_len=16
    )
    params = TrainDprParams(batch_size=4, hard_negatives=1)

    def learner(encoder):
        for inner in encoder.transformers:
            inner.set_attn_implementation("eager")
        pairs = full_pairs(encoder, params.batch_size, params.hard_negatives)
        return BiEncoderLearner(encoder, pairs, None, params, Contrastive(), constant_rng)

    (fake,) = costs(lambda: [learner(bi_encoder(start))])
    real, counted = learner(initial_bi_encoder(tmp_path, start)), CountedWork()
    with counted:
        real.step()  # which sees the weights, as the optimiser moves them
        counted.restart()
        real.step()
    assert fake.flops == counted.flops > 0
    assert fake.memory == pytest.approx(counted.most, rel=0.02)


@pytest.mark.parametrize("name", [name for name, stage in known_stages().items() if stage.learners])
def test_every_training_stage_takes_its_step(name):
    stage = known_stages()[name]
    ranker = InitRankerParams(weights=BERT.weights, layers=2, max_len=24)
    start = {"model": BERT, "ranker": ranker}
    if "reader" in stage.reads:
        from noisyir.readers.settings import InitReaderParams

        start = {"reader": InitReaderParams(weights=BERT.weights, layers=2, max_len=48, question_max_len=8)}
    small = {"batch_size": 2, "ranker_batch_size": 2, "retriever_batch_size": 2, "n": 3, "hard_negatives": 2}
    params = stage.params(**{key: value for key, value in small.items() if key in stage.params.model_fields})
    found = costs(lambda: stage.learners(params, start))
    assert {one.learner for one in found} <= {"retriever", "ranker", "reader"}
    assert all(one.flops > 0 and one.memory > 16 * one.weights and one.texts for one in found)


@pytest.mark.slow
def test_lists_at_once_lower_a_rankers_memory():
    start = {"ranker": InitRankerParams(weights=BERT.weights, layers=2, max_len=64)}
    learners = known_stages()["warm_up_ranker"].learners

    def memory(**params):
        (found,) = costs(lambda: learners(WarmUpRankerParams(batch_size=8, n=7, **params), start))
        return found.memory, found.texts

    assert memory(lists_at_once=1)[0] < memory()[0] and memory(lists_at_once=1)[1] == memory()[1] == {64: 64}


def test_a_model_that_is_neither_here_nor_known_is_said_in_a_line():
    with refuses(DataError, "training.unknown_shape", weights="nobody/knows"):
        cost(InitModelParams(backbone="transformer", weights="nobody/knows"))
