"""The DPR loop on a task that a tiny model can learn."""

import pytest
import torch

from noisyir.base.errors import ConfigError, DataError
from noisyir.training.bi_encoder import train
from noisyir.training.learner import Contrastive
from noisyir.training.settings import TrainDprParams
from noisyir.training.validation import dev_mrr
from tests.refusals import refuses
from tests.tiny_models import tiny_encoder
from tests.unit.training.toy import toy_held, toy_pairs, training_context

STATIC = TrainDprParams(epochs=8, batch_size=8, learning_rate=0.05)
TRANSFORMER = TrainDprParams(epochs=12, batch_size=8, learning_rate=0.002)


@pytest.mark.parametrize(
    ("shape", "params"),
    [
        ({"backbone": "static"}, STATIC),
        ({"backbone": "static", "shared": False}, STATIC.model_copy(update={"hard_negatives": 2})),
        ({"backbone": "transformer"}, TRANSFORMER),
        ({"backbone": "transformer", "shared": False}, TRANSFORMER.model_copy(update={"chunk_size": 12})),
        ({"backbone": "transformer", "layers": 1}, TRANSFORMER.model_copy(update={"precision": "bf16"})),
    ],
)
def test_training_lowers_the_loss_and_ranks_better(bert, tmp_path, shape, params):
    encoder = tiny_encoder(bert, **shape)
    held, before = toy_held(encoder), dev_mrr(encoder, toy_held(encoder))
    curves = train(encoder, toy_pairs(encoder, negatives=2), held, params, Contrastive(), training_context(tmp_path))
    losses = [value for name, _, _, value in curves if name == "train_loss"]
    ranked = [(step, epoch, value) for name, step, epoch, value in curves if name == "dev_mrr@10"]
    assert sum(losses[-6:]) < sum(losses[:6])
    assert [(step, epoch) for step, epoch, _ in ranked] == [(3 * k, k) for k in range(1, params.epochs + 1)]
    assert ranked[-1][2] > min(1.5 * before, 0.95)
    assert dev_mrr(encoder, held) == ranked[-1][2]
    assert not encoder.training


def test_the_same_seed_gives_the_same_bits_and_another_seed_other_ones(bert, tmp_path):
    def weight(seed):
        encoder = tiny_encoder(bert)
        train(encoder, toy_pairs(encoder), None, STATIC, Contrastive(), training_context(tmp_path, seed=seed))
        return encoder.passage_tower.weight.detach()

    assert torch.equal(weight(1), weight(1))
    assert not torch.equal(weight(1), weight(2))


def test_patience_ends_training_and_the_best_weights_come_back(bert, tmp_path):
    encoder = tiny_encoder(bert)
    params = TrainDprParams(epochs=30, batch_size=8, learning_rate=0.05, patience=2)
    held = toy_held(encoder)
    curves = train(encoder, toy_pairs(encoder), held, params, Contrastive(), training_context(tmp_path))
    ranked = [value for name, _, _, value in curves if name == "dev_mrr@10"]
    best = max(ranked)
    assert len(ranked) == ranked.index(best) + 1 + 2 < 30
    assert dev_mrr(encoder, held) == best


def test_the_loss_curve_is_the_mean_of_the_steps_it_stands_for(bert, tmp_path, monkeypatch):
    def losses(points):
        monkeypatch.setattr("noisyir.training.run._POINTS", points)
        encoder = tiny_encoder(bert)
        curves = train(encoder, toy_pairs(encoder), None, STATIC, Contrastive(), training_context(tmp_path))
        return [(step, value) for name, step, _, value in curves if name == "train_loss"]

    every, thinned = losses(1000), losses(5)  # 24 steps in windows of 5
    assert [step for step, _ in every] == list(range(1, 25))
    assert [step for step, _ in thinned] == [5, 10, 15, 20, 24]
    assert thinned[0][1] == pytest.approx(sum(value for _, value in every[:5]) / 5)
    assert thinned[-1][1] == pytest.approx(sum(value for _, value in every[20:]) / 4)


def test_a_pool_of_its_own_without_hard_negatives_is_an_error(bert, tmp_path):
    encoder = tiny_encoder(bert)
    with refuses(ConfigError, "training.own_pool_is_empty"):
        train(encoder, toy_pairs(encoder), None, TrainDprParams(pool="own"), Contrastive(), training_context(tmp_path))


def test_pools_of_their_own_teach_too(bert, tmp_path):
    encoder = tiny_encoder(bert)
    params = STATIC.model_copy(update={"pool": "own", "hard_negatives": 4})
    held, before = toy_held(encoder), dev_mrr(encoder, toy_held(encoder))
    train(encoder, toy_pairs(encoder, negatives=4), held, params, Contrastive(), training_context(tmp_path))
    assert dev_mrr(encoder, held) > before


def test_patience_without_dev_queries_is_an_error(bert, tmp_path):
    encoder = tiny_encoder(bert)
    with refuses(ConfigError, "training.patience_without_dev", patience=2):
        train(encoder, toy_pairs(encoder), None, TrainDprParams(patience=2), Contrastive(), training_context(tmp_path))


class Recording(Contrastive):
    """Tells what it was asked to do."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def start_epoch(self, epoch):
        self.calls.append(("start_epoch", epoch))
        return {"point": float(epoch)}

    def after_step(self):
        self.calls.append(("after_step",))

    def finish(self):
        self.calls.append(("finish",))


def test_an_objective_is_told_of_epochs_steps_and_the_end(bert, tmp_path):
    encoder, objective = tiny_encoder(bert), Recording()
    params = TrainDprParams(epochs=2, batch_size=12)
    curves = train(encoder, toy_pairs(encoder), None, params, objective, training_context(tmp_path))
    epoch = [("after_step",)] * 2
    assert objective.calls == [("start_epoch", 0), *epoch, ("start_epoch", 1), *epoch, ("finish",)]
    assert [point for point in curves if point[0] == "point"] == [("point", 0, 0.0, 0.0), ("point", 2, 1.0, 1.0)]


def test_a_diverging_run_ends_with_advice(bert, tmp_path):
    encoder = tiny_encoder(bert, similarity="dot")
    params = TrainDprParams(epochs=50, batch_size=8, scale=1e20, warmup_ratio=0.0)
    params = params.model_copy(update={"learning_rate": 1e20})  # which no one may set
    with refuses(DataError, "training.diverged", rate="train.learning_rate"):
        train(encoder, toy_pairs(encoder), None, params, Contrastive(), training_context(tmp_path))
