"""The regulariser beside any objective: what it adds, from when on, and that a killed run does not feel it."""

import numpy as np
import pytest
import torch

from noisyir.base.errors import ConfigError
from noisyir.detection.settings import TrainNpcParams
from noisyir.methods.npc.objective import NoisyPairCorrection
from noisyir.training import bi_encoder
from noisyir.training.batches import assemble
from noisyir.training.bi_encoder import BiEncoderLearner, check_regulariser, regularised, train
from noisyir.training.learner import Contrastive, on_device
from noisyir.training.losses.dpr import ccr, masked_log_probs
from noisyir.training.settings import CcrParams, TrainDprParams
from tests.refusals import refuses
from tests.tiny_models import tiny_encoder
from tests.unit.training.test_gradients import gradient_of
from tests.unit.training.toy import SIZE, toy_pairs, training_context

BETA = 0.25
STANDARD = {"epochs": 4, "batch_size": 8, "learning_rate": 0.02, "hard_negatives": 1}
METHODS = ("dpr", "weighted", "npc")


def made(bert, method, tmp_path):
    """A fresh encoder, its pairs, the settings and the objective of a method."""
    encoder = tiny_encoder(bert)
    pairs, rng = toy_pairs(encoder, negatives=2), training_context(tmp_path).rng
    if method == "npc":
        params = TrainNpcParams(**STANDARD, npc={"warmup_epochs": 1})
        return encoder, pairs, params, NoisyPairCorrection(encoder, pairs, params, rng)
    weights = torch.linspace(0, 1, SIZE) if method == "weighted" else None
    return encoder, pairs, TrainDprParams(**STANDARD), Contrastive(weights)


@pytest.mark.parametrize("method", METHODS)
def test_it_takes_beta_times_the_mean_over_queries_off_any_loss(bert, tmp_path, method):
    encoder, pairs, params, objective = made(bert, method, tmp_path)
    params = params.model_copy(update={"ccr": CcrParams(beta=BETA)})
    learner = BiEncoderLearner(encoder, pairs, None, params, objective, training_context(tmp_path).rng)
    rows = np.array([5, 2, 11, 5])
    batch = assemble(pairs, rows, np.array([[6], [3], [5], [1]]))
    found = learner.descend(batch, seed=0)["train_loss"]
    gradient = gradient_of(encoder)
    queries, passages = encoder.embed_both(batch.queries, batch.passages)
    scores = 20.0 * queries @ passages.T
    _, ignored = on_device(batch, scores.device)
    assert ignored.any()
    expected = objective.loss(batch, scores) - BETA * ccr(masked_log_probs(scores, ignored), ignored).mean()
    expected.backward()
    assert found == pytest.approx(expected.item(), rel=1e-6)
    assert gradient.isfinite().all()
    torch.testing.assert_close(gradient, gradient_of(encoder))


def run(bert, tmp_path, method, ccr_params, *, die_at=None, checkpoint_seconds=1e9):
    """The weights and curves; `die_at` raises at that step's loss, as a kill would end it."""
    torch.set_num_threads(1)
    encoder, pairs, params, objective = made(bert, method, tmp_path)

    def metric(name, value, step):
        if name == "train_loss" and step == die_at:
            raise KeyboardInterrupt

    context = training_context(tmp_path, checkpoint_seconds=checkpoint_seconds, metric=metric)
    params = params.model_copy(update={"ccr": ccr_params})
    curves = train(encoder, pairs, None, params, objective, context)
    return [weight.detach() for weight in encoder.parameters()], curves


@pytest.mark.parametrize("method", ["dpr", "npc"])
def test_it_counts_from_its_first_epoch_on(bert, tmp_path, method):
    def losses(ccr_params):
        _, curves = run(bert, tmp_path, method, ccr_params)
        return [value for name, _, _, value in curves if name == "train_loss"]

    plain, later = losses(CcrParams()), losses(CcrParams(beta=BETA, from_epoch=2))
    assert later[:6] == plain[:6]  # three steps an epoch
    assert later[6] < plain[6]


@pytest.mark.parametrize(
    ("settings", "by_epoch"),
    [
        ({"beta": 0.4, "from_epoch": 1}, [0.0, 0.4, 0.4, 0.4]),
        ({"beta": 0.4, "from_epoch": 1, "ramp": 2}, [0.0, 0.2, 0.4, 0.4]),
        ({"beta": [0.0, 0.1, 0.3]}, [0.0, 0.1, 0.3, 0.3]),
        ({"beta": [0.1, 0.3], "from_epoch": 2}, [0.0, 0.0, 0.1, 0.3]),
    ],
)
def test_its_weight_follows_the_epochs(bert, tmp_path, monkeypatch, settings, by_epoch):
    used = []

    def spy(loss, batch, scores, beta):
        used.append(beta)
        return regularised(loss, batch, scores, beta)

    monkeypatch.setattr(bi_encoder, "regularised", spy)
    run(bert, tmp_path, "dpr", CcrParams(**settings))
    assert used == pytest.approx([beta for beta in by_epoch if beta for _ in range(3)])  # three steps an epoch


def test_a_weight_that_is_0_in_all_epochs_or_once_too_large_for_dot_products_is_refused():
    params = TrainDprParams(epochs=2, ccr={"beta": [0.0, 0.0, 0.5]})
    with refuses(ConfigError, "training.ccr_never_applies", epochs=2):
        check_regulariser(params, "cosine")
    with refuses(ConfigError, "training.ccr_unbounded", beta=0.5):
        check_regulariser(params.model_copy(update={"epochs": 3}), "dot")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("step", [5, 8])
def test_a_run_that_was_killed_within_an_epoch_ends_in_the_same_bits(bert, tmp_path, method, step):
    """Three steps an epoch: the fifth is in the last epoch without the regulariser, the eighth in the first with."""
    settings = CcrParams(beta=BETA, from_epoch=2)
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    weights, curves = run(bert, tmp_path / "whole", method, settings)
    with pytest.raises(KeyboardInterrupt):
        run(bert, tmp_path / "killed", method, settings, die_at=step, checkpoint_seconds=0)
    again, curves_again = run(bert, tmp_path / "killed", method, settings)
    assert curves_again == curves
    for one, other in zip(weights, again, strict=True):
        assert torch.equal(one, other)
