"""Co-teaching (Han et al., NeurIPS 2018, Algorithm 1) by hand arithmetic, and the whole of it against a plain loop."""

from functools import partial

import numpy as np
import pytest
import torch

from noisyir.base.errors import DataError
from noisyir.methods.co_teaching.learner import CoTeachingRun, keep_share, perturbed, small_loss, taught
from noisyir.training.batches import PairBatches, Ragged, TrainingPairs
from noisyir.training.bi_encoder import train
from noisyir.training.learner import Contrastive
from noisyir.training.losses.dpr import pair_nll
from noisyir.training.optimisers import learning_rate, optimiser_for
from noisyir.training.run import TrainingContext
from noisyir.training.settings import TrainCoTeachingParams
from tests.refusals import refuses
from tests.tiny_models import tiny_bert, tiny_encoder

SIZE = 23


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return tiny_bert(tmp_path_factory.mktemp("bert"), layers=1)


def noisy_pairs(encoder):
    """Query i shares a word with passage i; every third query is paired with the next one's passage instead."""
    rows = np.arange(SIZE)
    passage = np.where(rows % 3 == 0, (rows + 1) % SIZE, rows)
    return TrainingPairs(
        rows, passage, rows, Ragged.grouped(rows, passage, SIZE), Ragged.grouped(rows, (passage + 5) % SIZE, SIZE),
        encoder.tokenize([f"w{i} w{40 + i % 7}" for i in rows], "query"),
        encoder.tokenize([f"w{(i + SIZE) % 60} w{50 + i % 9} w{i}" for i in rows], "passage"),
    )  # fmt: skip


def settings(**changes):
    co_teaching = {"ramp_epochs": 2, "perturbation": 0.3} | changes.pop("co_teaching", {})
    standard = {"epochs": 4, "batch_size": 8, "learning_rate": 0.01, "hard_negatives": 1}
    return TrainCoTeachingParams.model_validate({**standard, **changes, "co_teaching": co_teaching})


def context(work, metric=lambda *_: None, checkpoint_seconds=1e9):
    def rng(*purpose):
        return np.random.default_rng(list("/".join(map(str, purpose)).encode()))

    return TrainingContext(rng, work, checkpoint_seconds, lambda *_: None, metric)


def co_teach(encoder, params, work, rate=0.4, **how):
    """The trained encoder, its objective, and the curves."""
    pairs, given = noisy_pairs(encoder), context(work, **how)
    objective = CoTeachingRun(encoder, pairs, params, given.rng, rate)
    return encoder, objective, train(encoder, pairs, None, params, objective, given)


def bits(encoder):
    return {name: weight.detach().numpy().tobytes() for name, weight in encoder.named_parameters()}


def weights(encoder):
    return torch.cat([weight.detach().flatten() for weight in encoder.parameters()])


# The paper's formulas ---------------------------------------------------------------------------------------


def test_the_kept_share_falls_to_one_minus_the_noise_rate():
    # R(T) = 1 - tau min(T / T_k, 1), tau = 0.4, T_k = 4
    assert [keep_share(epoch, 0.4, 4) for epoch in range(7)] == pytest.approx([1.0, 0.9, 0.8, 0.7, 0.6, 0.6, 0.6])


def test_the_pairs_of_smallest_loss_are_kept():
    losses = torch.tensor([3.0, 0.5, 2.0, 0.1, 9.0])
    assert small_loss(losses, 0.6).tolist() == [3, 1, 2]
    assert small_loss(losses, 0.5).tolist() == [3, 1, 2], "ceil(2.5) = 3"
    assert small_loss(losses, 1.0).tolist() == [3, 1, 2, 0, 4]


@pytest.mark.parametrize("tenths", range(1, 11))
def test_rounding_errors_keep_no_pair_more(tenths):
    assert len(small_loss(torch.rand(10), 1.0 - (10 - tenths) / 10)) == tenths


def test_of_equal_losses_the_first_are_kept():
    assert small_loss(torch.full((300,), 2.0), 0.5).tolist() == list(range(150))


def test_each_learns_from_what_is_easy_to_the_other():
    first, second = torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([40.0, 10.0, 30.0, 20.0])
    assert taught(first, second, 0.5).item() == (2.0 + 4.0) / 2  # the second's smallest: pairs 1 and 3
    assert taught(second, first, 0.5).item() == (40.0 + 10.0) / 2  # the first's smallest: pairs 0 and 1


def test_pairs_that_are_dropped_get_no_gradient():
    losses = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    taught(losses, torch.tensor([40.0, 10.0, 30.0, 20.0]), 0.5).backward()
    assert losses.grad.tolist() == [0.0, 0.5, 0.0, 0.5]


def test_with_all_pairs_kept_the_loss_is_dprs():
    scores, positive = torch.randn(6, 6), torch.arange(6)
    losses = pair_nll(scores, positive, torch.zeros(6, 6, dtype=torch.bool))
    assert taught(losses, torch.randn(6), 1.0).item() == pytest.approx(losses.mean().item())


# The second model -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backbone", ["static", "transformer"])
def test_the_second_model_starts_a_little_away_from_the_first(bert, backbone):
    encoder = tiny_encoder(bert, backbone=backbone)
    before = bits(encoder)
    peer = perturbed(encoder, 0.1, np.random.default_rng(0))
    assert bits(encoder) == before
    assert peer.query_tower is peer.passage_tower
    for (name, old), new in zip(encoder.named_parameters(), peer.parameters(), strict=True):
        if old.numel() > 500:
            assert ((new - old).std() / old.std()).item() == pytest.approx(0.1, rel=0.1), name
    assert bits(perturbed(encoder, 0.0, np.random.default_rng(0))) == before
    assert bits(perturbed(encoder, 0.1, np.random.default_rng(0))) == bits(peer)


# The algorithm ----------------------------------------------------------------------------------------------


def test_training_is_algorithm_1(bert, tmp_path):
    params = settings()
    f = tiny_encoder(bert, backbone="static")
    pairs, rng = noisy_pairs(f), context(tmp_path).rng
    g = perturbed(f, 0.3, rng("peer"))
    models, step = ((f, optimiser_for(f, params)), (g, optimiser_for(g, params))), 0
    batches = PairBatches(pairs, params.batch_size, 1, partial(rng, "epoch"))
    for epoch in range(4):
        keep = [1.0, 0.8, 0.6, 0.6][epoch]
        for batch in map(batches.__getitem__, range(3 * epoch, 3 * epoch + 3)):
            losses = []
            for model, _ in models:
                queries, passages = model.embed_both(batch.queries, batch.passages)
                scores = (20.0 * queries @ passages.T).masked_fill(torch.from_numpy(batch.ignored), -np.inf)
                losses.append(scores.logsumexp(1) - scores[np.arange(len(batch)), batch.positive])
            for (_, optimiser), own, other in zip(models, losses, losses[::-1], strict=True):
                easy = np.argsort(other.detach().numpy())[: int(np.ceil(keep * len(batch)))]
                own[easy].mean().backward()
                optimiser.step(learning_rate(step, 12, params))
            step += 1

    trained, objective, curves = co_teach(tiny_encoder(bert, backbone="static"), params, tmp_path)
    torch.testing.assert_close(weights(trained), weights(f), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(weights(objective.peer), weights(g), rtol=1e-4, atol=1e-5)
    shares = [(step, value) for name, step, _, value in curves if name == "keep_share"]
    assert shares == [(0, 1.0), (3, 0.8), (6, 0.6), (9, 0.6)]


@pytest.mark.parametrize("backbone", ["static", "transformer"])
def test_without_noise_to_drop_it_is_plain_training(bert, tmp_path, backbone):
    params = settings()
    trained, objective, _ = co_teach(tiny_encoder(bert, backbone=backbone), params, tmp_path, rate=0.0)
    plain = tiny_encoder(bert, backbone=backbone)
    train(plain, noisy_pairs(plain), None, params, Contrastive(), context(tmp_path))
    torch.testing.assert_close(weights(trained), weights(plain), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(weights(objective.peer), weights(plain), rtol=1e-2, atol=1e-2)


def test_gradient_caching_changes_nothing(bert, tmp_path):
    whole, objective, _ = co_teach(tiny_encoder(bert, backbone="static"), settings(), tmp_path)
    cached, objective_again, _ = co_teach(tiny_encoder(bert, backbone="static"), settings(chunk_size=3), tmp_path)
    torch.testing.assert_close(weights(cached), weights(whole), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(weights(objective_again.peer), weights(objective.peer), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("backbone", "step", "chunk_size"),
    [("static", 7, None), ("static", 7, 3), ("transformer", 5, 3), ("transformer", 6, None)],
)
def test_a_run_that_was_cut_off_ends_in_the_same_bits(bert, tmp_path, backbone, step, chunk_size):
    params = settings(chunk_size=chunk_size)
    (tmp_path / "cut").mkdir()
    whole, objective, curves = co_teach(tiny_encoder(bert, backbone=backbone), params, tmp_path)
    taken = []

    def metric(name, _, at):
        if name == "train_loss":
            taken.append(at)
            if taken == list(range(1, step + 1)):
                raise KeyboardInterrupt

    how = {"metric": metric, "checkpoint_seconds": 1e-9}
    with pytest.raises(KeyboardInterrupt):
        co_teach(tiny_encoder(bert, backbone=backbone), params, tmp_path / "cut", **how)
    resumed, objective_again, curves_again = co_teach(
        tiny_encoder(bert, backbone=backbone), params, tmp_path / "cut", **how
    )
    assert taken == [*range(1, step + 1), *range(step, 13)], "the step it was cut off in was not yet saved"
    assert curves_again == curves
    assert bits(resumed) == bits(whole)
    assert bits(objective_again.peer) == bits(objective.peer)


def test_a_second_model_that_diverges_is_an_error(bert, tmp_path):
    encoder = tiny_encoder(bert, backbone="static")
    pairs, params, rng = noisy_pairs(encoder), settings(), context(tmp_path).rng
    objective = CoTeachingRun(encoder, pairs, params, rng, 0.4)
    with torch.no_grad():
        next(objective.peer.parameters()).fill_(float("nan"))
    with refuses(DataError, "methods.co_teaching_diverged_second", step=0):
        train(encoder, pairs, None, params, objective, context(tmp_path))
